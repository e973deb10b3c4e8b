"""Test supply does not run out: lots are added before orders need more than is left.

Test supply is shared by all organisations, and anyone with an offset link can buy it with a test card.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.platform.values.context import Mode, new_id
from tonne.supply.stock.lots.freeze_facts import refresh_facts
from tonne.supply.stock.lots.lots import MAX_LOT_UNITS, LotRow, LotUnits, save_lots
from tonne.supply.stock.model import Lot, LotStatus
from tonne_verify.serials.parse import parse_block
from tonne_verify.serials.units import UnitRange

# The least that is added, so that it happens seldom.
LOT_TONNES = 1_000_000

# Two workers would otherwise take the same serial numbers.
LOCK_TEST_SUPPLY = "SELECT pg_advisory_xact_lock(hashtextextended('test supply', 0))"
# Like the newest lot of the project, in a serial block of its own that no registry uses.
READ_TEMPLATES = """
SELECT project.id, project.registry, project.registry_project_id, named.vintage, named.serial_block,
       coalesce(newest.country, project.country) AS country,
       coalesce(newest.methodology, project.methodology) AS methodology, project.granularity_grams
FROM projects project
LEFT JOIN LATERAL (
    SELECT vintage, country, methodology FROM lots
    WHERE lots.mode = project.mode AND lots.project_id = project.id ORDER BY vintage DESC, id DESC LIMIT 1
) newest ON true
CROSS JOIN LATERAL (
    SELECT coalesce(newest.vintage, $2)::int AS vintage,
           left(format('TEST-%s-%s', project.registry_project_id, coalesce(newest.vintage, $2)), 200) AS serial_block
) named
WHERE project.mode = 'test' AND project.id = ANY ($1::text[])
"""
READ_LAST_NUMBERS = """
SELECT serial_blocks.namespace, max(lots.last_number) AS last_number
FROM serial_blocks JOIN lots ON lots.serial_block = serial_blocks.number
WHERE serial_blocks.namespace = ANY ($1::text[]) GROUP BY serial_blocks.namespace
"""


async def replenish(tx: Connection, needed: Mapping[str, int], lots: Iterable[Lot], now: datetime) -> list[Lot]:
    """Add lots to test projects that have less than the needed grams. `lots` are those with free grams, locked."""
    lacking = dict(needed)
    for lot in lots:
        if lot.project_id in lacking:
            lacking[lot.project_id] -= lot.quantity_grams - lot.allocated_grams
    lacking = {project_id: grams for project_id, grams in lacking.items() if grams > 0}
    if not lacking:
        return []
    await tx.execute(LOCK_TEST_SUPPLY)
    templates = await tx.fetch(READ_TEMPLATES, sorted(lacking), now.year - 1)
    blocks = {each["id"]: _units(each, 1, 1).namespace for each in templates}
    found = await tx.fetch(READ_LAST_NUMBERS, list(blocks.values()))
    last = {row["namespace"]: row["last_number"] for row in found}
    rows = {
        new_id("lot"): added
        for each in templates
        for added in _rows(each, lacking[each["id"]], last.get(blocks[each["id"]], 0))
    }
    project_ids = {(each["registry"], each["registry_project_id"]): each["id"] for each in templates}
    await save_lots(tx, Mode.TEST, rows, project_ids, now)
    await refresh_facts(tx, Mode.TEST, lot_ids=rows)
    return [
        Lot(
            id=id_,
            project_id=project_ids[row.registry, row.registry_project_id],
            vintage=row.vintage,
            status=LotStatus.HELD,
            quantity_grams=units.quantity_grams,
            allocated_grams=0,
            retired_on=None,
            retirement_url=None,
        )
        for id_, (row, units) in rows.items()
    ]


def _units(template: asyncpg.Record, first: int, last: int) -> UnitRange:
    return parse_block(
        template["registry"], template["serial_block"], first, last, unit_grams=template["granularity_grams"]
    )


def _rows(template: asyncpg.Record, grams: int, last_number: int) -> Iterator[LotUnits]:
    """As many lots as it takes, because the size of a lot is limited."""
    left = -(-max(LOT_TONNES * GRAMS_PER_TONNE, grams) // template["granularity_grams"])
    while left > 0:
        first_number, last_number = last_number + 1, last_number + min(left, MAX_LOT_UNITS)
        left -= MAX_LOT_UNITS
        units = _units(template, first_number, last_number)
        row = LotRow(
            registry=template["registry"],
            registry_project_id=template["registry_project_id"],
            vintage=template["vintage"],
            serial=units.text,
            status=LotStatus.HELD,
            retirement_url=None,
            retired_on=None,
            country=template["country"],
            methodology=template["methodology"],
        )
        yield LotUnits(row, units)
