"""The books of the service and those of the registries, each read by SQL of its own, and compared unit by unit."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tonne.platform.db.database import Connection

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
FROM simulated_holdings LEFT JOIN unnest(active) AS part ON true
WHERE registry_account = $1 AND NOT is_used GROUP BY lot_id
"""
# The service: the same of its retired parcels, and what is sold of each.
OURS = """
SELECT block.namespace, lot.first_number + parcel.start_grams / lot.unit_grams AS first,
       lot.first_number + (parcel.start_grams + parcel.quantity_grams) / lot.unit_grams - 1 AS last,
       parcel.id AS parcel_id, parcel.quantity_grams,
       (SELECT sum(share.quantity_grams) FROM shares share
        WHERE share.mode = parcel.mode AND share.parcel_id = parcel.id)::bigint AS sold_grams
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN serial_blocks block ON block.number = lot.serial_block
WHERE lot.registry_account = $1 AND parcel.status = 'retired'
"""
HELD = """
SELECT block.namespace, sum(lot.quantity_grams / lot.unit_grams)::bigint AS units
FROM lots lot JOIN serial_blocks block ON block.number = lot.serial_block
WHERE lot.registry_account = $1 GROUP BY block.namespace
"""
REQUESTS = "SELECT reference, unit_count FROM registry_instructions WHERE registry_account = $1 AND state = 'retired'"

_Unit = tuple[str, int]


class Books(NamedTuple):
    """An account here, and the books of the registry. `namespace_of` says where the numbers of a lot there are unique.

    `retires_fewer`: the registry may retire fewer units than it was asked for.
    """

    account: str
    account_there: str
    namespace_of: Callable[[str], str]
    retires_fewer: bool = False


async def compare_books(books: Books, here: Connection, there: Connection) -> tuple[int, list[str]]:
    """How many units are retired, and every kind of unit that differs."""
    problems: list[str] = []

    def require_none(what: str, found: list[_Unit] | list[str]) -> None:
        if found:
            problems.append(f"{books.account}: {what}: {len(found)}, such as {found[:3]}")

    theirs: Counter[_Unit] = Counter()
    by_reference: Counter[str] = Counter()
    for row in await there.fetch(THEIRS, books.account_there):
        namespace = books.namespace_of(row["lot_id"])
        theirs.update((namespace, unit) for unit in range(row["first"], row["last"] + 1))
        by_reference[row["reference"] or ""] += row["last"] - row["first"] + 1
    active: Counter[str] = Counter()
    for row in await there.fetch(ACTIVE, books.account_there):
        active[books.namespace_of(row["lot_id"])] += row["units"]
    ours: Counter[_Unit] = Counter()
    wrong_sums: list[str] = []
    for row in await here.fetch(OURS, books.account):
        ours.update((row["namespace"], unit) for unit in range(row["first"], row["last"] + 1))
        if row["sold_grams"] is None or row["sold_grams"] > row["quantity_grams"]:
            wrong_sums.append(f"{row['sold_grams']} g of {row['quantity_grams']} g in {row['parcel_id']}")
    require_none("sold more than retired, or nothing", wrong_sums)
    require_none("retired twice at the registry", [unit for unit, times in theirs.items() if times > 1])
    require_none("sold twice", [unit for unit, times in ours.items() if times > 1])
    require_none("retired at the registry only", sorted(theirs.keys() - ours.keys()))
    require_none("retired in the books only", sorted(ours.keys() - theirs.keys()))
    requested = {row["reference"]: row["unit_count"] for row in await here.fetch(REQUESTS, books.account)}
    require_none("requests with other units than retired", _differing(requested, by_reference, books))
    held = {row["namespace"]: row["units"] for row in await here.fetch(HELD, books.account)}
    retired = Counter(namespace for namespace, _ in ours)
    # Simulated registries get to know a lot when they are asked for it.
    wrong = [name for name, units in active.items() if units != held.get(name, 0) - retired[name]]
    require_none("lots with other units left than in the books", sorted(wrong))
    return len(theirs), problems


def _differing(requested: Mapping[str, int], retired: Mapping[str, int], books: Books) -> list[str]:
    def differs(reference: str) -> bool:
        asked, got = requested.get(reference, 0), retired.get(reference, 0)
        return not 0 < got <= asked if books.retires_fewer else asked != got

    return sorted(each for each in requested.keys() | retired.keys() if differs(each))
