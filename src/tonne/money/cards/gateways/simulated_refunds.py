"""SQL of the refunds and disputes of the simulated gateway."""

from datetime import datetime, timedelta

import asyncpg

from tonne.money.cards.gateways import card
from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import Mode

# How long a seller has to answer a simulated dispute.
EVIDENCE_TIME = timedelta(days=7)
FAILED = "The cardholder's bank rejected the refund."

FIND_REFUNDED_CHARGE = """
SELECT method, status, currency, amount_minor, refunded_minor, refund_ids FROM simulated_charges WHERE reference = $1
"""


async def find_refunded_charge(connection: Connection, reference: str) -> asyncpg.Record | None:
    return await connection.fetchrow(FIND_REFUNDED_CHARGE, reference)


# The id is compared with the array in the locked row: a concurrent refund of the same id cannot pass this check. What
# a payer disputes cannot be refunded, as at Stripe.
ADD_REFUND = """
WITH charged AS (
    UPDATE simulated_charges
    SET refunded_minor = refunded_minor + $3, refund_ids = array_append(refund_ids, $1)
    WHERE reference = $2 AND currency = $4 AND status = 'captured'
      AND $3 > 0 AND NOT $1 = ANY (refund_ids)
      AND refunded_minor + $3 + (SELECT coalesce(sum(disputed.amount_minor), 0) FROM simulated_disputes disputed
                                 WHERE disputed.reference = $2 AND disputed.status <> 'won') <= amount_minor
    RETURNING reference
)
INSERT INTO simulated_refunds (id, reference, amount_minor, status, later)
SELECT $1, reference, $3, $5, $6 FROM charged
RETURNING status
"""


async def add_refund(
    connection: Connection,
    refund_id: str,
    reference: str,
    money: tuple[int, str],
    states: tuple[card.RefundOutcome, card.RefundOutcome],
) -> bool:
    """`states`: of the refund now, and at the next look. False if it is too much, or exists already."""
    return await connection.fetchval(ADD_REFUND, refund_id, reference, *money, *states) is not None


# A failed refund gives its amount back to the charge.
ADVANCE_REFUNDS = """
WITH advanced AS (
    UPDATE simulated_refunds SET status = later
    WHERE reference = $1 AND status = 'pending' AND later <> 'pending' AND ($2::text IS NULL OR id = $2)
    RETURNING reference, status, amount_minor
)
UPDATE simulated_charges SET refunded_minor = refunded_minor - failed.amount_minor
FROM (SELECT reference, sum(amount_minor) AS amount_minor FROM advanced WHERE status = 'failed' GROUP BY reference)
     AS failed
WHERE simulated_charges.reference = failed.reference
"""


async def advance_refunds(connection: Connection, reference: str, refund_id: str | None = None) -> None:
    """Give pending refunds their final state, as time does at a real gateway."""
    await connection.execute(ADVANCE_REFUNDS, reference, refund_id)


FIND_REFUND = "SELECT status FROM simulated_refunds WHERE id = $1"


async def find_refund(connection: Connection, refund_id: str) -> card.RefundResult | None:
    status = await connection.fetchval(FIND_REFUND, refund_id)
    if status is None:
        return None
    kind = card.RefundOutcome(status)
    return card.RefundResult(kind, f"sim_{refund_id}", FAILED if kind is card.RefundOutcome.FAILED else None)


LIST_REFUNDS = """
SELECT id AS refund_id, amount_minor, status AS kind FROM simulated_refunds WHERE reference = $1
ORDER BY created_at, id
"""
LIST_DISPUTES = """
SELECT id AS reference, amount_minor, status AS state, reason, evidence_due, created_at AS opened_at
FROM simulated_disputes WHERE reference = $1
ORDER BY created_at, id
"""


async def read_payment(connection: Connection, reference: str) -> card.RecordedPayment | None:
    """None if there is no such captured charge."""
    await advance_refunds(connection, reference)
    charge = await find_refunded_charge(connection, reference)
    if charge is None or charge["status"] != "captured":
        return None
    return card.RecordedPayment(
        reference=reference,
        captured_minor=charge["amount_minor"],
        currency=charge["currency"],
        mode=Mode.TEST,
        refunds=tuple(_refund(row) for row in await connection.fetch(LIST_REFUNDS, reference)),
        disputes=tuple(_dispute(row) for row in await connection.fetch(LIST_DISPUTES, reference)),
    )


def _refund(row: asyncpg.Record) -> card.RecordedRefund:
    message = FAILED if row["kind"] == card.RefundOutcome.FAILED else None
    return value_of(card.RecordedRefund, row, reference=f"sim_{row['refund_id']}", message=message)


def _dispute(row: asyncpg.Record) -> card.RecordedDispute:
    withdrawn_minor = 0 if row["state"] == card.DisputeState.WON else row["amount_minor"]
    return value_of(card.RecordedDispute, row, withdrawn_minor=withdrawn_minor)


LIST_CHANGED = """
SELECT reference FROM simulated_refunds WHERE created_at >= $1
UNION SELECT reference FROM simulated_disputes WHERE created_at >= $1
"""


async def list_changed(connection: Connection, since: datetime) -> set[str]:
    return {row["reference"] for row in await connection.fetch(LIST_CHANGED, since)}


# A payer disputes what was not refunded, once: the gateway accepts no second dispute of a charge.
DISPUTE = """
INSERT INTO simulated_disputes (id, reference, amount_minor, status, reason, evidence_due, created_at)
SELECT 'dp_' || reference, reference, amount_minor - refunded_minor, $2, 'fraudulent', $4, $3
FROM simulated_charges WHERE reference = $1 AND status = 'captured' AND refunded_minor < amount_minor
ON CONFLICT (id) DO UPDATE SET status = excluded.status WHERE simulated_disputes.status = 'opened'
RETURNING status
"""


async def dispute(connection: Connection, reference: str, state: card.DisputeState, now: datetime) -> bool:
    """Open a dispute, or close the open one. False if nothing is left to dispute, or the dispute is closed already."""
    return await connection.fetchval(DISPUTE, reference, state, now, now + EVIDENCE_TIME) is not None
