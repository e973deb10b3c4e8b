"""Puro, by the published HTTP interface of MyPuro.

It returns one answer per idempotency key. The purpose of a retirement, which is public, has our reference.
"""

import base64
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.supply.registries.adapters.registry_http import (
    Moment,
    NotFoundThere,
    NotServed,
    RegistryHttp,
    convert,
)
from tonne.supply.registries.gateway import (
    INSUFFICIENT,
    REFERENCE,
    Answer,
    Holding,
    Instruction,
    Movement,
    NotRead,
    Outcome,
)
from tonne.supply.stock.serial_runs import Numbers, join_runs
from tonne_verify.serials.parse import parse
from tonne_verify.serials.units import SerialError, UnitRange

PAGE_SIZE = 100
MAX_PAGES = 1000
# How far back a look-up searches the list. What it misses is found by sending the request again, under its key.
PAGES_TO_SEARCH = 10
MAX_NAME = 100
RETIREMENT = "Retirement"


class _CertificateBundle(Struct):
    certificates: str
    volume: int

    @property
    def units(self) -> UnitRange:
        """Raises NotRead."""
        try:
            units = parse("Puro", self.certificates)
        except SerialError as error:
            raise NotRead(str(error)) from error
        if units.last - units.first + 1 != self.volume:
            raise NotRead(f"{self.certificates} are not {self.volume} units.")
        return units


class _Transaction(Struct, rename="camel"):
    """A transaction that is not completed yet may still be rejected."""

    transaction_id: str
    type: str
    completed_on: Moment | None
    rejected_on: Moment | None = None
    bundles: list[_CertificateBundle] = []
    retirement_purpose: str | None = None
    public_statement_url: str | None = None


class _Pagination(Struct):
    total: int


class _BalancePage(Struct):
    pagination: _Pagination
    data: list[_CertificateBundle]


class _TransactionPage(Struct):
    pagination: _Pagination
    data: list[_Transaction]


_Listed = TypeVar("_Listed", _BalancePage, _TransactionPage)


