"""Isometric, by its published HTTP interface v0.

It has no keys of requests. A batch of credits can be used once: what takes a part of it splits it in two. A request is
therefore repeated with the same batch only, and the children of the batch say who has used it.
"""

import re
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec import Struct

from tonne.platform.settings.settings import Settings
from tonne.supply.registries.adapters.registry_http import Moment, NotFoundThere, NotServed, RegistryHttp, convert
from tonne.supply.registries.gateway import (
    HOLDING_UNKNOWN,
    HOLDING_USED,
    INSUFFICIENT,
    REFERENCE,
    Answer,
    Holding,
    Instruction,
    Movement,
    NotRead,
    Outcome,
)
from tonne_verify.serials.parse import parse
from tonne_verify.serials.units import SerialError, UnitRange

PAGE_SIZE = 50
MAX_PAGES = 2000
MAX_NOTES = 256
PURPOSES = ("public_environmental_claims",)


class _Size(Struct):
    credit_kgs: int


class _Owner(Struct):
    id: str


class _CreditBatch(Struct):
    id: str
    serial_number: str
    status: str
    size: _Size
    supplier_id: str
    left_child_id: str | None
    right_child_id: str | None
    parent_id: str | None
    retirement_id: str | None
    owner: _Owner

    @property
    def units(self) -> UnitRange:
        """Its size says whether the last number of the serial is included. Raises NotRead."""
        try:
            units = parse("Isometric", self.serial_number)
        except SerialError as error:
            raise NotRead(f"Batch {self.id}: {error}") from error
        count = units.last - units.first + 1 - self.size.credit_kgs
        if count not in {0, 1} or self.size.credit_kgs < 1:
            raise NotRead(f"Batch {self.id}: {self.serial_number} are not {self.size.credit_kgs} kg.")
        return units.part(units.first, units.last - count)


class _Retirement(Struct):
    id: str
    retired_at: Moment
    credit_batch_size_total: _Size
    url: str
    notes: str | None


class _Balance(Struct):
    active_credits_total: _Size


class _Balances(Struct):
    total: _Balance


class _PageInfo(Struct):
    has_next_page: bool
    end_cursor: str | None


class _CreditBatches(Struct):
    nodes: list[_CreditBatch]


class _CreditBatchPage(_CreditBatches):
    page_info: _PageInfo


class _RetirementPage(Struct):
    nodes: list[_Retirement]
    page_info: _PageInfo


_Page = TypeVar("_Page", _CreditBatchPage, _RetirementPage)


