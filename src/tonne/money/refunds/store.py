"""SQL of `refunds`."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from tonne.money.cards.captured_store import CapturedCharge
from tonne.money.refunds.model import Refund, RefundState
from tonne.platform.db.database import Connection, optional, parameters_of, scope_of, value_of
from tonne.platform.values.context import Mode, Scope
from tonne.selling.orders.model import Order, OrderKey

_VALUES = """order_id, method, charge_id, amount_minor, currency, purpose, reason, state, attempt, repeats, reference,
message, requested_by, approved_by, idempotency_key, request_digest, created_at, settled_at, next_attempt_at,
return_ids"""
_REFUND = f"account_id, id, organisation_id, mode, {_VALUES}"


def _refund(row: asyncpg.Record) -> Refund:
    return value_of(Refund, row, scope=scope_of(row))


INSERT_REFUND = f"""
INSERT INTO refunds ({_REFUND}, succeeded_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        CASE WHEN $12 = 'succeeded' THEN $22::timestamptz END)
ON CONFLICT (account_id, idempotency_key) DO NOTHING
RETURNING true
"""  # noqa: S608 - a constant


class RefundKeyTaken(Exception):
    """Another transaction has just used the idempotency key, for this order or another one."""


async def insert_refund(tx: Connection, refund: Refund) -> None:
    """The caller has locked the order, and knows that the amount can be refunded. Raises RefundKeyTaken."""
    owner = (refund.scope.account_id, refund.id, refund.scope.organisation_id, refund.scope.mode)
    if not await tx.fetchval(INSERT_REFUND, *owner, *parameters_of(refund, _VALUES)):
        raise RefundKeyTaken


LIST_OF_ORDER = f"""
SELECT {_REFUND} FROM refunds WHERE account_id = $1 AND order_id = $2 ORDER BY created_at, id
"""  # noqa: S608 - a constant


async def list_of_order(connection: Connection, order: Order | OrderKey) -> list[Refund]:
    """Oldest first."""
    key = order.key if isinstance(order, Order) else order
    return [_refund(row) for row in await connection.fetch(LIST_OF_ORDER, *key)]


LIST_OF_CHARGE = f"""
SELECT {_REFUND} FROM refunds WHERE charge_id = $1 ORDER BY created_at, id
"""  # noqa: S608 - a constant


async def list_of_charge(connection: Connection, charge: CapturedCharge) -> list[Refund]:
    """Oldest first. Those of all orders that the charge paid for."""
    return [_refund(row) for row in await connection.fetch(LIST_OF_CHARGE, charge.id)]


SUM_SUCCEEDED = (
    "SELECT coalesce(sum(amount_minor), 0)::bigint FROM refunds WHERE charge_id = $1 AND state = 'succeeded'"
)


async def sum_succeeded(connection: Connection, charge: CapturedCharge) -> int:
    """What has gone back of a charge, for all orders that it paid for."""
    return int(await connection.fetchval(SUM_SUCCEEDED, charge.id))


FIND_BY_KEY = f"SELECT {_REFUND} FROM refunds WHERE account_id = $1 AND idempotency_key = $2"  # noqa: S608 - a constant


async def find_by_key(connection: Connection, scope: Scope, idempotency_key: str) -> Refund | None:
    return optional(_refund, await connection.fetchrow(FIND_BY_KEY, scope.account_id, idempotency_key))


FIND_REFUND = f"SELECT {_REFUND} FROM refunds WHERE id = $1"  # noqa: S608 - a constant


async def find_refund_any_account(connection: Connection, refund_id: str) -> Refund | None:
    return optional(_refund, await connection.fetchrow(FIND_REFUND, refund_id))


class RefundSearch(NamedTuple):
    """Values that are None match everything."""

    mode: str | None = None
    state: str | None = None
    order_id: str | None = None
    organisation_id: str | None = None


SEARCH_REFUNDS = f"""
SELECT {_REFUND} FROM refunds
WHERE ($1::text IS NULL OR mode = $1) AND ($2::text IS NULL OR state = $2) AND ($3::text IS NULL OR order_id = $3)
  AND ($4::text IS NULL OR organisation_id = $4)
