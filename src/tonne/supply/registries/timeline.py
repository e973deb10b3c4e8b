"""What registries were asked to retire for an order."""

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_REQUESTS_OF_ORDER = """
SELECT DISTINCT instruction.id, instruction.registry_account, instruction.reference, instruction.unit_count,
       instruction.state, instruction.sent_at, instruction.closed_at
FROM shares share
JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
JOIN registry_instructions instruction ON instruction.id = parcel.instruction_id
WHERE share.account_id = $1 AND share.order_id = $2 ORDER BY instruction.sent_at, instruction.id
"""


async def registry_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_REQUESTS_OF_ORDER, scope.account_id, order_id):
        id_, what = row["id"], f"{row['registry_account']}, {row['reference']}"
        if row["sent_at"] is not None:
            text = f"asked to retire {row['unit_count']} units: {what}"
            entries.append(TimelineEntry(at=row["sent_at"], kind="registry", text=text, subject_id=id_))
        if row["closed_at"] is not None:
            entries.append(TimelineEntry(at=row["closed_at"], kind="registry", text=row["state"], subject_id=id_))
    return entries
