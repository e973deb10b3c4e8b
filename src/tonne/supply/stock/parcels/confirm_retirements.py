"""Record that parcels on the work list were retired at their registries."""

from collections.abc import Sequence
from datetime import date, datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import wake_retiring
from tonne.selling.orders.store import RetiredProject, note_retired
from tonne.supply.stock.lots.lot_case_store import wake_retiring_cases
from tonne.supply.transparency.record_statements import record_retirements


class Confirmation(Struct, frozen=True):
    """What the registry says about a parcel on the work list."""

    parcel_id: str
    retired_on: date
    retirement_url: str | None


CONFIRM = """
UPDATE parcels SET status = 'retired', retired_on = confirmed.retired_on, retirement_url = confirmed.url,
                   retired_at = $2
FROM unnest($3::text[], $4::date[], $5::text[]) AS confirmed (id, retired_on, url)
WHERE parcels.mode = $1 AND parcels.id = confirmed.id AND parcels.status = 'to_retire'
RETURNING parcels.id
"""


async def confirm_retirements_any_account(
    tx: Connection, mode: Mode, confirmations: Sequence[Confirmation], now: datetime
) -> set[str]:
    """Mark these parcels as retired; returns the ids of those that were still on the work list."""
    rows = await tx.fetch(CONFIRM, mode, now, *columns(confirmations, "parcel_id, retired_on, retirement_url"))
    confirmed = [row["id"] for row in rows]
    await record_retirements(tx, mode, dict.fromkeys(confirmed, now))
    await wake_orders_any_account(tx, mode, confirmed, now)
    return set(confirmed)


FIND_ORDERS = "SELECT DISTINCT account_id, order_id FROM shares WHERE mode = $1 AND parcel_id = ANY ($2::text[])"


async def find_orders_any_account(tx: Connection, mode: Mode, parcel_ids: Sequence[str]) -> list[OrderKey]:
    """The orders that have a share of these parcels."""
    return [OrderKey(row["account_id"], row["order_id"]) for row in await tx.fetch(FIND_ORDERS, mode, parcel_ids)]


async def wake_orders_any_account(tx: Connection, mode: Mode, parcel_ids: Sequence[str], now: datetime) -> None:
    """Make the orders that have a share of these parcels due: they may be complete, or get a new certificate, now."""
    keys = await find_orders_any_account(tx, mode, parcel_ids)
    await wake_retiring(tx, keys, now)
    await wake_retiring_cases(tx, keys, now)
    # After the orders are locked: of two transactions that each retire a part of a project, the second sees both.
    await note_retired_projects(tx, keys)


FIND_RETIRED_PROJECTS = """
SELECT share.account_id, share.order_id, share.line_position, parcel.project_id
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN shares share ON share.account_id = keys.account_id AND share.order_id = keys.id
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
GROUP BY share.account_id, share.order_id, share.line_position, parcel.project_id
HAVING bool_and(parcel.status = 'retired')
"""


async def note_retired_projects(tx: Connection, keys: Sequence[OrderKey]) -> None:
    """Note of which projects these orders have no parcel left to retire.

    The orders are locked, or complete: `resupply_orders` then looks at them again until their certificate is issued.
    """
    rows = await tx.fetch(FIND_RETIRED_PROJECTS, *columns(keys, "account_id, id"))
    if rows:
        await note_retired(tx, [RetiredProject(**row) for row in rows])
