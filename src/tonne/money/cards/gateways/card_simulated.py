"""A card gateway without a bank, for test mode and the demo. Its test cards reproduce declines and network failures."""

import tomllib
from datetime import datetime
from pathlib import Path

import asyncpg
import msgspec

from tonne.money.cards.gateways import simulated_refunds
from tonne.money.cards.gateways.card import (
    MODE_MISMATCH,
    CardDetails,
    CardNotFound,
    ChargeOutcome,
    ChargeRequest,
    ChargeResult,
    DisputeState,
    PaymentNotRead,
    RecordedPayment,
    RefundOutcome,
    RefundResult,
    StoredCard,
)
from tonne.platform.db.database import Connection, Database, parameters_of
from tonne.platform.values.context import Mode, replace


class SimulatedCard(msgspec.Struct, frozen=True, kw_only=True):
    """`recorded` is the result that the gateway stores, None if the request never arrives; `returned` is its response.

    `declines_first` is how many attempts of one customer at one amount are declined before one is captured.
    """

    number: str
    recorded: ChargeOutcome | None = None
    returned: ChargeOutcome
    code: str | None = None
    message: str | None = None
    declines_first: int = 0
    # Whether refunds are pending until the next look, and how many refunds of a charge then fail.
    refunds_pend: bool = False
    refunds_fail_first: int = 0
    expires: str = "2049-12"
    behaviour: str

    @property
    def grouped(self) -> str:
        """The number as it is printed on a card."""
        return " ".join(self.number[i : i + 4] for i in range(0, len(self.number), 4))


# The code of a charge that ended before the cardholder authenticated it.
CANCELED = "canceled"
_FILE = Path(__file__).parent / "simulated_cards.toml"
SIMULATED_CARDS = msgspec.convert(tomllib.loads(_FILE.read_text(encoding="utf-8"))["card"], tuple[SimulatedCard, ...])
_BY_NUMBER = {card.number: card for card in SIMULATED_CARDS}


class SimulatedCardGateway:
    """Stores its charges in a table of its own, which workers share and which survives restarts.

    It never writes in the caller's transaction, so that a crash between the charge and its record stays possible, as
    with a real gateway. It raises if the database cannot be reached.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def charge(self, request: ChargeRequest) -> ChargeResult:
        card = _BY_NUMBER.get(request.card.method)
        if card is None or request.mode is not Mode.TEST or request.amount_minor <= 0:
            return _refuse(request)
        if card.recorded is None:
            return ChargeResult(card.returned, code=card.code, message=card.message)
        async with self._database.connection() as connection:
            outcome = card.recorded
            if card.declines_first and await _count_declined(connection, request) >= card.declines_first:
                outcome = ChargeOutcome.CAPTURED
            row = await _record(connection, request, outcome, card.code)
            if row is None:
                return _replay(request, await _find(connection, request.id))
        if card.returned is ChargeOutcome.UNKNOWN:
            return ChargeResult(card.returned, code=card.code, message=card.message)
        return _result(row)

    async def look_up(self, request: ChargeRequest) -> ChargeResult:
        row = await self._database.run(_find, request.id)
        if row is None:
            return ChargeResult(ChargeOutcome.NOT_FOUND)
        return replace(_result(row), refunded_minor=row["refunded_minor"])

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> RefundResult:
        async with self._database.connection() as connection:
            charge = await simulated_refunds.find_refunded_charge(connection, reference)
            if charge is None or charge["status"] != ChargeOutcome.CAPTURED or charge["currency"] != currency:
                message = f"There is no captured charge {reference} in {currency}."
                return RefundResult(RefundOutcome.FAILED, message=message)
            states = _states_of_refund(_BY_NUMBER[charge["method"]], len(charge["refund_ids"]))
            money = (amount_minor, currency)
            is_new = await simulated_refunds.add_refund(connection, refund_id, reference, money, states)
            if not is_new:
                await simulated_refunds.advance_refunds(connection, reference, refund_id)
            found = await simulated_refunds.find_refund(connection, refund_id)
        message = "The refund exceeds the amount that remains of the charge."
        return found or RefundResult(RefundOutcome.FAILED, message=message)

    async def read_payment(self, reference: str) -> RecordedPayment:
        found = await self._database.run(simulated_refunds.read_payment, reference)
        if found is None:
            raise PaymentNotRead(f"There is no captured charge {reference}.")
        return found

    async def list_changed(self, since: datetime) -> set[str]:
        return await self._database.run(simulated_refunds.list_changed, since)

    async def dispute(self, reference: str, state: DisputeState, now: datetime) -> bool:
        """For the test helper: what the payer, and later their bank, does. False if it is not possible."""
        return await self._database.run(simulated_refunds.dispute, reference, state, now)

    async def cancel(self, request: ChargeRequest) -> ChargeResult:
        async with self._database.connection() as connection:
            row = await _finish_authentication(connection, request.id, ChargeOutcome.REFUSED, CANCELED)
            # A request that has not arrived yet then finds this result.
            row = row or await _record(connection, request, ChargeOutcome.REFUSED, CANCELED)
        return await self.look_up(request) if row is None else _result(row)

    async def authenticate(self, request: ChargeRequest, *, succeeds: bool) -> ChargeResult:
        """What the cardholder does at the simulated bank. After a failure they may try again."""
        if succeeds:
            await self._database.run(_finish_authentication, request.id, ChargeOutcome.CAPTURED, None)
        return await self.look_up(request)

    async def describe(self, card: StoredCard) -> CardDetails:
        known = _BY_NUMBER.get(card.method)
        if known is None:
            raise CardNotFound(_no_such_card(card))
        # Everybody tests with the same numbers: the cards of different customers are different ones.
        fingerprint = f"{card.customer}:{card.method}"
        return CardDetails(card.customer, card.method, "visa", known.number[-4:], known.expires, fingerprint)

    async def forget(self, card: StoredCard) -> None:
        """Nothing to remove: simulated cards are numbers."""

    async def close(self) -> None:
        """Nothing to close: the caller owns the database."""


def _refuse(request: ChargeRequest) -> ChargeResult:
    """The result of a request that can never be charged here."""
    if request.mode is not Mode.TEST:
        message = "A live order cannot be paid with a simulated card."
        return ChargeResult(ChargeOutcome.UNAVAILABLE, code=MODE_MISMATCH, message=message)
    if request.amount_minor <= 0:
        message = "The amount of a charge must be greater than zero."
        return ChargeResult(ChargeOutcome.REFUSED, code="amount_too_small", message=message)
    return ChargeResult(ChargeOutcome.REFUSED, code="resource_missing", message=_no_such_card(request.card))


def _states_of_refund(card: SimulatedCard, earlier: int) -> tuple[RefundOutcome, RefundOutcome]:
    """The state of a charge's next refund, now and at the next look."""
    if earlier < card.refunds_fail_first:
        return RefundOutcome.PENDING, RefundOutcome.FAILED
    now = RefundOutcome.PENDING if card.refunds_pend else RefundOutcome.REFUNDED
    return now, RefundOutcome.REFUNDED


