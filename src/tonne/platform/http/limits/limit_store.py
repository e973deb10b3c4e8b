"""The table in which api processes add up what clients have used of their rate limits."""

from collections.abc import Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection


class Usage(NamedTuple):
    """What a client has used of a limit since this process last reported it."""

    name: str
    client: int
    used: float
    capacity: float
    per_second: float


# Ordered, so that two processes that update the same rows cannot deadlock. `excluded.level` is that of a bucket that
# was full.
SETTLE = """
INSERT INTO rate_limits AS bucket (name, client, level, capacity, per_second, updated_at)
SELECT name, client, capacity - used, capacity, per_second, now()
FROM unnest($1::text[], $2::bigint[], $3::float8[], $4::float8[], $5::float8[])
    AS usage (name, client, used, capacity, per_second)
ORDER BY name, client
ON CONFLICT (name, client) DO UPDATE
SET level = excluded.level + least(
        0,
        bucket.level - excluded.capacity
        + greatest(0, extract(epoch FROM excluded.updated_at - bucket.updated_at)::float8) * excluded.per_second
    ),
    capacity = excluded.capacity,
    per_second = excluded.per_second,
    updated_at = greatest(bucket.updated_at, excluded.updated_at)
RETURNING name, client, level
"""


async def settle(connection: Connection, usages: Sequence[Usage]) -> dict[tuple[str, int], float]:
    """Subtract what was used, and return the level of each bucket, which may be below 0."""
    rows = await connection.fetch(SETTLE, *(list(column) for column in zip(*usages, strict=True)))
    return {(row["name"], row["client"]): row["level"] for row in rows}


# Waits for no row, so that it cannot deadlock with SETTLE.
DELETE_FULL = """
DELETE FROM rate_limits
WHERE (name, client) IN (
    SELECT name, client
    FROM rate_limits
    WHERE level + extract(epoch FROM now() - updated_at)::float8 * per_second >= capacity
    LIMIT $1
    FOR UPDATE SKIP LOCKED
)
"""


async def delete_full(connection: Connection, at_most: int) -> int:
    """Delete the buckets that are full again. Returns their number."""
    return int((await connection.execute(DELETE_FULL, at_most)).split()[-1])
