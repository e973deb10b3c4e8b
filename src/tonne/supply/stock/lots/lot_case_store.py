"""SQL of `lot_cases`: orders that hold grams of an invalid lot, until they are dealt with."""

from collections.abc import Collection, Sequence
from datetime import datetime
from enum import StrEnum

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, columns, scope_of, value_of
from tonne.platform.values.context import Actor, Mode, Scope
from tonne.selling.orders.model import OrderKey


class CaseState(StrEnum):
    # A certificate states the lot: the operator decides between other credits and withdrawing it.
    UNDECIDED = "undecided"
    # Waits for credits of other lots. A worker looks for them.
    RESUPPLY = "resupply"
    # Has credits of other lots. The certificate is issued again when they are retired.
    RETIRING = "retiring"
    RESUPPLIED = "resupplied"
    REISSUED = "reissued"
    WITHDRAWN = "withdrawn"


DONE = frozenset({CaseState.RESUPPLIED, CaseState.REISSUED, CaseState.WITHDRAWN})


class LotCase(Struct, frozen=True):
    """An order that holds, or held, grams of an invalid lot. `certificate_number` is the one that stated the lot."""

    scope: Scope
    lot_id: str
    order_id: str
    quantity_grams: int
    certificate_number: str | None
    state: CaseState
    opened_at: datetime
    resupplied_at: datetime | None
    done_at: datetime | None
    reason: str

    @property
    def order_key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.order_id)


class NewCase(Struct, frozen=True):
    scope: Scope
    order_id: str
    quantity_grams: int
    certificate_number: str | None
    state: CaseState
    next_attempt_at: datetime | None
    done_at: datetime | None


INSERT_CASES = """
INSERT INTO lot_cases (mode, lot_id, account_id, order_id, organisation_id, quantity_grams, certificate_number, state,
                       opened_at, next_attempt_at, done_at)
SELECT $1, $2, account_id, order_id, organisation_id, quantity_grams, certificate_number, state, $3, next_attempt_at,
       done_at
FROM unnest($4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[], $10::timestamptz[],
            $11::timestamptz[])
     AS new (account_id, order_id, organisation_id, quantity_grams, certificate_number, state, next_attempt_at, done_at)
"""
_NEW = """scope.account_id, order_id, scope.organisation_id, quantity_grams, certificate_number, state, \
next_attempt_at, done_at"""


async def insert_cases_any_account(
    tx: Connection, mode: Mode, lot_id: str, cases: Sequence[NewCase], now: datetime
) -> None:
    await tx.execute(INSERT_CASES, mode, lot_id, now, *columns(cases, _NEW))


# The fields of LotCase.
_CASE = """lot_case.organisation_id, lot_case.account_id, lot_case.mode, lot_case.lot_id, lot_case.order_id,
lot_case.quantity_grams, lot_case.certificate_number, lot_case.state, lot_case.opened_at, lot_case.resupplied_at,
lot_case.done_at, lot.invalid_reason AS reason"""
LIST_CASES = f"""
SELECT {_CASE} FROM lot_cases lot_case JOIN lots lot ON lot.mode = lot_case.mode AND lot.id = lot_case.lot_id
WHERE lot_case.lot_id = $1 ORDER BY lot_case.order_id
"""  # noqa: S608 - a constant


async def list_cases_any_account(connection: Connection, lot_id: str) -> list[LotCase]:
    return [_case(row) for row in await connection.fetch(LIST_CASES, lot_id)]


# Locked in one order. A worker that processes one of them is waited for.
LOCK_CASES = f"""
SELECT {_CASE} FROM lot_cases lot_case JOIN lots lot ON lot.mode = lot_case.mode AND lot.id = lot_case.lot_id
WHERE lot_case.lot_id = $1 AND ($2::text[] IS NULL OR lot_case.order_id = ANY ($2::text[]))
ORDER BY lot_case.account_id, lot_case.order_id FOR UPDATE OF lot_case
"""  # noqa: S608 - a constant