ORDER BY created_at DESC, id DESC LIMIT $5
"""  # noqa: S608 - a constant


async def search_refunds_any_account(connection: Connection, search: RefundSearch, limit: int) -> list[Refund]:
    """Newest first."""
    return [_refund(row) for row in await connection.fetch(SEARCH_REFUNDS, *search, limit)]


LIST_OPEN = f"""
SELECT {_REFUND} FROM refunds
WHERE mode = $1 AND state IN ('approval', 'due', 'pending') ORDER BY created_at, id LIMIT $2
"""  # noqa: S608 - a constant


async def list_open_any_account(connection: Connection, mode: Mode, limit: int) -> list[Refund]:
    """Refunds that wait for an approval or are under way, oldest first."""
    return [_refund(row) for row in await connection.fetch(LIST_OPEN, mode, limit)]


LIST_CLOSED = f"""
SELECT {_REFUND} FROM refunds
WHERE mode = $1 AND state IN ('succeeded', 'failed', 'cancelled') AND (created_at, id) < ($2, $3)
ORDER BY created_at DESC, id DESC LIMIT $4
"""  # noqa: S608 - a constant


async def list_refunds_of_mode_any_account(
    connection: Connection, mode: Mode, before: tuple[datetime, str], limit: int
) -> list[Refund]:
    """Refunds that were made, failed or cancelled, newest first, from the position `before` on."""
    return [_refund(row) for row in await connection.fetch(LIST_CLOSED, mode, *before, limit)]


class DueRefund(NamedTuple):
    """A claimed refund with what the gateway needs. `sent_at` is the begin of the lease."""

    refund: Refund
    gateway: str
    charge_reference: str
    # When it was sent before, if the gateway may have it already.
    sent_before: datetime | None
    sent_at: datetime


_COLUMNS = ", ".join(f"refunds.{name.strip()}" for name in _REFUND.split(","))
CLAIM_DUE = f"""
WITH due AS (
    SELECT account_id, id, sent_at FROM refunds WHERE next_attempt_at <= $1 AND method = 'card'
    ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE refunds SET next_attempt_at = $2, sent_at = $1
FROM due, charges
WHERE refunds.account_id = due.account_id AND refunds.id = due.id
  AND charges.account_id = refunds.account_id AND charges.id = refunds.charge_id
RETURNING {_COLUMNS}, charges.gateway AS gateway, charges.reference AS charge_reference, due.sent_at AS sent_before
"""  # noqa: S608 - a constant


async def claim_due(tx: Connection, now: datetime, held_until: datetime, *, limit: int) -> list[DueRefund]:
    return [
        DueRefund(_refund(row), row["gateway"], row["charge_reference"], row["sent_before"], now)
        for row in await tx.fetch(CLAIM_DUE, now, held_until, limit)
    ]


UNDO_SENT = """
UPDATE refunds SET sent_at = $3 WHERE account_id = $1 AND id = $2 AND sent_at = $4 AND state = 'due'
"""


async def undo_sent(tx: Connection, refund: Refund, *, sent_at: datetime, sent_before: datetime | None) -> None:
    """The gateway was certainly not reached: only an earlier request may have arrived there."""
    await tx.execute(UNDO_SENT, refund.scope.account_id, refund.id, sent_before, sent_at)


LOCK_SENT_AT = "SELECT sent_at FROM refunds WHERE account_id = $1 AND id = $2 FOR UPDATE"


async def lock_sent_at(tx: Connection, refund: Refund) -> datetime | None:
    """When a worker last began to send it to the gateway; None if the gateway cannot have it. Locks the refund."""
    sent_at: datetime | None = await tx.fetchval(LOCK_SENT_AT, refund.scope.account_id, refund.id)
    return sent_at


CLAIM_BANK_REFUNDS = f"""
UPDATE refunds SET next_attempt_at = $2
WHERE (account_id, id) IN (
    SELECT account_id, id FROM refunds WHERE next_attempt_at <= $1 AND method = 'bank'
    ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED)
RETURNING {_REFUND}
"""  # noqa: S608 - a constant


async def claim_bank_refunds(tx: Connection, now: datetime, held_until: datetime, *, limit: int) -> list[Refund]:
    return [_refund(row) for row in await tx.fetch(CLAIM_BANK_REFUNDS, now, held_until, limit)]


WAKE_BANK_REFUND = """
UPDATE refunds SET next_attempt_at = $2
WHERE return_ids @> ARRAY[$1] AND method = 'bank' AND state IN ('due', 'succeeded')
"""


async def wake_bank_refund_any_account(tx: Connection, return_id: str, now: datetime) -> None:
    """Have a worker look at the refund that a return belongs to, if any."""
    await tx.execute(WAKE_BANK_REFUND, return_id, now)


STORE_RETURNS = """
UPDATE refunds SET return_ids = $3, message = $4, next_attempt_at = $5 WHERE account_id = $1 AND id = $2
"""


async def store_returns(tx: Connection, refund: Refund) -> None:
    """The returns of a refund by bank. The caller has locked the order."""
    await tx.execute(
        STORE_RETURNS, *parameters_of(refund, "scope.account_id, id, return_ids, message, next_attempt_at")
    )


# Compare-and-set on the state: a delayed worker does not undo what another one has stored.
UPDATE_REFUND = """
UPDATE refunds SET state = $4, reference = $5, message = $6, approved_by = $7, settled_at = $8, next_attempt_at = $9,
                   succeeded_at = CASE WHEN $4 = 'succeeded' THEN coalesce(succeeded_at, $8::timestamptz)
                                       ELSE succeeded_at END
WHERE account_id = $1 AND id = $2 AND state = $3 RETURNING true
"""


async def update_refund(tx: Connection, refund: Refund, expected: RefundState) -> bool:
    """False if the stored state is not `expected`. The caller has locked the order."""
    new = parameters_of(refund, "state, reference, message, approved_by, settled_at, next_attempt_at")
    return await tx.fetchval(UPDATE_REFUND, refund.scope.account_id, refund.id, expected, *new) is True


def with_update(refunds: Sequence[Refund], updated: Refund) -> list[Refund]:
    """The list with the new state of one refund."""
    return [updated if each.id == updated.id else each for each in refunds]
