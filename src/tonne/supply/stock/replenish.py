"""Test supply does not run out: lots are added before orders need more than is left.

Test supply is shared by all organisations, and anyone with an offset link can buy it with a test card.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.platform.values.context import Mode, new_id
from tonne.supply.stock.lots.lots import MAX_LOT_TONNES, LotRow, save_lots
from tonne.supply.stock.model import Lot, LotStatus

# The least that is added, so that it happens seldom.
LOT_TONNES = 1_000_000

# Two workers would otherwise take the same serial numbers.
LOCK_TEST_SUPPLY = "SELECT pg_advisory_xact_lock(hashtextextended('test supply', 0))"
# Like the newest lot of the project, in a serial block of its own that no registry uses.
READ_TEMPLATES = """
SELECT project.id, project.registry, project.registry_project_id, named.vintage, named.serial_block,
       coalesce(newest.country, project.country) AS country,
       coalesce(newest.methodology, project.methodology) AS methodology,
       coalesce((SELECT max(lots.last_number) FROM lots JOIN serial_blocks ON serial_blocks.number = lots.serial_block
                 WHERE serial_blocks.canonical = canonical_serial_block(project.registry, named.serial_block)), 0)
           AS last_number
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
    rows = {new_id("lot"): row for each in templates for row in _rows(each, lacking[each["id"]])}
    project_ids = {(each["registry"], each["registry_project_id"]): each["id"] for each in templates}
    await save_lots(tx, Mode.TEST, rows, project_ids, now)
    return [
        Lot(
            id=id_,
            project_id=project_ids[row.registry, row.registry_project_id],
            vintage=row.vintage,
            status=LotStatus.HELD,
            quantity_grams=(row.last_number - row.first_number + 1) * GRAMS_PER_TONNE,
            allocated_grams=0,
            retired_on=None,
            retirement_url=None,
        )
        for id_, row in rows.items()
    ]


def _rows(template: asyncpg.Record, grams: int) -> Iterator[LotRow]:
    """As many lots as it takes, because the size of a lot is limited."""
    tonnes, last_number = max(LOT_TONNES, -(-grams // GRAMS_PER_TONNE)), template["last_number"]
    while tonnes > 0:
        first_number, last_number = last_number + 1, last_number + min(tonnes, MAX_LOT_TONNES)
        tonnes -= MAX_LOT_TONNES
        yield LotRow(
            registry=template["registry"],
            registry_project_id=template["registry_project_id"],
            vintage=template["vintage"],
            serial_block=template["serial_block"],
            first_number=first_number,
            last_number=last_number,
            status=LotStatus.HELD,
            retirement_url=None,
            retired_on=None,
            country=template["country"],
            methodology=template["methodology"],
        )
