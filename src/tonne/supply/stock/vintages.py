"""What the catalogue and the operator are shown of free supply."""

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.model import VintageSupply

# What is held is not of a vintage yet: orders draw on the oldest first.
LOAD_VINTAGES = """
SELECT lots.project_id, lots.vintage, lots.grams::bigint AS free_grams, coalesce(holds.grams, 0)::bigint AS held_grams
FROM (SELECT project_id, vintage, sum(quantity_grams - allocated_grams) AS grams FROM lots WHERE mode = $1
      GROUP BY project_id, vintage) AS lots
LEFT JOIN (SELECT project_id, sum(reserved_grams) AS grams FROM supply_holds WHERE mode = $1 GROUP BY project_id)
     AS holds USING (project_id)
ORDER BY lots.project_id, lots.vintage
"""


async def load_vintages_any_account(connection: Connection, mode: Mode) -> dict[str, list[VintageSupply]]:
    """Grams that are neither allocated nor held, by project."""
    vintages: dict[str, list[VintageSupply]] = {}
    held: dict[str, int] = {}
    for row in await connection.fetch(LOAD_VINTAGES, mode):
        project_id, free_grams = row["project_id"], row["free_grams"]
        left = held.setdefault(project_id, row["held_grams"])
        held[project_id] = max(0, left - free_grams)
        vintages.setdefault(project_id, []).append(VintageSupply(row["vintage"], max(0, free_grams - left)))
    return vintages


# A project in several bundles counts in each of them: the first order gets the tonnes.
SUM_BY_BUNDLE = """
SELECT bundle_id, sum(quantity_grams - allocated_grams)::bigint AS grams
FROM bundle_projects JOIN lots USING (mode, project_id)
WHERE mode = $1 GROUP BY bundle_id
"""


async def sum_by_bundle(connection: Connection, mode: Mode) -> dict[str, int]:
    """Grams that are not allocated; 0 is left out."""
    return {row["bundle_id"]: row["grams"] for row in await connection.fetch(SUM_BY_BUNDLE, mode)}
