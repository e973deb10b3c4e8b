"""SQL of instructions: which parcels a registry is asked to retire, and what became of each request."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, columns, optional, value_of
from tonne.platform.values.context import Mode
from tonne.supply.registries.gateway import Instruction
from tonne.supply.registries.rules import CLOSED, RequestProgress
from tonne.supply.retirements.confirmations.work_list import IS_HELD, READY_SINCE, TASK, Task
from tonne.supply.stock.serial_runs import format_runs, parse_runs

# How many parcels one look considers.
MAX_PARCELS = 1000


class Open(Struct, frozen=True):
    """An instruction that is not closed. `looks` counts requests and look-ups."""

    instruction: Instruction
    progress: RequestProgress
    looks: int


class Waiting(NamedTuple):
    """A parcel that a gateway is to retire: where, and for whom."""

    id: str
    registry_account: str
    lot_id: str
    holding_id: str
    in_service_name: bool
    beneficiary: str

    @property
    def retired_as(self) -> tuple[str, bool, str]:
        """Parcels that can be retired together."""
        return self.lot_id, self.in_service_name, self.beneficiary


FIND_WAITING = f"""
SELECT parcel.id, lot.registry_account, parcel.lot_id, lot.holding_id, parcel.in_service_name,
       parcel.beneficiary
FROM parcels parcel JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
WHERE parcel.mode = $1 AND parcel.status = 'to_retire' AND {READY_SINCE} <= $2
  AND ($3::text[] IS NULL OR parcel.id = ANY ($3))
  AND parcel.instruction_id IS NULL AND parcel.desk_note IS NULL AND parcel.exported_at IS NULL
  AND lot.registry_account IS NOT NULL AND lot.paused_at IS NULL AND lot.invalidated_at IS NULL
  AND NOT EXISTS (SELECT FROM registry_instructions busy
                  WHERE busy.registry_account = lot.registry_account AND busy.holding_id = lot.holding_id
                    AND busy.state IN ('recorded', 'asked', 'pending'))
  AND NOT {IS_HELD}
ORDER BY parcel.opened_at, parcel.id LIMIT {MAX_PARCELS}
"""  # noqa: S608 - constants


async def find_waiting_any_account(
    connection: Connection, mode: Mode, ready_before: datetime, ids: Collection[str] | None = None
) -> list[Waiting]:
    """Oldest first. None of a holding with an open instruction. `ids`: only these parcels."""
    only = None if ids is None else list(ids)
    return [Waiting(**row) for row in await connection.fetch(FIND_WAITING, mode, ready_before, only)]


LIST_TASKS = (
    f"SELECT {TASK} WHERE parcel.mode = $1 AND parcel.id = ANY ($2::text[]) ORDER BY parcel.opened_at, parcel.id"
)


async def list_tasks_any_account(tx: Connection, mode: Mode, ids: Collection[str]) -> list[Task]:
    return [Task(**row) for row in await tx.fetch(LIST_TASKS, mode, list(ids))]


_REQUEST = "id, registry_account, lot_id, holding_id, beneficiary, reference"
# Of two workers with one holding, one inserts.
INSERT = f"""
INSERT INTO registry_instructions (mode, {_REQUEST}, units, unit_count, state, recorded_at, next_attempt_at)
SELECT $1, {_REQUEST}, units, unit_count, 'recorded', $2, $2
FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[])
     AS new ({_REQUEST}, units, unit_count)
ON CONFLICT (registry_account, holding_id) WHERE state IN ('recorded', 'asked', 'pending') DO NOTHING
RETURNING id
"""  # noqa: S608 - a constant


async def insert(tx: Connection, mode: Mode, instructions: Sequence[Instruction], now: datetime) -> set[str]:
    """The ids of those that were recorded: a holding has one open instruction."""
    units = [format_runs(each.units) for each in instructions]
    counts = [each.unit_count for each in instructions]
    return {row["id"] for row in await tx.fetch(INSERT, mode, now, *columns(instructions, _REQUEST), units, counts)}


_COLUMNS = ", ".join(
    f"registry_instructions.{column}"
    for column in (
        *("mode", "id", "registry_account", "lot_id", "holding_id", "beneficiary", "reference", "units"),
        *("registry_reference", "state", "in_doubt", "sent_at", "attempts"),
    )
)
# `$4`: only the instructions of these parcels.
CLAIM = f"""
UPDATE registry_instructions SET next_attempt_at = $3, attempts = registry_instructions.attempts + 1
FROM (SELECT id FROM registry_instructions due
      WHERE next_attempt_at <= $1
        AND NOT EXISTS (SELECT FROM registry_accounts account
                        WHERE account.id = due.registry_account AND account.stopped_at IS NOT NULL)
        AND ($4::text[] IS NULL OR EXISTS (SELECT FROM parcels WHERE parcels.instruction_id = due.id
                                             AND parcels.mode = due.mode AND parcels.id = ANY ($4)))
      ORDER BY next_attempt_at LIMIT $2 FOR UPDATE SKIP LOCKED) due