class Isometric:
    def __init__(self, settings: Settings) -> None:
        self._organisation = settings.isometric_organisation_id
        secrets = {
            "X-Client-Secret": settings.isometric_client_secret,
            "Authorization": f"Bearer {settings.isometric_access_token}",
        }
        self._http = RegistryHttp(settings.isometric_api_base, secrets, settings)

    async def retire(self, instruction: Instruction) -> Answer:
        """What cannot be read before the request is sent has retired nothing."""
        try:
            batch = await self._read_batch(instruction.holding_id)
            if not self._is_usable(batch):
                return await self._who_used(instruction, batch)
        except NotFoundThere as error:
            return Answer(outcome=Outcome.DECLINED, code=HOLDING_UNKNOWN, message=str(error))
        except NotRead as error:
            return NotServed(str(error), getattr(error, "code", None)).answer
        if batch.size.credit_kgs < instruction.unit_count:
            message = f"The batch has {batch.size.credit_kgs} kg."
            return Answer(outcome=Outcome.DECLINED, code=INSUFFICIENT, message=message, is_final=True)
        return await self._request(instruction, batch)

    async def _request(self, instruction: Instruction, batch: _CreditBatch) -> Answer:
        try:
            reply = await self._http.send("POST", "/retirements", body=self._body(instruction, batch))
            if reply.is_refusal:
                return await self._refused(instruction, reply.words)
            made = convert(reply.document, _Retirement)
        except NotServed as error:
            return error.answer
        except NotRead as error:
            return Answer(outcome=Outcome.UNKNOWN, message=str(error))
        try:
            return await self._describe(instruction, made)
        except NotRead as error:
            # It is retired, and the look-up will find which units.
            return Answer(outcome=Outcome.PENDING, registry_reference=made.id, message=str(error))

    async def look_up(self, instruction: Instruction) -> Answer:
        try:
            if instruction.registry_reference is not None:
                path = f"/retirements/{instruction.registry_reference}"
                return await self._describe(instruction, await self._http.read(path, _Retirement))
            batch = await self._read_batch(instruction.holding_id)
            if self._is_usable(batch):
                return Answer(outcome=Outcome.NOT_FOUND)
            return await self._who_used(instruction, batch)
        except NotRead as error:
            return Answer(outcome=Outcome.UNKNOWN, code=getattr(error, "code", None), message=str(error))

    async def list_holdings(self) -> Sequence[Holding]:
        found: list[Holding] = []
        path = f"/organisations/{self._organisation}/credit_batches"
        async for page in self._pages(path, _CreditBatchPage, status="active"):
            for batch in page.nodes:
                units = batch.units
                found.append(Holding(batch.id, "", ((units.first, units.last),), units.namespace, batch.parent_id))
        return found

    async def read_balance(self) -> int:
        path = f"/organisations/{self._organisation}/credit_balance"
        return (await self._http.read(path, _Balances)).total.active_credits_total.credit_kgs

    async def list_movements(self, since: datetime) -> Sequence[Movement]:
        """Retirements, the latest first. What was transferred shows in the balance."""
        found: list[Movement] = []
        async for page in self._pages("/retirements", _RetirementPage, owner_org_id=self._organisation):
            for made in page.nodes:
                if made.retired_at < since:
                    return found
                reference = REFERENCE.search(made.notes or "")
                found.append(Movement(reference[0] if reference else "", await self._used_by(made, reference)))
        return found

    async def _used_by(self, made: _Retirement, reference: re.Match[str] | None) -> str:
        """The holding that a retirement without a reference has used."""
        if reference is not None:
            return ""
        taken = await self._http.read(f"/retirements/{made.id}/credit_batches", _CreditBatches)
        return next((each.parent_id or each.id for each in taken.nodes), "")

    async def _pages(self, path: str, type_: type[_Page], **query: str) -> AsyncIterator[_Page]:
        query["first"] = str(PAGE_SIZE)
        for _ in range(MAX_PAGES):
            page = await self._http.read(path, type_, **query)
            yield page
            if not page.page_info.has_next_page or page.page_info.end_cursor is None:
                return
            query["after"] = page.page_info.end_cursor
        raise NotRead(f"{path} has too many pages.")

    async def _read_batch(self, id_: str) -> _CreditBatch:
        return await self._http.read(f"/credit_batches/{id_}", _CreditBatch)

    def _is_usable(self, batch: _CreditBatch) -> bool:
        return batch.status == "active" and batch.owner.id == self._organisation

    def _body(self, instruction: Instruction, batch: _CreditBatch) -> dict[str, Any]:
        """Our organisation is the beneficiary there: one of its own needs a domain or the e-mail of a person."""
        end = f". {instruction.reference}"
        notes = f"On behalf of {instruction.beneficiary}"[: MAX_NOTES - len(end)] + end
        return {
            "owner_organisation_id": self._organisation,
            "beneficiary_organisation_id": self._organisation,
            "supplier_id": batch.supplier_id,
            "retirement_purposes": PURPOSES,
            "notes": notes,
            "credit_batch_quantities": [
                {"credit_batch_id": batch.id, "credit_quantity_kg": instruction.unit_count},
            ],
        }

    async def _refused(self, instruction: Instruction, words: str) -> Answer:
        """This copy has retired nothing. An earlier one may have used the batch before it."""
        try:
            batch = await self._read_batch(instruction.holding_id)
            if not self._is_usable(batch):
                return await self._who_used(instruction, batch)
        except NotRead as error:
            return NotServed(f"{words} {error}").answer
        return Answer(outcome=Outcome.DECLINED, code="refused", message=words)

    async def _who_used(self, instruction: Instruction, batch: _CreditBatch) -> Answer:
        """Raises NotRead if the registry does not show yet what has become of the batch."""
        children = [await self._read_batch(id_) for id_ in (batch.left_child_id, batch.right_child_id) if id_]
        parts = [batch, *children]
        if any(each.status == "retired" and each.retirement_id is None for each in parts):
            raise NotRead(f"Batch {batch.id} is retired, and the registry does not say by which retirement.")
        retirements = {each.retirement_id for each in parts if each.retirement_id is not None}
        for id_ in sorted(retirements):
            made = await self._http.read(f"/retirements/{id_}", _Retirement)
            if instruction.reference in (made.notes or ""):
                return await self._describe(instruction, made)
        if not retirements and all(each.owner.id == self._organisation for each in parts):
            raise NotRead(f"Batch {batch.id} is {batch.status}, and the registry does not say by what.")
        return Answer(
            outcome=Outcome.DECLINED,
            code=HOLDING_USED,
            message=f"Batch {batch.id} was used by something else.",
            is_final=True,
            next_holding_id=self._rest_of(children),
        )

    async def _describe(self, instruction: Instruction, made: _Retirement) -> Answer:
        """Which units were retired, and where the rest is. Raises NotRead."""
        taken = await self._http.read(f"/retirements/{made.id}/credit_batches", _CreditBatches)
        units = [each.units for each in taken.nodes]
        if sum(each.size.credit_kgs for each in taken.nodes) != made.credit_batch_size_total.credit_kgs:
            raise NotRead(f"The batches of retirement {made.id} are not complete.")
        batch = await self._read_batch(instruction.holding_id)
        if batch.status == "active":
            raise NotRead(f"Retirement {made.id} is made, and the registry still shows its batch as active.")
        children = [await self._read_batch(id_) for id_ in (batch.left_child_id, batch.right_child_id) if id_]
        return Answer(
            outcome=Outcome.RETIRED,
            registry_reference=made.id,
            units=tuple((each.first, each.last) for each in units),
            retired_on=made.retired_at.date(),
            url=made.url,
            next_holding_id=self._rest_of(children),
        )

    def _rest_of(self, children: Sequence[_CreditBatch]) -> str | None:
        left = [each.id for each in children if self._is_usable(each)]
        return left[0] if len(left) == 1 else None
