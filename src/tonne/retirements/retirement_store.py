"""SQL of what an organisation may know of retirements: its own grams, and the serials they are in."""

import json
from typing import NamedTuple

from tonne.base.clock import to_wire
from tonne.base.mass import format_tonnes
from tonne.base.paging import Position
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.retirements.model import serial_range
from tonne.retirements.schemas import RetirementOut, RetirementShareOut

# Only the organisation's own shares are shown: a unit that it shares with others says how much is its own.
LIST_RETIREMENTS = """
SELECT parcel.id, parcel.opened_at, parcel.retired_at, parcel.retired_on, parcel.retirement_url, parcel.quantity_grams,
       parcel.start_grams, parcel.beneficiary, parcel.in_service_name, lot.vintage, lot.first_number, lot.country,
       block.block, project.id AS project_id, project.registry, project.registry_project_id, project.name,
       (SELECT json_agg(json_build_object('order_id', share.order_id, 'account_id', share.account_id,
                                          'beneficiary', share.beneficiary, 'quantity_grams', share.quantity_grams)
                        ORDER BY share.order_id, share.line_position)
        FROM shares share
        WHERE share.organisation_id = $1 AND share.mode = $2 AND share.parcel_id = parcel.id)::text AS shares
FROM (SELECT DISTINCT parcel_id FROM shares WHERE organisation_id = $1 AND mode = $2 AND parcel_id < $3) own
JOIN parcels parcel ON parcel.mode = $2 AND parcel.id = own.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE parcel.status = 'retired' ORDER BY own.parcel_id DESC LIMIT $4
"""


class Listed(NamedTuple):
    place: Position
    wire: RetirementOut


async def list_retirements(connection: Connection, scope: Scope, start: Position, limit: int) -> list[Listed]:
    """Newest first, by the time at which the credits were set apart: their ids are in that order."""
    rows = await connection.fetch(LIST_RETIREMENTS, scope.organisation_id, scope.mode, start.id, limit)
    return [
        Listed(
            Position(row["opened_at"], row["id"]),
            RetirementOut(
                id=row["id"],
                registry=row["registry"],
                registry_project_id=row["registry_project_id"],
                project_id=row["project_id"],
                project_name=row["name"],
                country=row["country"],
                vintage=row["vintage"],
                serials=serial_range(row["block"], row["first_number"], row["start_grams"], row["quantity_grams"]),
                quantity=format_tonnes(row["quantity_grams"]),
                beneficiary=row["beneficiary"],
                retired_on=row["retired_on"].isoformat(),
                retirement_url=row["retirement_url"],
                recorded_at=to_wire(row["retired_at"]),
                shares=[
                    RetirementShareOut(
                        order_id=share["order_id"],
                        account_id=share["account_id"],
                        beneficiary=share["beneficiary"],
                        quantity=format_tonnes(share["quantity_grams"]),
                    )
                    for share in json.loads(row["shares"])
                ],
            ),
        )
        for row in rows
    ]