async def lock_cases_any_account(
    tx: Connection, lot_id: str, order_ids: Collection[str] | None = None
) -> list[LotCase]:
    """Lock the cases of these orders, or of all."""
    rows = await tx.fetch(LOCK_CASES, lot_id, None if order_ids is None else list(order_ids))
    return [_case(row) for row in rows]


CLAIM_CASES = f"""
SELECT {_CASE} FROM lot_cases lot_case JOIN lots lot ON lot.mode = lot_case.mode AND lot.id = lot_case.lot_id
WHERE lot_case.next_attempt_at <= $1
ORDER BY lot_case.next_attempt_at, lot_case.order_id LIMIT $2 FOR UPDATE OF lot_case SKIP LOCKED
"""  # noqa: S608 - a constant


async def claim_cases(tx: Connection, now: datetime, limit: int) -> list[LotCase]:
    return [_case(row) for row in await tx.fetch(CLAIM_CASES, now, limit)]


MOVE_CASE = """
UPDATE lot_cases SET state = $4, next_attempt_at = $5, done_at = $6, decided_by = coalesce($7, decided_by),
                     resupplied_at = coalesce($8, resupplied_at)
WHERE lot_id = $1 AND account_id = $2 AND order_id = $3
"""


async def move_case(
    tx: Connection,
    order: OrderKey,
    lot_id: str,
    state: CaseState,
    *,
    now: datetime,
    due_at: datetime | None = None,
    decided_by: Actor | None = None,
    resupplied_at: datetime | None = None,
) -> None:
    """Change a locked case. `due_at` is when a worker looks at it next."""
    await tx.execute(
        MOVE_CASE,
        lot_id,
        order.account_id,
        order.id,
        state,
        due_at,
        now if state in DONE else None,
        None if decided_by is None else str(decided_by),
        resupplied_at,
    )


POSTPONE_CASES = """
UPDATE lot_cases SET next_attempt_at = $4
FROM unnest($1::text[], $2::text[], $3::text[]) AS late (lot_id, account_id, order_id)
WHERE lot_cases.lot_id = late.lot_id AND lot_cases.account_id = late.account_id
  AND lot_cases.order_id = late.order_id AND lot_cases.next_attempt_at IS NOT NULL
"""


async def postpone_cases(tx: Connection, cases: Sequence[LotCase], until: datetime) -> None:
    await tx.execute(POSTPONE_CASES, *columns(cases, "lot_id, scope.account_id, order_id"), until)


# SKIP LOCKED: the caller has locked parcels, and a worker that processes the case may wait for one. The case is also
# due every few minutes, so that a skipped one is only later.
WAKE_RETIRING_CASES = """
UPDATE lot_cases SET next_attempt_at = $3
WHERE (mode, lot_id, account_id, order_id) IN (
    SELECT lot_case.mode, lot_case.lot_id, lot_case.account_id, lot_case.order_id
    FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
    JOIN lot_cases lot_case ON lot_case.account_id = keys.account_id AND lot_case.order_id = keys.id
    WHERE lot_case.state IN ('retiring', 'resupply') FOR UPDATE OF lot_case SKIP LOCKED)
"""


async def wake_retiring_cases(tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
    """Make the cases of these orders due that wait for a retirement, or for the answer of a registry."""
    await tx.execute(WAKE_RETIRING_CASES, *columns(keys, "account_id, id"), now)


# As when paid orders are woken: those that wait for the longest come first.
WAKE_RESUPPLY = """
UPDATE lot_cases SET next_attempt_at = opened_at
WHERE (mode, lot_id, account_id, order_id) IN (
    SELECT mode, lot_id, account_id, order_id FROM lot_cases
    WHERE mode = $1 AND state = 'resupply' AND next_attempt_at > opened_at FOR UPDATE SKIP LOCKED)
"""


async def wake_resupply(tx: Connection, mode: Mode) -> None:
    """Make the cases due that wait for supply."""
    await tx.execute(WAKE_RESUPPLY, mode)


def _case(row: asyncpg.Record) -> LotCase:
    return value_of(LotCase, row, scope=scope_of(row))
