"""SQL of publishing checkpoints."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, value_of
from tonne.supply.transparency.log_store import LOG_COLUMNS
from tonne.supply.transparency.model import Log

CLAIM_GROWN = f"""
UPDATE logs SET next_publish_at = $2
WHERE id = (SELECT id FROM logs
            WHERE closed_at IS NULL AND size > published_size AND next_publish_at <= $1
            ORDER BY next_publish_at LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING {LOG_COLUMNS}
"""  # noqa: S608 - a constant


async def claim_grown(connection: Connection, now: datetime, leased_until: datetime) -> Log | None:
    """Lease a log that has entries without a checkpoint."""
    row = await connection.fetchrow(CLAIM_GROWN, now, leased_until)
    return None if row is None else value_of(Log, row)


# The proof of an entry is against the first checkpoint that covers it: a smaller one may not be added later.
MARK_PUBLISHED = """
UPDATE logs SET published_size = $2, next_publish_at = $3, refusal = NULL, refused_at = NULL
WHERE id = $1 AND published_size < $2 AND closed_at IS NULL RETURNING id
"""
INSERT_CHECKPOINT = """
INSERT INTO log_checkpoints (log_id, size, root, note, published_at) VALUES ($1, $2, $3, $4, $5)
"""


async def store_checkpoint(
    tx: Connection, log: Log, root: bytes, note: str, *, now: datetime, next_publish_at: datetime
) -> bool:
    """False if another worker has published as much meanwhile, or the log was closed."""
    if await tx.fetchval(MARK_PUBLISHED, log.id, log.size, next_publish_at) is None:
        return False
    await tx.execute(INSERT_CHECKPOINT, log.id, log.size, root, note, now)
    return True


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
