"""How an order was placed and cancelled."""

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

FIND_PLACING = """
SELECT created_at, placed_by_key, offset_link_id, requested_quantity_grams, requested_value_minor, currency,
       status, status_changed_at, cancelled_by, cancel_reason
FROM orders WHERE account_id = $1 AND id = $2
"""


async def order_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    row = await connection.fetchrow(FIND_PLACING, scope.account_id, order_id)
    if row is None:
        return []
    grams, minor, currency = row["requested_quantity_grams"], row["requested_value_minor"], row["currency"]
    requested = f"{format_tonnes(grams)} t" if grams is not None else f"{format_money(minor, currency)} {currency}"
    link_id = row["offset_link_id"]
    placed_by = f"key:{row['placed_by_key']}" if row["placed_by_key"] else f"link:{link_id}" if link_id else None
    text = f"{requested} ordered"
    entries = [
        TimelineEntry(at=row["created_at"], kind="order", text=text, actor=placed_by, subject_id=order_id),
    ]
    if row["status"] == "cancelled":
        reason = f": {row['cancel_reason']}" if row["cancel_reason"] else ""
        entries.append(
            TimelineEntry(
                at=row["status_changed_at"],
                kind="order",
                text=f"cancelled{reason}",
                actor=row["cancelled_by"],
                subject_id=order_id,
            )
        )
    return entries
