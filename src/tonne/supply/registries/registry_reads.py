"""What the operator's page about registries reads."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, replace
from tonne.supply.stock.supply_reads import list_supply_any_account


class RegistrySupply(Struct, frozen=True, kw_only=True):
    """Where the tonnes of a registry are. `free_grams` are not reserved; `allocated_grams` are not asked for yet.

    What a person has exported counts as asked for. In doubt is what a registry was asked for, and has not answered.
    """

    registry: str
    free_grams: int = 0
    paused_grams: int = 0
    reserved_grams: int = 0
    allocated_grams: int = 0
    asked_grams: int = 0
    doubt_grams: int = 0
    retired_grams: int = 0
    invalid_grams: int = 0


READ_ASKED = """
SELECT project.registry, (sum(parcel.quantity_grams) FILTER (WHERE NOT asked.is_in_doubt))::bigint AS asked,
       (sum(parcel.quantity_grams) FILTER (WHERE asked.is_in_doubt))::bigint AS doubt
FROM parcels parcel
LEFT JOIN registry_instructions request ON request.id = parcel.instruction_id
CROSS JOIN LATERAL (SELECT coalesce(request.state = 'asked' AND request.sent_at < $2, false) AS is_in_doubt) asked
JOIN projects project ON project.mode = parcel.mode AND project.id = parcel.project_id
WHERE parcel.mode = $1 AND parcel.status = 'to_retire' AND parcel.invalidated_at IS NULL
  AND (request.state IN ('asked', 'pending') OR parcel.exported_at IS NOT NULL)
GROUP BY project.registry
"""


async def list_registries_any_account(
    connection: Connection, mode: Mode, *, answered_until: datetime
) -> list[RegistrySupply]:
    """By name. What was asked before `answered_until` and has no answer is in doubt."""
    found: dict[str, RegistrySupply] = {}
    for each in await list_supply_any_account(connection, mode):
        old = found.get(each.registry) or RegistrySupply(registry=each.registry)
        found[each.registry] = replace(
            old,
            free_grams=old.free_grams + each.free_grams - each.reserved_grams,
            paused_grams=old.paused_grams + each.paused_grams,
            reserved_grams=old.reserved_grams + each.reserved_grams,
            allocated_grams=old.allocated_grams + each.held_grams,
            retired_grams=old.retired_grams + each.retired_grams,
            invalid_grams=old.invalid_grams + each.invalid_grams,
        )
    for row in await connection.fetch(READ_ASKED, mode, answered_until):
        old, asked, doubt = found[row["registry"]], row["asked"] or 0, row["doubt"] or 0
        left = old.allocated_grams - asked - doubt
        found[old.registry] = replace(old, allocated_grams=left, asked_grams=asked, doubt_grams=doubt)
    return [found[name] for name in sorted(found)]
