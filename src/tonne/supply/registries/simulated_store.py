"""SQL of the books of the simulated registries."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import replace
from tonne.supply.registries.gateway import Holding, Instruction, Movement
from tonne.supply.stock.serial_runs import Numbers

_Units = tuple[Numbers, ...]


class SimulatedHolding(Struct, frozen=True):
    id: str
    lot_id: str
    active: _Units
    is_used: bool


class Retirement(Struct, frozen=True):
    """`later` is the state of a pending one at the next look-up. `key` is empty for what is not stored."""

    state: str
    units: _Units
    created_at: datetime
    later: str | None = None
    code: str | None = None
    message: str | None = None
    key: str = ""
    holding_id: str = ""


def count(units: Iterable[Numbers]) -> int:
    return sum(last - first + 1 for first, last in units)


def first_units(units: Iterable[Numbers], wanted: int) -> _Units:
    """The first so many units."""
    found: list[Numbers] = []
    for first, last in units:
        if wanted > 0:
            found.append((first, min(last, first + wanted - 1)))
            wanted -= last - first + 1
    return tuple(found)


def last_units(units: Iterable[Numbers], wanted: int) -> _Units:
    """The last so many units."""
    found: list[Numbers] = []
    for first, last in reversed(list(units)):
        if wanted > 0:
            found.append((max(first, last - wanted + 1), last))
            wanted -= last - first + 1
    return tuple(reversed(found))


# Whatever test lots exist are deposited when they are asked for; again, if a lot was corrected before anything of it
# was retired. The row itself says so: a retirement that is being committed is not visible.
DEPOSIT = """
INSERT INTO simulated_holdings (registry_account, id, lot_id, active, deposited)
SELECT registry_account, id, id, units, units
FROM lots, int8multirange(int8range(first_number, last_number, '[]')) AS units
WHERE mode = 'test' AND registry_account = $1 AND ($2::text IS NULL OR id = $2) AND holding_id = id
ON CONFLICT (registry_account, id) DO UPDATE SET active = excluded.active, deposited = excluded.deposited
    WHERE NOT simulated_holdings.is_used AND simulated_holdings.active = simulated_holdings.deposited
      AND simulated_holdings.deposited <> excluded.deposited
"""


async def deposit(tx: Connection, account: str, holding_id: str | None) -> None:
    await tx.execute(DEPOSIT, account, holding_id)


LOCK_HOLDING = """
SELECT id, lot_id, active, is_used FROM simulated_holdings WHERE registry_account = $1 AND id = $2 FOR UPDATE
"""


async def lock_holding(tx: Connection, account: str, holding_id: str) -> SimulatedHolding | None:
    row = await tx.fetchrow(LOCK_HOLDING, account, holding_id)
    return None if row is None else SimulatedHolding(row["id"], row["lot_id"], _units(row["active"]), row["is_used"])


# What is left of a used holding is a new one, with the number of those before it in its id.
USE_HOLDING = """
WITH used AS (
    UPDATE simulated_holdings SET active = active - $3::text::int8multirange, is_used = $4
    WHERE registry_account = $1 AND id = $2 RETURNING registry_account, id, lot_id, active
), kept AS (
    INSERT INTO simulated_holdings (registry_account, id, lot_id, active, parent_id)
    SELECT registry_account,
           format('%s.%s', lot_id, (SELECT count(*) FROM simulated_holdings earlier
                                    WHERE earlier.registry_account = $1 AND earlier.lot_id = used.lot_id)),
           lot_id, active, id
    FROM used
    WHERE $4 AND NOT isempty(active)
)
SELECT id FROM used
"""


async def use(tx: Connection, account: str, holding_id: str, units: _Units, *, splits: bool) -> None:
    """Take units out of a locked holding."""
    await tx.execute(USE_HOLDING, account, holding_id, _ranges(units), splits)


_RETIREMENT = "state, units, later, code, message, key, holding_id, created_at"
FIND = f"SELECT {_RETIREMENT} FROM simulated_retirements WHERE registry_account = $1 AND key = $2"  # noqa: S608 - a constant


async def find(connection: Connection, account: str, key: str) -> Retirement | None:
    row = await connection.fetchrow(FIND, account, key)
    return None if row is None else Retirement(**{**row, "units": _units(row["units"])})


SAVE = """
INSERT INTO simulated_retirements (registry_account, key, reference, holding_id, units, beneficiary, state, later, code,
                                   message, created_at)
