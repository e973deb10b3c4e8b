"""Parcels on their way to being retired: units that waited long enough are closed, confirmations are taken in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from tonne.base.clock import Clock
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the registry said of a parcel on the work list."""

    parcel_id: str
    retired_on: date
    retirement_url: str | None


# What is left of the unit then serves everybody's later fractions.
CLOSE_UNITS = """
UPDATE parcels SET status = 'to_retire', close_at = NULL, account_id = NULL, in_service_name = true, beneficiary = $2
WHERE (mode, id) IN (SELECT mode, id FROM parcels WHERE status = 'open' AND close_at <= $1
                     ORDER BY close_at LIMIT 1000 FOR UPDATE SKIP LOCKED)
"""


class CloseUnits:
    """Runs in a worker: an open unit whose time is up goes onto the work list, in the service's name."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        async with self._database.connection() as connection:
            status = await connection.execute(CLOSE_UNITS, self._clock(), self._settings.seller_name)
        return status != "UPDATE 0"


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
    """Note that these parcels are retired; returns the ids of those that were still on the work list."""
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


# Held in one order, whoever asks, so that two that retire parts of the same orders never wait for each other.
WAKE_ORDERS = """
UPDATE orders SET next_attempt_at = $3
WHERE (account_id, id) IN (
    SELECT account_id, id FROM orders
    WHERE status = 'retiring' AND (account_id, id) IN
          (SELECT account_id, order_id FROM shares WHERE mode = $1 AND parcel_id = ANY ($2::text[]))
    ORDER BY account_id, id FOR UPDATE)
"""


async def _wake_orders(tx: Connection, mode: Mode, parcel_ids: Iterable[str], now: datetime) -> None:
    """An order with a gram in one of these parcels may now be complete: a worker looks."""
    await tx.execute(WAKE_ORDERS, mode, list(parcel_ids), now)


# For the test helpers: an order's own parcels, open units too, are retired here and now.
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
    """Whatever of this order in test mode is not retired yet is retired now; orders that share in it may complete."""
    rows = await tx.fetch(RETIRE_OF_ORDER, scope.account_id, order_id, now.date(), now, service_name)
    await _wake_orders(tx, Mode.TEST, [row["id"] for row in rows], now)


# Those that waited longest for supply come first, in the order in which they were paid.
WAKE_SHORT = """
UPDATE orders SET next_attempt_at = status_changed_at
WHERE (account_id, id) IN (
    SELECT account_id, id FROM orders
    WHERE mode = $1 AND status = 'paid' AND next_attempt_at IS NOT NULL AND next_attempt_at > status_changed_at
    ORDER BY account_id, id FOR UPDATE)
"""


async def wake_short_orders(tx: Connection, mode: Mode) -> None:
    """Supply arrives with this transaction. Call it first: a worker, too, holds orders before it holds lots."""
    await tx.execute(WAKE_SHORT, mode)
