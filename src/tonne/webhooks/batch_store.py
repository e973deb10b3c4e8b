"""SQL that reads the next events of a webhook as a batch. Only workers call it."""

import itertools
from collections.abc import Sequence

import asyncpg

from tonne.db.pool import Connection
from tonne.webhooks.model import EventBatch, Lease, Probe
from tonne.webhooks.schedule import MAX_BATCH_BYTES

MAX_EVENTS_BYTES = MAX_BATCH_BYTES - len(EventBatch([], b"", 0).body)
# How many positions one statement searches for events in scope: bounds the cost of a filter that matches few events.
SEARCH_POSITIONS = 1000

# Positions have no gaps, so the count gives the positions. One aggregated value is far cheaper than 100 rows.
READ_STREAM = """
SELECT count(*) AS count, convert_to(string_agg(payload, ',' ORDER BY position), 'UTF8') AS events,
       extract(epoch FROM min(sequence))::float8 AS oldest_at
FROM (SELECT position, payload, sequence FROM events WHERE organisation_id = $1 AND mode = $2 AND position > $3
      ORDER BY position LIMIT $4) AS next
"""
READ_STREAM_ROWS = """
SELECT position, convert_to(payload, 'UTF8') AS payload, extract(epoch FROM sequence)::float8 AS at FROM events
WHERE organisation_id = $1 AND mode = $2 AND position > $3 ORDER BY position LIMIT $4
"""


async def read_stream(connection: Connection, lease: Lease, after: int, limit: int) -> EventBatch | None:
    """The next events of the whole stream; None when there are none."""
    row = await connection.fetchrow(READ_STREAM, lease.organisation_id, lease.mode, after, limit)
    if row is None or row["events"] is None:
        return None
    count, events = row["count"], row["events"]
    if len(events) > MAX_EVENTS_BYTES:
        # Rare. Only the sizes of the single events tell how many fit.
        rows = await connection.fetch(READ_STREAM_ROWS, lease.organisation_id, lease.mode, after, count)
        return _fitting(rows, count, after + count, oldest_at=rows[0]["at"])
    return EventBatch(range(after + 1, after + 1 + count), events, after + count, oldest_at=row["oldest_at"])


READ_IN_SCOPE = """
SELECT bounds.reaches, event.position, event.payload, event.at
FROM (SELECT least($3::bigint + $6::bigint, last_position) AS reaches FROM event_streams
      WHERE organisation_id = $1 AND mode = $2) bounds
LEFT JOIN LATERAL (
    SELECT position, convert_to(payload, 'UTF8') AS payload, extract(epoch FROM sequence)::float8 AS at FROM events
    WHERE organisation_id = $1 AND mode = $2 AND position > $3 AND position <= bounds.reaches
      AND (cardinality($4::text[]) = 0 OR account_id = ANY ($4))
      AND NOT EXISTS (SELECT FROM webhook_parked parked
                      WHERE parked.organisation_id = $1 AND parked.webhook_id = $5
                        AND parked.account_id = events.account_id AND parked.position <= events.position)
    ORDER BY position LIMIT $7
) event ON true
"""


async def read_in_scope(connection: Connection, lease: Lease) -> EventBatch:
    """The next events in scope of accounts that are not parked. An empty batch reaches as far as was searched."""
    key, accounts = (lease.organisation_id, lease.mode, lease.cursor_position), list(lease.account_ids)
    rows = await connection.fetch(READ_IN_SCOPE, *key, accounts, lease.id, SEARCH_POSITIONS, lease.batch_limit)
    reaches: int = rows[0]["reaches"]
    if rows[0]["position"] is None:
        return EventBatch([], b"", reaches)
    return _fitting(rows, lease.batch_limit, reaches, oldest_at=rows[0]["at"])


FIND_ACCOUNT = "SELECT account_id FROM events WHERE organisation_id = $1 AND mode = $2 AND position = $3"


async def account_at(connection: Connection, lease: Lease, position: int) -> str:
    account_id: str = await connection.fetchval(FIND_ACCOUNT, lease.organisation_id, lease.mode, position)
    return account_id


# The next event of every other account that is not parked, however long the backlog of the first account is.
READ_PROBES = """
SELECT account.id AS account_id, event.position, event.payload
FROM accounts account
JOIN LATERAL (SELECT position, convert_to(payload, 'UTF8') AS payload FROM events
              WHERE organisation_id = $1 AND mode = $2 AND account_id = account.id AND position > $3
              ORDER BY position LIMIT 1) event ON true
WHERE account.organisation_id = $1 AND account.mode = $2 AND account.id <> $6 AND event.position > $7
  AND (cardinality($4::text[]) = 0 OR account.id = ANY ($4))
  AND NOT EXISTS (SELECT FROM webhook_parked parked
                  WHERE parked.organisation_id = $1 AND parked.webhook_id = $5 AND parked.account_id = account.id)
ORDER BY event.position LIMIT $8
"""


async def read_probes(
    connection: Connection, lease: Lease, without_account: str, after: int, limit: int
) -> list[Probe]:
    """In order of position, those after a position that may be ahead of the cursor."""
    key, accounts = (lease.organisation_id, lease.mode, lease.cursor_position), list(lease.account_ids)
    rows = await connection.fetch(READ_PROBES, *key, accounts, lease.id, without_account, after, limit)
    return [
        Probe(row["account_id"], EventBatch([row["position"]], row["payload"], row["position"], is_probe=True))
        for row in rows
    ]


READ_PARKED = """
SELECT position, convert_to(payload, 'UTF8') AS payload FROM events
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND position >= $4 AND position <= $5
ORDER BY position LIMIT $6
"""


async def read_parked(connection: Connection, lease: Lease, account_id: str, position: int, limit: int) -> EventBatch:
    """Events of a parked account from `position` up to the cursor. Empty when there are none."""
    rows = await connection.fetch(
        READ_PARKED, lease.organisation_id, lease.mode, account_id, position, lease.cursor_position, limit
    )
    return _fitting(rows, limit, lease.cursor_position)


def _fitting(rows: Sequence[asyncpg.Record], limit: int, end: int, *, oldest_at: float | None = None) -> EventBatch:
    """As many events as fit into a request. If events are left out, the batch reaches only its last event."""
    positions, payloads = [row["position"] for row in rows], [row["payload"] for row in rows]
    sizes = itertools.accumulate(len(payload) + len(b",") for payload in payloads)
    count = max(1, sum(size <= MAX_EVENTS_BYTES + len(b",") for size in sizes))
    cut = count < len(payloads) or len(payloads) == limit
    reaches = positions[count - 1] if cut else end
    return EventBatch(positions[:count], b",".join(payloads[:count]), reaches, oldest_at=oldest_at)
