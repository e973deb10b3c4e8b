"""The books of the service and those of the registry, each read by SQL of its own, and compared unit by unit."""

from collections import Counter

from chaos.cluster import Cluster
from tests.support.registries.isometric_server import ACCOUNT
from tonne.platform.db.database import Database

# The registry: of which lot, which units, for which request.
THEIRS = """
SELECT holding.lot_id, lower(part) AS first, upper(part) - 1 AS last,
       substring(retired.reference FROM 'T-[0-9a-f]{16}') AS reference
FROM simulated_retirements retired
JOIN simulated_holdings holding ON holding.registry_account = retired.registry_account
                               AND holding.id = retired.holding_id, unnest(retired.units) AS part
WHERE retired.registry_account = $1 AND retired.state = 'retired'
"""
ACTIVE = """
SELECT lot_id, coalesce(sum(upper(part) - lower(part)), 0)::bigint AS units
FROM simulated_holdings, unnest(active) AS part WHERE registry_account = $1 AND NOT is_used GROUP BY lot_id
"""
ISSUED = "SELECT lot_id FROM simulated_holdings WHERE registry_account = $1 AND parent_id IS NULL"
# The service: the same of its retired parcels, and what is sold of each.
OURS = """
SELECT project.registry_project_id AS code, lot.first_number + parcel.start_grams / 1000 AS first,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams) / 1000 - 1 AS last,
       request.reference, parcel.quantity_grams,
       (SELECT sum(share.quantity_grams) FROM shares share
        WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id)::bigint AS sold_grams
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
LEFT JOIN registry_instructions request ON request.id = parcel.instruction_id
WHERE parcel.mode = 'live' AND parcel.status = 'retired'
"""
REQUESTS = "SELECT reference, unit_count FROM registry_instructions WHERE mode = 'live' AND state = 'retired'"

_Unit = tuple[str, int]


async def compare_books(cluster: Cluster, books: Database, codes: dict[str, str], lot_units: int) -> int:
    """Name every unit that differs as a problem. `codes` are the projects by lot of the registry.

    Returns how many units are retired.
    """
    theirs: Counter[_Unit] = Counter()
    by_reference: Counter[str] = Counter()
    async with books.connection() as connection:
        for row in await connection.fetch(THEIRS, ACCOUNT):
            theirs.update((codes[row["lot_id"]], unit) for unit in range(row["first"], row["last"] + 1))
            by_reference[row["reference"]] += row["last"] - row["first"] + 1
        active = {codes[row["lot_id"]]: row["units"] for row in await connection.fetch(ACTIVE, ACCOUNT)}
    ours: Counter[_Unit] = Counter()
    for row in await cluster.fetch(OURS):
        ours.update((row["code"], unit) for unit in range(row["first"], row["last"] + 1))
        if row["sold_grams"] is None or row["sold_grams"] > row["quantity_grams"]:
            cluster.problems.append(f"{row['sold_grams']} g of {row['quantity_grams']} g are sold: {row['reference']}")
    requested = {row["reference"]: row["unit_count"] for row in await cluster.fetch(REQUESTS)}
    _require_none(cluster, "retired twice at the registry", [unit for unit, times in theirs.items() if times > 1])
    _require_none(cluster, "sold twice", [unit for unit, times in ours.items() if times > 1])
    _require_none(cluster, "retired at the registry only", sorted(theirs.keys() - ours.keys()))
    _require_none(cluster, "retired in the books only", sorted(ours.keys() - theirs.keys()))
    differing = sorted(each for each in requested.keys() | by_reference if requested.get(each) != by_reference[each])
    _require_none(cluster, "requests with other units than retired", differing)
    for code in codes.values():
        left = lot_units - sum(1 for unit in theirs if unit[0] == code)
        cluster.require(active.get(code, 0) == left, f"{code}: {active.get(code)} kg are active, not {left}")
    return len(theirs)


def _require_none(cluster: Cluster, what: str, found: list[_Unit] | list[str]) -> None:
    cluster.require(not found, f"{what}: {len(found)}, such as {found[:3]}")