def _result(row: asyncpg.Record) -> ChargeResult:
    kind = ChargeOutcome(row["status"])
    message = None if kind is ChargeOutcome.CAPTURED else _BY_NUMBER[row["method"]].message
    amount_minor, currency = row["amount_minor"], row["currency"]
    return ChargeResult(kind, row["reference"], amount_minor, currency, row["code"], message, Mode.TEST)


def _replay(request: ChargeRequest, row: asyncpg.Record | None) -> ChargeResult:
    """The first result of the id. An id belongs to one amount and one card."""
    if row is None:
        # The row existed a moment ago: the table has been emptied since.
        return ChargeResult(ChargeOutcome.UNKNOWN, code="charge_lost", message="The gateway has lost this charge.")
    first = (row["amount_minor"], row["currency"], row["customer"], row["method"])
    if first != (request.amount_minor, request.currency, request.card.customer, request.card.method):
        message = f"Charge {request.id} was made with another amount or card. Use a new id for a new charge."
        return ChargeResult(ChargeOutcome.REFUSED, code="idempotency_mismatch", message=message)
    return _result(row)


def _no_such_card(card: StoredCard) -> str:
    # Truncated: a real card number must not reach a log.
    return f"There is no test card {card.method[:6]}…. Use one of the test cards listed in the documentation."


COUNT_DECLINED = """
SELECT count(*) FROM simulated_charges
WHERE customer = $1 AND method = $2 AND amount_minor = $3 AND currency = $4 AND status = 'declined'
"""


async def _count_declined(connection: Connection, request: ChargeRequest) -> int:
    count: int = await connection.fetchval(
        COUNT_DECLINED, request.card.customer, request.card.method, request.amount_minor, request.currency
    )
    return count


RECORD = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status, code, reference)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'sim_' || $1)
ON CONFLICT DO NOTHING
RETURNING method, amount_minor, currency, status, code, reference, set_config('synchronous_commit', 'off', true)
"""


async def _record(
    connection: Connection, request: ChargeRequest, outcome: ChargeOutcome, code: str | None
) -> asyncpg.Record | None:
    """None if the id exists already: then this call has charged nothing.

    ON CONFLICT names no index because a concurrent insert may collide on the reference before it collides on the id.
    `synchronous_commit = off` is safe: the caller commits its own record of the charge later in the same WAL, so no
    crash keeps that record and loses the charge.
    """
    charge = parameters_of(request, "id, card.customer, card.method, amount_minor, currency")
    code = None if outcome is ChargeOutcome.CAPTURED else code
    return await connection.fetchrow(RECORD, *charge, outcome, code)


FIND = """
SELECT customer, method, amount_minor, currency, status, code, reference, refunded_minor
FROM simulated_charges WHERE id = $1
"""


async def _find(connection: Connection, charge_id: str) -> asyncpg.Record | None:
    return await connection.fetchrow(FIND, charge_id)


FINISH_AUTHENTICATION = """
UPDATE simulated_charges SET status = $2, code = $3 WHERE id = $1 AND status = 'authentication_required'
RETURNING method, amount_minor, currency, status, code, reference
"""


async def _finish_authentication(
    connection: Connection, charge_id: str, outcome: ChargeOutcome, code: str | None
) -> asyncpg.Record | None:
    """None unless the charge waits for the cardholder."""
    return await connection.fetchrow(FINISH_AUTHENTICATION, charge_id, outcome, code)
