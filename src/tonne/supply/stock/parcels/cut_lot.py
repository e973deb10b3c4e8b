"""Cut a lot where a registry has retired units of its free end.

Parcels of a lot have no gaps between them: the next one begins where the last one ends.
"""

from typing import NamedTuple

from tonne.platform.db.database import Connection, columns
from tonne.platform.values.context import Mode, new_id
from tonne_verify.serials.parse import stored_units
from tonne_verify.serials.units import show

READ_LOT = """
SELECT project.registry, lot.serial, lot.unit_grams, lot.quantity_grams
FROM lots lot JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = $1 AND lot.id = $2
"""
READ_PLACES = "SELECT start_grams, quantity_grams FROM parcels WHERE mode = $1 AND lot_id = $2 ORDER BY start_grams"
# In one statement: lots never overlap. The parts are like the lot.
CUT = """
WITH kept AS (
    UPDATE lots SET last_number = $3, serial = $4, quantity_grams = $5, allocated_grams = $6
    WHERE mode = $1 AND id = $2
)
INSERT INTO lots SELECT (jsonb_populate_record(lot, to_jsonb(part))).*
FROM lots lot, unnest($7::text[], $8::bigint[], $9::bigint[], $10::text[], $11::bigint[], $12::bigint[])
     AS part (id, first_number, last_number, serial, quantity_grams, allocated_grams)
WHERE lot.mode = $1 AND lot.id = $2
"""
MOVE = """
UPDATE parcels SET lot_id = part.id, start_grams = parcels.start_grams - part.start_grams
FROM unnest($3::text[], $4::bigint[], $5::bigint[]) AS part (id, start_grams, quantity_grams)
WHERE parcels.mode = $1 AND parcels.lot_id = $2 AND parcels.start_grams >= part.start_grams
  AND parcels.start_grams < part.start_grams + part.quantity_grams
"""


class _PartOfLot(NamedTuple):
    id: str
    start_grams: int
    quantity_grams: int
    allocated_grams: int
    first_number: int
    last_number: int
    serial: str


async def cut_at_gaps_any_account(tx: Connection, mode: Mode, lot_id: str) -> None:
    """Every part of a locked lot that begins after free units becomes a lot of its own."""
    row = await tx.fetchrow(READ_LOT, mode, lot_id)
    if row is None:
        raise LookupError(f"lot {lot_id}")
    units = stored_units(row["registry"], row["serial"], row["unit_grams"])
    spans: list[tuple[int, int, int]] = []
    start = end = 0
    for place in await tx.fetch(READ_PLACES, mode, lot_id):
        if place["start_grams"] > end:
            spans.append((start, place["start_grams"], end))
            start = place["start_grams"]
        end = place["start_grams"] + place["quantity_grams"]
    spans.append((start, row["quantity_grams"], end))
    parts: list[_PartOfLot] = []
    for first_grams, end_grams, allocated_to in spans:
        first = units.first + first_grams // units.unit_grams
        last = units.first + end_grams // units.unit_grams - 1
        id_ = new_id("lot") if parts else lot_id
        size = (end_grams - first_grams, allocated_to - first_grams)
        parts.append(_PartOfLot(id_, first_grams, *size, first, last, show(units, first, last)))
    kept, *others = parts
    fields = "id, first_number, last_number, serial, quantity_grams, allocated_grams"
    shrunk = (kept.last_number, kept.serial, kept.quantity_grams, kept.allocated_grams)
    await tx.execute(CUT, mode, lot_id, *shrunk, *columns(others, fields))
    await tx.execute(MOVE, mode, lot_id, *columns(others, "id, start_grams, quantity_grams"))
