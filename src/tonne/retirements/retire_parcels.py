"""Closes pooled units that have waited long enough, and records retirements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import asyncpg

from tonne.base.clock import Clock
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.db.batches import RETRY_AFTER, run_claimed
from tonne.db.pool import Connection, Database
from tonne.orders.model import OrderKey
from tonne.orders.queue import wake_retiring

CLOSE_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The registry's confirmation for a parcel on the work list."""

    parcel_id: str
    retired_on: date
    retirement_url: str | None


CLAIM_UNITS = """
SELECT mode, id FROM parcels WHERE status = 'open' AND close_at <= $1
ORDER BY close_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""
# The rest of a closed unit serves fractions of any account.
CLOSE_UNITS = """
UPDATE parcels SET status = 'to_retire', close_at = NULL, account_id = NULL, in_service_name = true, beneficiary = $3
FROM unnest($1::text[], $2::text[]) AS wanted (mode, id)
WHERE parcels.mode = wanted.mode AND parcels.id = wanted.id
"""
POSTPONE_UNITS = """
UPDATE parcels SET close_at = $3 FROM unnest($1::text[], $2::text[]) AS wanted (mode, id)
WHERE parcels.mode = wanted.mode AND parcels.id = wanted.id AND parcels.status = 'open'
"""


class CloseUnits:
    """Runs in a worker: puts open units that have waited long enough on the work list, in the service's name."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        return await run_claimed(
            self._database,
            self._claim,
            self._close,
            self._postpone,
            limit=CLOSE_BATCH,
            failure_event="unit_not_closed",
            describe=lambda unit: {"parcel_id": unit["id"]},
        )

    async def _claim(self, tx: Connection, limit: int) -> Sequence[asyncpg.Record]:
        return await tx.fetch(CLAIM_UNITS, self._clock(), limit)

    async def _close(self, tx: Connection, units: Sequence[asyncpg.Record]) -> None:
        name = self._settings.seller_name
        await tx.execute(CLOSE_UNITS, [unit["mode"] for unit in units], [unit["id"] for unit in units], name)

    async def _postpone(self, tx: Connection, units: Sequence[asyncpg.Record]) -> None:
        until = self._clock() + RETRY_AFTER
        await tx.execute(POSTPONE_UNITS, [unit["mode"] for unit in units], [unit["id"] for unit in units], until)


CONFIRM = """
UPDATE parcels SET status = 'retired', retired_on = confirmed.retired_on, retirement_url = confirmed.url,
                   retired_at = $2
FROM unnest($3::text[], $4::date[], $5::text[]) AS confirmed (id, retired_on, url)
WHERE parcels.mode = $1 AND parcels.id = confirmed.id AND parcels.status = 'to_retire'
RETURNING parcels.id
"""


async def confirm_retirements(
    tx: Connection, mode: Mode, confirmations: Sequence[Confirmation], now: datetime
) -> set[str]:
    """Mark these parcels as retired. Returns the ids of those that were on the work list."""
    rows = await tx.fetch(
        CONFIRM,
        mode,
        now,
        [each.parcel_id for each in confirmations],
        [each.retired_on for each in confirmations],
        [each.retirement_url for each in confirmations],
    )
    confirmed = {row["id"] for row in rows}
    await _wake_orders(tx, mode, confirmed, now)
    return confirmed


FIND_ORDERS = "SELECT DISTINCT account_id, order_id FROM shares WHERE mode = $1 AND parcel_id = ANY ($2::text[])"


async def _wake_orders(tx: Connection, mode: Mode, parcel_ids: Iterable[str], now: datetime) -> None:
    """Make the orders that have a share of these parcels due: they may be complete now."""
    rows = await tx.fetch(FIND_ORDERS, mode, list(parcel_ids))
    await wake_retiring(tx, [OrderKey(row["account_id"], row["order_id"]) for row in rows], now)


# For the test helpers. Retires all parcels of an order, also open units.
RETIRE_OF_ORDER = """
WITH own AS (
    SELECT parcel.mode, parcel.id FROM shares share
    JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
    WHERE share.account_id = $1 AND share.order_id = $2 AND share.mode = 'test' AND parcel.status <> 'retired'
    ORDER BY parcel.id FOR UPDATE OF parcel
)
UPDATE parcels SET status = 'retired', close_at = NULL, retired_on = $3, retired_at = $4,
    account_id = CASE WHEN allocated_grams < quantity_grams THEN NULL ELSE account_id END,
    in_service_name = in_service_name OR allocated_grams < quantity_grams,
    beneficiary = CASE WHEN allocated_grams < quantity_grams THEN $5 ELSE beneficiary END
FROM own WHERE parcels.mode = own.mode AND parcels.id = own.id
RETURNING parcels.id
"""


async def retire_of_test_order(
    tx: Connection, scope: Scope, order_id: str, *, service_name: str, now: datetime
) -> None:
    """Retire the parcels of a test order, and make all orders that share them due."""
    rows = await tx.fetch(RETIRE_OF_ORDER, scope.account_id, order_id, now.date(), now, service_name)
    await _wake_orders(tx, Mode.TEST, [row["id"] for row in rows], now)