class Puro:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._account = settings.puro_account_number
        credentials = f"{settings.puro_api_key}:{settings.puro_api_secret}".encode()
        headers = {"Authorization": f"Basic {base64.b64encode(credentials).decode()}"}
        self._http = RegistryHttp(settings.puro_api_base, headers, settings)

    async def retire(self, instruction: Instruction) -> Answer:
        headers = {"Idempotency-Key": instruction.id}
        try:
            reply = await self._http.send(
                "POST", "/transactions/retirement", body=self._body(instruction), headers=headers
            )
            if reply.is_refusal:
                return await self._refused(instruction, reply.words)
            return _answer(convert(reply.document, _Transaction))
        except NotServed as error:
            return error.answer
        except NotRead as error:
            return Answer(outcome=Outcome.UNKNOWN, message=str(error))

    async def _refused(self, instruction: Instruction, words: str) -> Answer:
        """The refusal does not say whether the units are missing."""
        try:
            active = [
                run for each in await self.list_holdings() if each.id == instruction.holding_id for run in each.units
            ]
        except NotRead as error:
            return NotServed(f"{words} {error}").answer
        has_all = all(any(a <= first and last <= b for a, b in active) for first, last in instruction.units)
        return Answer(outcome=Outcome.DECLINED, code="refused" if has_all else INSUFFICIENT, message=words)

    async def look_up(self, instruction: Instruction) -> Answer:
        try:
            if instruction.registry_reference is not None:
                return _answer(await self._http.read(f"/transactions/{instruction.registry_reference}", _Transaction))
            async for page in self._pages("/transactions", _TransactionPage, PAGES_TO_SEARCH):
                for made in page.data:
                    if instruction.reference in (made.retirement_purpose or ""):
                        return _answer(made)
        except NotFoundThere:
            return Answer(outcome=Outcome.UNKNOWN, message="The registry does not show the transaction.")
        except NotRead as error:
            return Answer(outcome=Outcome.UNKNOWN, code=getattr(error, "code", None), message=str(error))
        return Answer(outcome=Outcome.NOT_FOUND)

    async def list_holdings(self) -> Sequence[Holding]:
        """One for each issuance: the text of a bundle changes when a part of it is retired."""
        found: dict[str, list[Numbers]] = {}
        namespaces: dict[str, str] = {}
        async for page in self._pages(f"/accounts/{self._account}/balance", _BalancePage):
            for bundle in page.data:
                units = bundle.units
                found.setdefault(frame_of(units), []).append((units.first, units.last))
                namespaces[frame_of(units)] = units.namespace
        return [Holding(frame, "", tuple(join_runs(runs)), namespaces[frame]) for frame, runs in found.items()]

    async def read_balance(self) -> int:
        return sum(holding.unit_count for holding in await self.list_holdings())

    async def list_movements(self, since: datetime) -> Sequence[Movement]:
        found: list[Movement] = []
        async for page in self._pages("/transactions", _TransactionPage):
            for made in page.data:
                if made.completed_on is not None and made.completed_on < since:
                    return found
                if made.type == RETIREMENT and made.rejected_on is None:
                    reference = REFERENCE.search(made.retirement_purpose or "")
                    frames = [frame_of(each.units) for each in made.bundles]
                    found.append(Movement(reference[0] if reference else "", frames[0] if frames else ""))
        return found

    async def _pages(self, path: str, type_: type[_Listed], max_pages: int = MAX_PAGES) -> AsyncIterator[_Listed]:
        for number in range(max_pages):
            start = number * PAGE_SIZE
            page = await self._http.read(path, type_, limit=str(PAGE_SIZE), offset=str(start))
            yield page
            if start + len(page.data) >= page.pagination.total or not page.data:
                return
        if max_pages == MAX_PAGES:
            raise NotRead(f"{path} has too many pages.")

    def _body(self, instruction: Instruction) -> dict[str, Any]:
        """The seller is the beneficiary, on behalf of somebody: its location is the only one that is known."""
        settings = self._settings
        return {
            "sourceAccountNumber": self._account,
            "bundles": [
                {"certificates": serial_of(instruction.holding_id, first, last), "amount": last - first + 1}
                for first, last in instruction.units
            ],
            "unitPrice": settings.puro_unit_price.split()[1],
            "currency": settings.puro_unit_price.split()[0],
            "beneficiaryName": f"{settings.seller_name} on behalf of {instruction.beneficiary}"[:MAX_NAME],
            "beneficiaryLocation": settings.seller_country,
            "beneficiaryType": "END_CONSUMER",
            "beneficiaryContactPersonEmail": settings.puro_contact_email,
            "countryOfConsumption": settings.seller_country,
            "retirementPurpose": instruction.reference,
        }


def _answer(made: _Transaction) -> Answer:
    """Raises NotRead."""
    reference = made.transaction_id
    if made.rejected_on is not None:
        message = "The registry has rejected the retirement."
        return Answer(
            outcome=Outcome.DECLINED, code="rejected", message=message, registry_reference=reference, is_final=True
        )
    if made.completed_on is None:
        return Answer(outcome=Outcome.PENDING, registry_reference=reference)
    units = [each.units for each in made.bundles]
    if not units:
        raise NotRead(f"Transaction {reference} does not say which units it has retired.")
    return Answer(
        outcome=Outcome.RETIRED,
        registry_reference=reference,
        units=tuple((each.first, each.last) for each in units),
        retired_on=made.completed_on.date(),
        url=made.public_statement_url,
    )


def frame_of(units: UnitRange) -> str:
    """The text around the numbers, which is that of all bundles of an issuance."""
    return "|".join((units.before, units.between, units.after, str(units.width)))


def serial_of(frame: str, first: int, last: int) -> str:
    before, between, after, width = frame.split("|")
    return f"{before}{first:0{int(width)}}{between}{last:0{int(width)}}{after}"
