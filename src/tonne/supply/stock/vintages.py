"""What the catalogue and the operator are shown of free supply."""

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.model import VintageSupply

# What is held is not of a vintage yet: orders draw on the oldest first. Paused lots supply nothing.
LOAD_VINTAGES = """
SELECT lots.project_id, lots.vintage, lots.grams::bigint AS free_grams, coalesce(holds.grams, 0)::bigint AS held_grams,
       coalesce(holds.unpaid_grams, 0)::bigint AS unpaid_grams
FROM (SELECT project_id, vintage,
             coalesce(sum(quantity_grams - allocated_grams) FILTER (WHERE paused_at IS NULL), 0) AS grams
      FROM lots WHERE mode = $1 GROUP BY project_id, vintage) AS lots
LEFT JOIN (SELECT hold.project_id, sum(hold.reserved_grams) AS grams,
                  sum(hold.reserved_grams) FILTER (WHERE hold.trust IS NOT NULL
                                                   AND orders.status IS DISTINCT FROM 'paid') AS unpaid_grams
           FROM supply_holds hold
           LEFT JOIN orders ON orders.account_id = hold.account_id AND orders.id = hold.order_id
           WHERE hold.mode = $1 GROUP BY hold.project_id) AS holds USING (project_id)
ORDER BY lots.project_id, lots.vintage
"""


async def load_vintages_any_account(connection: Connection, mode: Mode) -> dict[str, list[VintageSupply]]:
    """Grams that are neither allocated nor held, by project."""
    vintages: dict[str, list[VintageSupply]] = {}
    held: dict[str, tuple[int, int]] = {}
    for row in await connection.fetch(LOAD_VINTAGES, mode):
        project_id, free_grams = row["project_id"], row["free_grams"]
        # Unpaid checkouts last: of what they hold, there is nothing beyond the lots.
        left, unpaid = held.get(project_id, (row["held_grams"], row["unpaid_grams"]))
        taken = min(left, free_grams)
        pending = min(unpaid, max(0, taken - (left - unpaid)))
        held[project_id] = (left - taken, unpaid - pending)
        supply = VintageSupply(row["vintage"], free_grams - taken, pending)
        vintages.setdefault(project_id, []).append(supply)
    return vintages


# A project in several bundles counts in each of them: the first order gets the tonnes.
SUM_BY_BUNDLE = """
SELECT bundle_id, sum(quantity_grams - allocated_grams)::bigint AS grams
FROM bundle_projects JOIN lots USING (mode, project_id)
WHERE mode = $1 AND paused_at IS NULL GROUP BY bundle_id
"""


async def sum_by_bundle(connection: Connection, mode: Mode) -> dict[str, int]:
    """Grams that are not allocated; 0 is left out."""
    return {row["bundle_id"]: row["grams"] for row in await connection.fetch(SUM_BY_BUNDLE, mode)}
