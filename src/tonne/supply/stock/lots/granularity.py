"""The granularity of a project is fixed once credits of it are allocated: parcels consist of whole units."""

from collections.abc import Collection

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.errors import RowError
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.imports.plan import CataloguePlan
from tonne.supply.stock.lots.lots import find_holders_any_account, name_holders

FIND_ALLOCATED_LOTS = """
SELECT id, project_id FROM lots WHERE mode = $1 AND project_id = ANY ($2::text[]) AND allocated_grams > 0 ORDER BY id
"""


async def find_allocated_lots(tx: Connection, mode: Mode, project_ids: Collection[str]) -> dict[str, list[str]]:
    """The ids of the lots of which orders hold grams, by project."""
    found: dict[str, list[str]] = {}
    for row in await tx.fetch(FIND_ALLOCATED_LOTS, mode, list(project_ids)):
        found.setdefault(row["project_id"], []).append(row["id"])
    return found


async def check_granularity(tx: Connection, mode: Mode, catalogue: CataloguePlan) -> list[RowError]:
    """Report projects whose granularity would change under allocated credits. The caller has locked the projects."""
    before = catalogue.projects.stored
    changed = {
        catalogue.project_ids[row.key]: row
        for row in catalogue.projects.changed
        if row.granularity_grams != before[row.key].granularity_grams
    }
    if not changed:
        return []
    lots = await find_allocated_lots(tx, mode, changed)
    errors = []
    for project_id, lot_ids in lots.items():
        row = changed[project_id]
        holders = await find_holders_any_account(tx, mode, lot_ids)
        orders = sorted({order_id for ids in holders.values() for order_id in ids})
        message = (
            f"tonnes of {row.registry} {row.registry_project_id} are allocated to {name_holders(orders)} in units of "
            f"{before[row.key].granularity_grams} g, so the unit cannot change: write "
            f"{before[row.key].granularity_grams}."
        )
        errors.append(RowError(catalogue.projects.file, row.line, "granularity_grams", message))
    return errors
