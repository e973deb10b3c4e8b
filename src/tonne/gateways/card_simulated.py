"""A card gateway without a bank, for test mode and the demo. Its test cards behave as real ones do on bad days."""

from dataclasses import dataclass

import asyncpg

from tonne.db.pool import Connection, Database
from tonne.gateways.card import (
    Card,
    CardNotFound,
    Charged,
    ChargeOutcome,
    ChargeRequest,
    Refunded,
    RefundOutcome,
    StoredCard,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCard:
    """`remembered` is what comes of a charge, None when the gateway never hears of it; `answered` is what we are told.

    `declines_first` counts the attempts of one customer at one amount that are declined before one is captured.
    """

    number: str
    remembered: ChargeOutcome | None
    answered: ChargeOutcome
    code: str | None = None
    message: str | None = None
    declines_first: int = 0
    expires: str = "2049-12"
    story: str


SIMULATED_CARDS = (
    SimulatedCard(
        number="4242424242424242",
        remembered=ChargeOutcome.CAPTURED,
        answered=ChargeOutcome.CAPTURED,
        story="Every charge succeeds.",
    ),
    SimulatedCard(
        number="4000000000000002",
        remembered=ChargeOutcome.REFUSED,
        answered=ChargeOutcome.REFUSED,
        code="do_not_try_again",
        message="The card was declined, and the bank asks not to try again.",
        story="Every charge is refused for good, without a reason.",
    ),
    SimulatedCard(
        number="4000000000009979",
        remembered=ChargeOutcome.REFUSED,
        answered=ChargeOutcome.REFUSED,
        code="stolen_card",
        message="The card was declined.",
        story="Every charge is refused for good: the card was reported stolen.",
    ),
    SimulatedCard(
        number="4000000000000069",
        remembered=ChargeOutcome.REFUSED,
        answered=ChargeOutcome.REFUSED,
        code="expired_card",
        message="The card has expired.",
        expires="2020-01",
        story="Every charge is refused for good: the card has expired.",
    ),
    SimulatedCard(
        number="4000000000009995",
        remembered=ChargeOutcome.DECLINED,
        answered=ChargeOutcome.DECLINED,
        code="insufficient_funds",
        message="There is not enough money on the card.",
        story="Every charge is declined for now: there is not enough money on the card.",
    ),
    SimulatedCard(
        number="4000000000000341",
        remembered=ChargeOutcome.DECLINED,
        answered=ChargeOutcome.DECLINED,
        code="try_again_later",
        message="The bank could not take the charge just now.",
        declines_first=2,
        story="A customer's charges of one amount are declined twice; from the third attempt on they succeed.",
    ),
    SimulatedCard(
        number="4000002500003155",
        remembered=ChargeOutcome.AUTHENTICATION_REQUIRED,
        answered=ChargeOutcome.AUTHENTICATION_REQUIRED,
        code="authentication_required",
        message="The bank asks the cardholder to confirm this charge.",
        story="Every charge needs the cardholder to confirm it.",
    ),
    SimulatedCard(
        number="4000000000000259",
        remembered=ChargeOutcome.CAPTURED,
        answered=ChargeOutcome.UNKNOWN,
        code="timeout",
        message="The gateway did not answer in time.",
        story="Every charge succeeds, but the answer is lost: only asking afterwards tells.",
    ),
    SimulatedCard(
        number="4000000000000267",
        remembered=None,
        answered=ChargeOutcome.UNKNOWN,
        code="timeout",
        message="The gateway did not answer in time.",
        story="Every request is lost on the way: no answer and no charge.",
    ),
    SimulatedCard(
        number="4000000000000275",
        remembered=None,
        answered=ChargeOutcome.UNAVAILABLE,
        code="unreachable",
        message="The gateway cannot be reached.",
        story="The gateway cannot be reached for any charge.",
    ),
)
_BY_NUMBER = {card.number: card for card in SIMULATED_CARDS}


class SimulatedCardGateway:
    """Remembers in a table of its own, as a real gateway does elsewhere: workers share it, and restarts do not hurt it.

    It never writes in the caller's transaction: a crash between the charge and the record of it stays possible, as
    with a real gateway. When the database is out of reach it raises, like everything else that needs it.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def charge(self, request: ChargeRequest) -> Charged:
        card = _BY_NUMBER.get(request.card.method)
        if card is None:
            return Charged(ChargeOutcome.REFUSED, code="resource_missing", message=_no_such_card(request.card))
        if request.amount_minor <= 0:
            message = "The amount of a charge must be above zero."
            return Charged(ChargeOutcome.REFUSED, code="amount_too_small", message=message)
        if card.remembered is None:
            return Charged(card.answered, code=card.code, message=card.message)
        async with self._database.connection() as connection:
            outcome = card.remembered
            if card.declines_first and await _count_declined(connection, request) >= card.declines_first:
                outcome = ChargeOutcome.CAPTURED
            row = await _remember(connection, request, outcome, card.code)
            if row is None:
                return _replay(request, await _recall(connection, request.id))
        if card.answered is ChargeOutcome.UNKNOWN:
            return Charged(card.answered, code=card.code, message=card.message)
        return _charged(row)

    async def look_up(self, request: ChargeRequest) -> Charged:
        async with self._database.connection() as connection:
            row = await _recall(connection, request.id)
        return Charged(ChargeOutcome.NOT_FOUND) if row is None else _charged(row)

    async def refund(self, refund_id: str, reference: str, amount_minor: int, currency: str) -> Refunded:
        async with self._database.connection() as connection:
            if not await _give_back(connection, refund_id, reference, amount_minor, currency):
                row = await _recall_refunds(connection, reference)
                if row is None or row["status"] != ChargeOutcome.CAPTURED or row["currency"] != currency:
                    message = f"There is no captured charge {reference} in {currency}."
                    return Refunded(RefundOutcome.FAILED, message=message)
                if refund_id not in row["refund_ids"]:
                    return Refunded(RefundOutcome.FAILED, message="The refund is above what is left of the charge.")
        return Refunded(RefundOutcome.REFUNDED, f"sim_{refund_id}")

    async def describe(self, card: Card) -> StoredCard:
        known = _BY_NUMBER.get(card.method)
        if known is None:
            raise CardNotFound(_no_such_card(card))
        return StoredCard(card.customer, card.method, "visa", known.number[-4:], known.expires)

    async def close(self) -> None:
        """Nothing of its own to close: the database is the caller's."""


def _charged(row: asyncpg.Record) -> Charged:
    kind = ChargeOutcome(row["status"])
    message = None if kind is ChargeOutcome.CAPTURED else _BY_NUMBER[row["method"]].message
    return Charged(kind, row["reference"], row["amount_minor"], row["currency"], row["code"], message)


def _replay(request: ChargeRequest, row: asyncpg.Record | None) -> Charged:
    """What came of the id the first time; an id belongs to one amount and one card."""
    if row is None:
        # The row was there a moment ago: someone has emptied the table in between.
        return Charged(ChargeOutcome.UNKNOWN, code="forgotten", message="The gateway has lost this charge.")
    first = (row["amount_minor"], row["currency"], row["customer"], row["method"])
    if first != (request.amount_minor, request.currency, request.card.customer, request.card.method):
        message = f"The charge {request.id} was made with another amount or card: use a new id for a new charge."
        return Charged(ChargeOutcome.REFUSED, code="idempotency_mismatch", message=message)
    return _charged(row)


def _no_such_card(card: Card) -> str:
    # Whoever tried a real number here must not find it in a log.
    return f"There is no test card {card.method[:6]}…: use one of those that the documentation lists."


COUNT_DECLINED = """
SELECT count(*) FROM simulated_charges
WHERE customer = $1 AND method = $2 AND amount_minor = $3 AND currency = $4 AND status = 'declined'
"""


async def _count_declined(connection: Connection, request: ChargeRequest) -> int:
    count: int = await connection.fetchval(
        COUNT_DECLINED, request.card.customer, request.card.method, request.amount_minor, request.currency
    )
    return count


REMEMBER = """
INSERT INTO simulated_charges (id, customer, method, amount_minor, currency, status, code, reference)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'sim_' || $1)
ON CONFLICT DO NOTHING
RETURNING method, amount_minor, currency, status, code, reference, set_config('synchronous_commit', 'off', true)
"""


async def _remember(
    connection: Connection, request: ChargeRequest, outcome: ChargeOutcome, code: str | None
) -> asyncpg.Record | None:
    """None when the id was there before, written by whomever: then this call has charged nothing.

    The conflict names no index: of two at the same moment the second may stumble over the reference before the id.
    It does not wait for the disk. The caller's record of the charge is committed after it, and the database writes its
    log in that order: no crash keeps the record and loses the charge.
    """
    return await connection.fetchrow(
        REMEMBER,
        request.id,
        request.card.customer,
        request.card.method,
        request.amount_minor,
        request.currency,
        outcome,
        None if outcome is ChargeOutcome.CAPTURED else code,
    )


RECALL = """
SELECT customer, method, amount_minor, currency, status, code, reference FROM simulated_charges WHERE id = $1
"""


async def _recall(connection: Connection, charge_id: str) -> asyncpg.Record | None:
    return await connection.fetchrow(RECALL, charge_id)


GIVE_BACK = """
UPDATE simulated_charges
SET refunded_minor = refunded_minor + $3, refund_ids = array_append(refund_ids, $1)
WHERE reference = $2 AND currency = $4 AND status = 'captured'
  AND $3 > 0 AND refunded_minor + $3 <= amount_minor AND NOT $1 = ANY (refund_ids)
RETURNING id
"""


async def _give_back(connection: Connection, refund_id: str, reference: str, amount_minor: int, currency: str) -> bool:
    return await connection.fetchval(GIVE_BACK, refund_id, reference, amount_minor, currency) is not None


RECALL_REFUNDS = "SELECT status, currency, refund_ids FROM simulated_charges WHERE reference = $1"


async def _recall_refunds(connection: Connection, reference: str) -> asyncpg.Record | None:
    return await connection.fetchrow(RECALL_REFUNDS, reference)
