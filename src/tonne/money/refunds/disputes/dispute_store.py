"""SQL of `disputes` and of the polls of gateways."""

from datetime import datetime
from typing import NamedTuple

import asyncpg

from tonne.money.cards.captured_store import CapturedCharge
from tonne.money.refunds.model import Dispute
from tonne.platform.db.database import Connection, optional, parameters_of, scope_of, value_of
from tonne.platform.values.context import By, Mode
from tonne.selling.orders.model import Order

_VALUES = """order_id, charge_id, reference, amount_minor, withdrawn_minor, currency, reason, state, evidence_due,
opened_at, recorded_at, closed_at"""
_DISPUTE = f"account_id, id, organisation_id, mode, {_VALUES}"


def _dispute(row: asyncpg.Record) -> Dispute:
    return value_of(Dispute, row, scope=scope_of(row))


# Only a change is written, and returned.
STORE_DISPUTE = f"""
INSERT INTO disputes ({_DISPUTE}, taken_minor, taken_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $9,
        CASE WHEN $9::bigint > 0 THEN $17::timestamptz END)
ON CONFLICT (charge_id, reference) DO UPDATE
SET state = excluded.state, withdrawn_minor = excluded.withdrawn_minor, amount_minor = excluded.amount_minor,
    taken_minor = greatest(disputes.taken_minor, excluded.withdrawn_minor),
    taken_at = coalesce(disputes.taken_at, excluded.taken_at),
    evidence_due = excluded.evidence_due, reason = excluded.reason,
    closed_at = CASE WHEN excluded.state = 'opened' THEN NULL
                     ELSE coalesce(disputes.closed_at, excluded.closed_at) END
WHERE (disputes.state, disputes.withdrawn_minor, disputes.amount_minor, disputes.evidence_due, disputes.reason)
      IS DISTINCT FROM
      (excluded.state, excluded.withdrawn_minor, excluded.amount_minor, excluded.evidence_due, excluded.reason)
RETURNING id
"""  # noqa: S608 - a constant


async def store_dispute(tx: Connection, dispute: Dispute, now: datetime) -> bool:
    """Insert or update a dispute; false if nothing changed. The caller has locked the order."""
    owner = (dispute.scope.account_id, dispute.id, dispute.scope.organisation_id, dispute.scope.mode)
    return await tx.fetchval(STORE_DISPUTE, *owner, *parameters_of(dispute, _VALUES), now) is not None


LIST_DISPUTES_OF_ORDER = f"""
SELECT {_DISPUTE}, tax_decision FROM disputes
WHERE account_id = $1 AND (
    order_id = $2
    OR order_id IS NULL AND charge_id IN (
        SELECT paid.charge_id FROM charge_orders paid WHERE paid.account_id = $1 AND paid.order_id = $2))
ORDER BY recorded_at, id
"""  # noqa: S608 - a constant


async def list_disputes(connection: Connection, order: Order) -> list[Dispute]:
    """Those of its charges, and of the charge for its invoice."""
    rows = await connection.fetch(LIST_DISPUTES_OF_ORDER, order.scope.account_id, order.id)
    return [_dispute(row) for row in rows]


LIST_DISPUTES_OF_CHARGE = f"""
SELECT {_DISPUTE}, tax_decision FROM disputes WHERE charge_id = $1 ORDER BY recorded_at, id
"""  # noqa: S608 - a constant


async def list_disputes_of_charge(connection: Connection, charge: CapturedCharge) -> list[Dispute]:
    return [_dispute(row) for row in await connection.fetch(LIST_DISPUTES_OF_CHARGE, charge.id)]


FIND_DISPUTE = f"SELECT {_DISPUTE}, tax_decision FROM disputes WHERE id = $1"  # noqa: S608 - a constant


async def find_dispute_any_account(connection: Connection, dispute_id: str) -> Dispute | None:
    return optional(_dispute, await connection.fetchrow(FIND_DISPUTE, dispute_id))


