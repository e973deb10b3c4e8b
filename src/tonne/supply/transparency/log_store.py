"""SQL of the logs and of their checkpoints."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of, value_or_none
from tonne.platform.values.context import Mode
from tonne.supply.transparency.model import Log
from tonne_verify.notes import DASH, split_note

LOG_COLUMNS = "id, mode, generation, origin, size, published_size, opened_at, closed_at, previous_head"
OPEN_LOG = """
INSERT INTO logs (mode, generation, origin, opened_at, next_publish_at, previous_head)
VALUES ($1, $2, $3, $4, $4, $5) ON CONFLICT DO NOTHING RETURNING true
"""


async def open_log(
    tx: Connection, mode: Mode, generation: int, origin: str, now: datetime, *, previous_head: str | None = None
) -> bool:
    """False if the mode has an open log."""
    return await tx.fetchval(OPEN_LOG, mode, generation, origin, now, previous_head) is not None


LOCK_LOG = f"SELECT {LOG_COLUMNS} FROM logs WHERE mode = $1 AND closed_at IS NULL FOR UPDATE"  # noqa: S608 - columns above


async def lock_log(tx: Connection, mode: Mode, *, skip_locked: bool = False) -> Log | None:
    """The open log of a mode. Only the transaction that holds the lock may write its tree."""
    return value_or_none(Log, await tx.fetchrow(LOCK_LOG + " SKIP LOCKED" * skip_locked, mode))


CLOSE_LOG = """
UPDATE logs SET closed_at = $3, closed_reason = $2, size = published_size, refusal = NULL, refused_at = NULL
WHERE id = $1
"""


async def close_log(tx: Connection, log_id: int, reason: str, now: datetime) -> None:
    """Nothing is appended to it or published of it any more. Entries without a checkpoint no longer count."""
    await tx.execute(CLOSE_LOG, log_id, reason, now)


GROW_LOG = "UPDATE logs SET size = $2 WHERE id = $1"


async def grow_log(tx: Connection, log_id: int, size: int) -> None:
    await tx.execute(GROW_LOG, log_id, size)


LIST_LOGS = f"SELECT {LOG_COLUMNS} FROM logs ORDER BY mode, generation"  # noqa: S608 - columns above


async def list_logs(connection: Connection) -> list[Log]:
    """All logs of both modes, also those that were closed."""
    return [value_of(Log, row) for row in await connection.fetch(LIST_LOGS)]


FIND_LOG = f"SELECT {LOG_COLUMNS} FROM logs WHERE mode = $1 AND generation = $2"  # noqa: S608 - columns above


async def find_log(connection: Connection, mode: Mode, generation: int) -> Log | None:
    return value_or_none(Log, await connection.fetchrow(FIND_LOG, mode, generation))


CLAIM_GROWN = f"""
UPDATE logs SET next_publish_at = $2
WHERE id = (SELECT id FROM logs
            WHERE closed_at IS NULL AND size > published_size AND next_publish_at <= $1
            ORDER BY next_publish_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {LOG_COLUMNS}
"""  # noqa: S608 - a constant


async def claim_grown(connection: Connection, now: datetime, leased_until: datetime) -> Log | None:
    """Lease a log that has entries without a checkpoint."""
    return value_or_none(Log, await connection.fetchrow(CLAIM_GROWN, now, leased_until))


# A smaller checkpoint may not be added later: the service would sign a tree behind the published one.
MARK_PUBLISHED = """
UPDATE logs SET published_size = $2, next_publish_at = $3, refusal = NULL, refused_at = NULL
WHERE id = $1 AND published_size < $2 AND closed_at IS NULL RETURNING id
"""
INSERT_CHECKPOINT = """
INSERT INTO log_checkpoints (log_id, size, root, note, published_at, cosignatures) VALUES ($1, $2, $3, $4, $5, $6)
"""


async def store_checkpoint(
    tx: Connection, log: Log, root: bytes, note: str, *, now: datetime, next_publish_at: datetime
) -> bool:
    """False if another worker has published as much meanwhile, or the log was closed."""
    if await tx.fetchval(MARK_PUBLISHED, log.id, log.size, next_publish_at) is None:
        return False
    await tx.execute(INSERT_CHECKPOINT, log.id, log.size, root, note, now, count_cosignatures(note))
    return True


def count_cosignatures(note: str) -> int:
    """All lines but the log's own."""
    return len(split_note(note)[1]) - 1


ADD_COSIGNATURE = """
UPDATE log_checkpoints SET note = note || $3, cosignatures = cosignatures + 1
WHERE log_id = $1 AND size = $2 AND strpos(note, $4) = 0
"""


async def add_cosignature(tx: Connection, log_id: int, size: int, line: str) -> None:
    """Adds a late cosignature to a published checkpoint, once for each witness."""
    name = line.split(" ")[1]
    await tx.execute(ADD_COSIGNATURE, log_id, size, line, f"\n{DASH} {name} ")


RECORD_REFUSAL = """
UPDATE logs SET refusal = $2, next_publish_at = $4,
                refused_at = CASE WHEN refusal = $2 THEN refused_at ELSE $3::timestamptz END
WHERE id = $1 AND published_size < $5 AND closed_at IS NULL RETURNING refused_at = $3
"""


async def record_refusal(
    connection: Connection, log: Log, refusal: str, *, now: datetime, next_publish_at: datetime
) -> bool:
    """True if it was not refused for this reason before, and no other worker has published as much meanwhile."""
    is_new: bool | None = await connection.fetchval(RECORD_REFUSAL, log.id, refusal, now, next_publish_at, log.size)
    return bool(is_new)


class PublishedCheckpoint(Struct, frozen=True):
    log_id: int
    size: int
    note: str
    published_at: datetime


FIND_LATEST = """
SELECT log_id, size, note, published_at FROM log_checkpoints WHERE log_id = $1 ORDER BY size DESC LIMIT 1
"""


async def find_latest(connection: Connection, log_id: int) -> PublishedCheckpoint | None:
    row = await connection.fetchrow(FIND_LATEST, log_id)
    return None if row is None else PublishedCheckpoint(**row)