VALUES ($1, $2, $3, $4, $5::text::int8multirange, $6, $7, $8, $9, $10, $11)
ON CONFLICT (registry_account, key) DO UPDATE
    SET units = excluded.units, state = excluded.state, later = excluded.later, code = excluded.code,
        message = excluded.message
"""


async def save(tx: Connection, account: str, instruction: Instruction, made: Retirement) -> Retirement:
    """What became of a request, which may be on record as lost or late."""
    request = (instruction.id, instruction.reference, instruction.holding_id, _ranges(made.units))
    outcome = (instruction.beneficiary, made.state, made.later, made.code, made.message, made.created_at)
    await tx.execute(SAVE, account, *request, *outcome)
    return replace(made, key=instruction.id, holding_id=instruction.holding_id)


SAVE_STRANGER = """
INSERT INTO simulated_retirements (registry_account, key, reference, holding_id, units, beneficiary, state, created_at)
VALUES ($1, $2, '', $3, $4::text::int8multirange, 'Somebody else', 'retired', $5)
"""


async def save_stranger(tx: Connection, account: str, instruction: Instruction, units: _Units, at: datetime) -> None:
    """A retirement of the same holding that nobody here has asked for."""
    key = f"{instruction.id}.stranger"
    await tx.execute(SAVE_STRANGER, account, key, instruction.holding_id, _ranges(units), at)


FINISH = """
UPDATE simulated_retirements SET state = later, later = NULL WHERE registry_account = $1 AND key = $2
RETURNING state
"""
# To the new holding, if there is one.
GIVE_BACK = """
UPDATE simulated_holdings SET active = active + $3::text::int8multirange,
       is_used = is_used AND EXISTS (SELECT FROM simulated_holdings child
                                     WHERE child.registry_account = $1 AND child.parent_id = $2)
WHERE registry_account = $1 AND id = coalesce((SELECT child.id FROM simulated_holdings child
                                         WHERE child.registry_account = $1 AND child.parent_id = $2), $2)
"""


async def finish(tx: Connection, account: str, pending: Retirement) -> None:
    """Give a pending retirement its final state, as time does at a real registry. Rejected units are active again."""
    if await tx.fetchval(FINISH, account, pending.key) == "declined":
        await tx.execute(GIVE_BACK, account, pending.holding_id, _ranges(pending.units))


FIND_CHILD = "SELECT id FROM simulated_holdings WHERE registry_account = $1 AND parent_id = $2"


async def find_child(connection: Connection, account: str, holding_id: str) -> str | None:
    child: str | None = await connection.fetchval(FIND_CHILD, account, holding_id)
    return child


IS_USED = "SELECT is_used FROM simulated_holdings WHERE registry_account = $1 AND id = $2"


async def is_used(connection: Connection, account: str, holding_id: str) -> bool:
    return await connection.fetchval(IS_USED, account, holding_id) is True


# Lots that were withdrawn are nowhere.
LIST_HOLDINGS = """
SELECT id, lot_id, active FROM simulated_holdings holding
WHERE registry_account = $1 AND NOT is_used
  AND EXISTS (SELECT FROM lots WHERE lots.mode = 'test' AND lots.id = holding.lot_id) ORDER BY id
"""


async def list_holdings(connection: Connection, account: str) -> list[Holding]:
    rows = await connection.fetch(LIST_HOLDINGS, account)
    return [Holding(row["id"], row["lot_id"], _units(row["active"])) for row in rows]


LIST_MOVEMENTS = """
SELECT DISTINCT reference, holding_id FROM simulated_retirements
WHERE registry_account = $1 AND state IN ('pending', 'retired') AND created_at >= $2
"""


async def list_movements(connection: Connection, account: str, since: datetime) -> list[Movement]:
    return [Movement(**row) for row in await connection.fetch(LIST_MOVEMENTS, account, since)]


def _units(ranges: Iterable[Any]) -> _Units:
    """PostgreSQL excludes the upper end."""
    return tuple((each.lower, each.upper - 1) for each in ranges)


def _ranges(units: _Units) -> str:
    return "{" + ",".join(f"[{first},{last}]" for first, last in units) + "}"
