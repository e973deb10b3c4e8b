"""Reads what the entries of the log state: certificates and retired parcels."""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.context import Mode
from tonne.supply.transparency.statements import StatedRows, WaitingStatement
from tonne_verify.openings import StatementKind


async def read_stated_rows(tx: Connection, mode: Mode, waiting: Sequence[WaitingStatement]) -> StatedRows:
    """The rows that these statements are about, as they are now."""
    parcels = [each.subject for each in waiting if each.kind is StatementKind.RETIREMENT]
    numbers = [each.subject for each in waiting if each.kind is not StatementKind.RETIREMENT]
    return StatedRows(
        await _read_retirements_any_account(tx, mode, parcels) if parcels else {},
        await _read_certificates_any_account(tx, numbers) if numbers else {},
    )


READ_CERTIFICATES = "SELECT number, record, replaced_by FROM certificates WHERE number = ANY ($1::text[])"


async def _read_certificates_any_account(
    connection: Connection, numbers: Collection[str]
) -> dict[str, tuple[dict[str, Any], str | None]]:
    """The record of each certificate, and the number that replaces it."""
    rows = await connection.fetch(READ_CERTIFICATES, list(numbers))
    return {row["number"]: (msgspec.json.decode(decompress_json(row["record"])), row["replaced_by"]) for row in rows}


READ_RETIREMENTS = """
SELECT parcel.id, parcel.start_grams, parcel.quantity_grams, parcel.retired_on, parcel.retirement_url, lot.vintage,
       lot.serial, lot.unit_grams, project.registry, project.registry_project_id,
       project.details ->> 'serial_project' AS serial_project
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE parcel.mode = $1 AND parcel.id = ANY ($2::text[]) AND parcel.status = 'retired'
"""


async def _read_retirements_any_account(
    connection: Connection, mode: Mode, parcel_ids: Collection[str]
) -> dict[str, dict[str, Any]]:
    """The facts of retired parcels, by their ids."""
    return {row["id"]: dict(row) for row in await connection.fetch(READ_RETIREMENTS, mode, list(parcel_ids))}