WHERE registry_instructions.id = due.id
RETURNING {_COLUMNS}
"""  # noqa: S608 - a constant


async def claim(
    tx: Connection, now: datetime, lease: timedelta, limit: int, parcel_ids: Collection[str] | None = None
) -> list[Open]:
    """Due instructions, leased to the caller. None of accounts that are stopped."""
    only = None if parcel_ids is None else list(parcel_ids)
    return [_open(row) for row in await tx.fetch(CLAIM, now, limit, now + lease, only)]


# Not FOR UPDATE, which waits for parcels that another transaction splits off: their foreign key locks the row, too.
LOCK = f"""
SELECT {_COLUMNS} FROM registry_instructions WHERE id = $1 AND closed_at IS NULL FOR NO KEY UPDATE
"""  # noqa: S608 - a constant


async def lock(tx: Connection, instruction_id: str) -> Open | None:
    """None if it is closed. Its parcels are locked before."""
    row = await tx.fetchrow(LOCK, instruction_id)
    return None if row is None else _open(row)


# Without a lock: what is asked for a moment before the lot is invalidated waits for the answer.
FIND_OBSTACLE = """
SELECT CASE WHEN lot.invalidated_at IS NOT NULL THEN 'Not sent: the lot was invalidated.'
            WHEN lot.paused_at IS NOT NULL THEN 'Not sent: the lot is paused.' END
FROM lots lot WHERE lot.mode = $1 AND lot.id = $2
"""
FIND_DISPUTED = f"""
SELECT 'Not sent: the payment of an order is disputed.' FROM parcels parcel
WHERE parcel.instruction_id = $1 AND parcel.status = 'to_retire' AND {IS_HELD} LIMIT 1
"""  # noqa: S608 - a constant


async def find_obstacle_any_account(tx: Connection, instruction: Instruction) -> str | None:
    """Why a recorded request must not be sent now."""
    of_lot: str | None = await tx.fetchval(FIND_OBSTACLE, instruction.mode, instruction.lot_id)
    disputed: str | None = await tx.fetchval(FIND_DISPUTED, instruction.id)
    return of_lot or disputed


FIND_OPEN = f"SELECT {_COLUMNS} FROM registry_instructions WHERE id = $1 AND closed_at IS NULL"  # noqa: S608


async def find_open(connection: Connection, instruction_id: str) -> Open | None:
    row = await connection.fetchrow(FIND_OPEN, instruction_id)
    return None if row is None else _open(row)


SET_PROGRESS = """
UPDATE registry_instructions
SET state = $2, in_doubt = $3, sent_at = $4, next_attempt_at = $5, closed_at = $6,
    registry_reference = coalesce($7, registry_reference), problem = $8
WHERE id = $1
"""


async def set_progress(
    tx: Connection,
    instruction_id: str,
    progress: RequestProgress,
    now: datetime,
    *,
    next_attempt_at: datetime | None,
    registry_reference: str | None = None,
    problem: str | None = None,
) -> None:
    """Of a locked instruction."""
    closed_at = now if progress.state in CLOSED else None
    reached = (progress.state, progress.in_doubt, progress.sent_at, next_attempt_at, closed_at)
    await tx.execute(SET_PROGRESS, instruction_id, *reached, registry_reference, problem)


LIST_PARCELS = """
SELECT id, instruction_id FROM parcels
WHERE mode = $1 AND instruction_id = ANY ($2::text[]) AND status = 'to_retire' ORDER BY id
"""


async def list_parcels_any_account(connection: Connection, mode: Mode, ids: Collection[str]) -> dict[str, str]:
    """The parcels that these instructions have not retired yet, each with its instruction."""
    return {row["id"]: row["instruction_id"] for row in await connection.fetch(LIST_PARCELS, mode, list(ids))}


def _open(row: asyncpg.Record) -> Open:
    instruction = value_of(Instruction, row, units=parse_runs(row["units"]) or [])
    return Open(instruction, value_of(RequestProgress, row), row["attempts"])


LIST_OPEN = f"""
SELECT {_COLUMNS}, registry_instructions.unit_count, registry_instructions.recorded_at, registry_instructions.problem,
       registry_instructions.next_attempt_at, registry_instructions.closed_at
FROM registry_instructions
WHERE id IN (SELECT id FROM registry_instructions WHERE next_attempt_at IS NOT NULL AND $1::text IS NULL
             UNION ALL SELECT $1) AND ($2::mode IS NULL OR mode = $2)
ORDER BY recorded_at LIMIT 1000
"""  # noqa: S608 - a constant


class ListedInstruction(Struct, frozen=True):
    """For the operator."""

    mode: Mode
    id: str
    registry_account: str
    lot_id: str
    holding_id: str
    beneficiary: str
    reference: str
    units: str
    unit_count: int
    state: str
    in_doubt: int
    attempts: int
    recorded_at: datetime
    sent_at: datetime | None
    next_attempt_at: datetime | None
    closed_at: datetime | None
    registry_reference: str | None
    problem: str | None


async def list_open(
    connection: Connection, instruction_id: str | None = None, mode: Mode | None = None
) -> list[ListedInstruction]:
    """Open ones, oldest first; or one, open or closed."""
    return [ListedInstruction(**row) for row in await connection.fetch(LIST_OPEN, instruction_id, mode)]


POSTPONE = "UPDATE registry_instructions SET next_attempt_at = $2 WHERE id = $1 AND closed_at IS NULL"


async def postpone(tx: Connection, instruction_id: str, until: datetime) -> None:
    await tx.execute(POSTPONE, instruction_id, until)


HASTEN = """
UPDATE registry_instructions SET next_attempt_at = recorded_at WHERE id = $1 AND closed_at IS NULL RETURNING mode
"""


async def hasten(tx: Connection, instruction_id: str) -> Mode | None:
    """Look an open instruction up now. Returns its mode, None if it is not open."""
    return optional(Mode, await tx.fetchval(HASTEN, instruction_id))