# Of an order that is not delivered the whole sale is credited, and of a surplus payment there is no document.
TAX_IS_OPEN = """
disputes.state = 'lost' AND disputes.withdrawn_minor > 0 AND disputes.tax_decision IS NULL AND EXISTS (
    SELECT FROM charges JOIN charge_orders paid ON paid.account_id = charges.account_id AND paid.charge_id = charges.id
    JOIN orders ON orders.account_id = paid.account_id AND orders.id = paid.order_id
    JOIN invoice_orders billed ON billed.account_id = paid.account_id AND billed.order_id = paid.order_id
    WHERE charges.account_id = disputes.account_id AND charges.id = disputes.charge_id AND NOT charges.is_surplus
      AND orders.status IN ('retiring', 'complete') AND NOT billed.cancelled AND billed.tax_minor > 0)
"""
HAS_OPEN_TAX = f"SELECT {TAX_IS_OPEN} FROM disputes WHERE account_id = $1 AND id = $2"  # noqa: S608 - a constant


async def has_open_tax(connection: Connection, dispute: Dispute) -> bool:
    """Whether it was lost after delivery, and nobody has decided about the tax."""
    return await connection.fetchval(HAS_OPEN_TAX, dispute.scope.account_id, dispute.id) is True


DECIDE = """
UPDATE disputes SET tax_decision = $3, tax_decided_at = $4, tax_decided_by = $5
WHERE account_id = $1 AND id = $2 AND tax_decision IS NULL RETURNING true
"""


async def decide(tx: Connection, dispute: Dispute, decision: str, *, by: By) -> bool:
    """False if it was decided already."""
    owner = (dispute.scope.account_id, dispute.id)
    return await tx.fetchval(DECIDE, *owner, decision, by.at, str(by.actor)) is True


class DisputeSearch(NamedTuple):
    """Values that are None match everything."""

    mode: str | None = None
    state: str | None = None
    order_id: str | None = None


SEARCH_DISPUTES = f"""
SELECT {_DISPUTE}, tax_decision FROM disputes
WHERE ($1::text IS NULL OR mode = $1) AND ($2::text IS NULL OR state = $2)
  AND ($3::text IS NULL OR order_id = $3
       OR order_id IS NULL AND charge_id IN (
           SELECT paid.charge_id FROM charge_orders paid WHERE paid.order_id = $3))
ORDER BY recorded_at DESC, id DESC LIMIT $4
"""  # noqa: S608 - a constant


async def search_disputes_any_account(connection: Connection, search: DisputeSearch, limit: int) -> list[Dispute]:
    """Newest first."""
    return [_dispute(row) for row in await connection.fetch(SEARCH_DISPUTES, *search, limit)]


LIST_OF_MODE = f"""
SELECT {_DISPUTE}, tax_decision FROM disputes
WHERE mode = $1 AND (recorded_at, id) < ($2, $3)
ORDER BY recorded_at DESC, id DESC LIMIT $4
"""  # noqa: S608 - a constant


async def list_disputes_of_mode_any_account(
    connection: Connection, mode: Mode, before: tuple[datetime, str], limit: int
) -> list[Dispute]:
    """Newest first, from the position `before` on."""
    return [_dispute(row) for row in await connection.fetch(LIST_OF_MODE, mode, *before, limit)]


# Open disputes change at the gateway without a new object that a poll would list.
LIST_OPEN_REFERENCES = """
SELECT DISTINCT charges.reference FROM disputes
JOIN charges ON charges.account_id = disputes.account_id AND charges.id = disputes.charge_id
WHERE disputes.state = 'opened' AND charges.gateway = $1
"""


async def list_open_references_any_account(connection: Connection, gateway: str) -> set[str]:
    """The payments with an open dispute."""
    return {row["reference"] for row in await connection.fetch(LIST_OPEN_REFERENCES, gateway)}


# The first poll of a gateway starts at `$2`. Returns nothing if another worker has just claimed it.
CLAIM_POLL = """
INSERT INTO gateway_polls AS poll (gateway, polled_until, next_poll_at) VALUES ($1, $2, $4)
ON CONFLICT (gateway) DO UPDATE SET next_poll_at = $4 WHERE poll.next_poll_at <= $3
RETURNING polled_until
"""


async def claim_poll(
    tx: Connection, gateway: str, *, first: datetime, now: datetime, next_at: datetime
) -> datetime | None:
    """Up to when the gateway was polled, if it is time to poll it again."""
    until: datetime | None = await tx.fetchval(CLAIM_POLL, gateway, first, now, next_at)
    return until


FINISH_POLL = "UPDATE gateway_polls SET polled_until = greatest(polled_until, $2) WHERE gateway = $1"


async def finish_poll(tx: Connection, gateway: str, until: datetime) -> None:
    await tx.execute(FINISH_POLL, gateway, until)
