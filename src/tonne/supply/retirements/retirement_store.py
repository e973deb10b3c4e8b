"""Lists an organisation's retirements: serial numbers, and its own shares of them."""

import json
from typing import NamedTuple

import asyncpg

from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Scope, to_wire
from tonne.platform.values.paging import Position
from tonne.platform.values.serials import serial_range
from tonne.supply.retirements.schemas import RetirementOut

# Only the organisation's own shares are listed: other organisations may have shares of the same unit.
#
# A loose index scan: the recursive part finds the next older parcel in the index of the organisation's shares. A parcel
# may have thousands of shares, and DISTINCT would read all shares of the organisation for every page. ORDER BY names
# all columns of that index, so that the planner uses it.
LIST_RETIREMENTS = """
WITH RECURSIVE own (organisation_id, mode, parcel_id) AS (
    SELECT $1::text, $2::text, $3::text
    UNION ALL
    SELECT before.organisation_id, before.mode::text, before.parcel_id
    FROM own CROSS JOIN LATERAL (
        SELECT share.organisation_id, share.mode, share.parcel_id FROM shares share
        WHERE (share.organisation_id, share.mode, share.parcel_id) < (own.organisation_id, own.mode, own.parcel_id)
        ORDER BY share.organisation_id DESC, share.mode DESC, share.parcel_id DESC LIMIT 1) before
    WHERE before.organisation_id = $1 AND before.mode = $2
)
SELECT parcel.id, parcel.opened_at, parcel.retired_at, parcel.retired_on, parcel.retirement_url, parcel.quantity_grams,
       parcel.start_grams, parcel.beneficiary, parcel.in_service_name, lot.vintage, lot.serial, lot.country,
       lot.unit_grams, project.id AS project_id, project.registry,
       project.registry_project_id, project.name AS project_name,
       (SELECT json_agg(json_build_object('order_id', share.order_id, 'account_id', share.account_id,
                                          'beneficiary', share.beneficiary, 'quantity_grams', share.quantity_grams)
                        ORDER BY share.order_id, share.line_position)
        FROM shares share
        WHERE share.organisation_id = $1 AND share.mode = $2 AND share.parcel_id = parcel.id)::text AS shares
FROM (SELECT parcel_id FROM own
      WHERE parcel_id < $3 AND (SELECT status FROM parcels WHERE mode = $2 AND id = own.parcel_id) = 'retired'
      LIMIT $4) page
JOIN parcels parcel ON parcel.mode = $2 AND parcel.id = page.parcel_id
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
ORDER BY parcel.id DESC
"""


class Listed(NamedTuple):
    place: Position
    wire: RetirementOut


async def list_retirements(connection: Connection, scope: Scope, start: Position, limit: int) -> list[Listed]:
    """Newest first, by the time of allocation: parcel ids are in that order."""
    rows = await connection.fetch(LIST_RETIREMENTS, scope.organisation_id, scope.mode, start.id, limit)
    return [Listed(Position(row["opened_at"], row["id"]), _wire(row)) for row in rows]


def _wire(row: asyncpg.Record) -> RetirementOut:
    shares = json.loads(row["shares"])
    return value_of(
        RetirementOut,
        row,
        serials=serial_range(
            row["registry"], row["serial"], row["unit_grams"], row["start_grams"], row["quantity_grams"]
        ),
        quantity=format_tonnes(row["quantity_grams"]),
        retired_on=row["retired_on"].isoformat(),
        recorded_at=to_wire(row["retired_at"]),
        shares=[{**share, "quantity": format_tonnes(share["quantity_grams"])} for share in shares],
    )
