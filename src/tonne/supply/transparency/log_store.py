"""SQL of the logs themselves."""

from datetime import datetime

from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import Mode
from tonne.supply.transparency.model import Log

LOG_COLUMNS = "id, mode, generation, origin, size, published_size, opened_at, closed_at, previous_head"
OPEN_LOG = """
INSERT INTO logs (mode, generation, origin, opened_at, next_publish_at, previous_head)
VALUES ($1, $2, $3, $4, $4, $5) ON CONFLICT DO NOTHING
"""


async def open_log(
    tx: Connection, mode: Mode, generation: int, origin: str, now: datetime, *, previous_head: str | None = None
) -> None:
    """Does nothing if the mode has an open log."""
    await tx.execute(OPEN_LOG, mode, generation, origin, now, previous_head)


LOCK_LOG = f"SELECT {LOG_COLUMNS} FROM logs WHERE mode = $1 AND closed_at IS NULL FOR UPDATE"  # noqa: S608 - columns above


async def lock_log(tx: Connection, mode: Mode) -> Log | None:
    """The open log of a mode. Only the transaction that holds the lock may write its tree."""
    row = await tx.fetchrow(LOCK_LOG, mode)
    return None if row is None else value_of(Log, row)


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
    row = await connection.fetchrow(FIND_LOG, mode, generation)
    return None if row is None else value_of(Log, row)
