"""SQL that reads the next events of a webhook as a batch. Only workers call it."""

import itertools
from collections.abc import Sequence
from datetime import timedelta

import asyncpg

from tonne.channels.webhooks.delivery.schedule import MAX_BATCH_BYTES
from tonne.channels.webhooks.model import EventBatch, Lease, Probe
from tonne.platform.db.database import Connection
from tonne.platform.events.payload import digest_ids, event_payload, head_of, join_payloads, joined_heads_of
from tonne.platform.events.store import ALWAYS
from tonne.platform.values.context import replace, utc_now

MAX_EVENTS_BYTES = MAX_BATCH_BYTES - len(EventBatch([], b"", 0).body)
# How many positions one statement searches for events in scope: bounds the cost of a filter that matches few events.
SEARCH_POSITIONS = 1000
_HEAD = f"{head_of('events')} AS head"

# Most events are delivered at once. Events are partitioned by sequence, and it is cheaper to search only recent ones
# first. Positions have no gaps and sequences increase with them: if the first event is found, all after it are.
RECENT = timedelta(days=2)

# Positions have no gaps, so the count gives the positions. One aggregated value is far cheaper than 100 rows. The last
# position is given instead of a limit: otherwise a search for recent events would read a whole backlog of older ones.
READ_STREAM = f"""
SELECT count(*) AS count, min(position) AS first,
       {joined_heads_of("next")} FILTER (WHERE event_type = ANY ($6)) AS heads,
       array_agg(document ORDER BY position) FILTER (WHERE event_type = ANY ($6)) AS documents,
       array_agg(position) FILTER (WHERE event_type <> ALL ($6)) AS filtered,
       extract(epoch FROM min(sequence))::float8 AS oldest_at
FROM (SELECT position, id, account_id, event_type, sequence, document FROM events
      WHERE organisation_id = $1 AND mode = $2 AND position > $3 AND position <= $3 + $4::bigint
        AND sequence >= $5) AS next
"""  # noqa: S608 - only the expressions above are inserted
READ_STREAM_ROWS = f"""
SELECT position, {_HEAD}, document, extract(epoch FROM sequence)::float8 AS at FROM events
WHERE organisation_id = $1 AND mode = $2 AND position > $3 AND position <= $4 AND event_type = ANY ($5)
ORDER BY position
"""  # noqa: S608 - only the expression above is inserted


async def read_stream(connection: Connection, lease: Lease, after: int, limit: int) -> EventBatch | None:
    """The next events of the whole stream, of the webhook's types; None when there are none.

    If all of them are of other types, the batch has no events and reaches past them.
    """
    key, types = (lease.organisation_id, lease.mode, after, limit), lease.delivered_types
    row = await connection.fetchrow(READ_STREAM, *key, utc_now() - RECENT, types)
    if row is None or row["first"] != after + 1:
        row = await connection.fetchrow(READ_STREAM, *key, ALWAYS, types)
    if row is None or not row["count"]:
        return None
    batch = batch_of(row, after)
    if len(batch.events) > MAX_EVENTS_BYTES:
        # Rare. Only the sizes of the single events tell how many fit.
        rows = await connection.fetch(READ_STREAM_ROWS, lease.organisation_id, lease.mode, after, batch.reaches, types)
        fitting = _fitting(rows, len(rows) + 1, batch.reaches, oldest_at=rows[0]["at"])
        return replace(fitting, after=after)
    return batch


def batch_of(row: asyncpg.Record, after: int) -> EventBatch:
    """The aggregated `count` events after a position, without those at the `filtered` positions."""
    reaches, filtered = after + row["count"], row["filtered"]
    positions: Sequence[int] = range(after + 1, reaches + 1)
    if filtered:
        left_out = set(filtered)
        positions = [position for position in positions if position not in left_out]
    if row["heads"] is None:
        return EventBatch([], b"", reaches, after)
    heads = row["heads"].split("\n")
    events = join_payloads(heads, row["documents"])
    return EventBatch(positions, events, reaches, after, digest_ids(heads), oldest_at=row["oldest_at"])


# `is_complete`: the first event after the cursor is not before $8.
READ_IN_SCOPE = f"""
SELECT bounds.reaches, bounds.is_complete, event.position, event.head, event.document, event.at
FROM (SELECT least($3::bigint + $6::bigint, last_position) AS reaches,
             EXISTS (SELECT FROM events WHERE organisation_id = $1 AND mode = $2 AND position = $3 + 1
                                          AND sequence >= $8) AS is_complete
      FROM event_streams WHERE organisation_id = $1 AND mode = $2) bounds
LEFT JOIN LATERAL (
    SELECT position, {_HEAD}, document, extract(epoch FROM sequence)::float8 AS at FROM events
    WHERE organisation_id = $1 AND mode = $2 AND position > $3 AND position <= bounds.reaches AND sequence >= $8
      AND (cardinality($4::text[]) = 0 OR account_id = ANY ($4)) AND event_type = ANY ($9)
      AND NOT EXISTS (SELECT FROM webhook_parked parked
                      WHERE parked.organisation_id = $1 AND parked.webhook_id = $5
                        AND parked.account_id = events.account_id AND parked.position <= events.position)
    ORDER BY position LIMIT $7
) event ON true
"""  # noqa: S608 - only the expression above is inserted


async def read_in_scope(connection: Connection, lease: Lease) -> EventBatch:
    """The next events in scope of accounts that are not parked. An empty batch reaches as far as was searched."""
    key, accounts = (lease.organisation_id, lease.mode, lease.cursor_position), list(lease.account_ids)
    search = (*key, accounts, lease.id, SEARCH_POSITIONS, lease.batch_limit)
    rows = await connection.fetch(READ_IN_SCOPE, *search, utc_now() - RECENT, lease.delivered_types)
    if not rows[0]["is_complete"]:
        rows = await connection.fetch(READ_IN_SCOPE, *search, ALWAYS, lease.delivered_types)
    reaches: int = rows[0]["reaches"]
    if rows[0]["position"] is None:
        return EventBatch([], b"", reaches, lease.cursor_position)
    fitting = _fitting(rows, lease.batch_limit, reaches, oldest_at=rows[0]["at"])
    return replace(fitting, after=lease.cursor_position)


FIND_ACCOUNT = "SELECT account_id FROM events WHERE organisation_id = $1 AND mode = $2 AND position = $3"


async def account_at(connection: Connection, lease: Lease, position: int) -> str:
    account_id: str = await connection.fetchval(FIND_ACCOUNT, lease.organisation_id, lease.mode, position)
    return account_id


# The next event of every other account that is not parked, however long the backlog of the first account is.
READ_PROBES = f"""
SELECT account.id AS account_id, event.position, event.head, event.document
FROM accounts account
JOIN LATERAL (SELECT position, {_HEAD}, document FROM events
              WHERE organisation_id = $1 AND mode = $2 AND account_id = account.id AND position > $3
                AND event_type = ANY ($9)
              ORDER BY position LIMIT 1) event ON true
WHERE account.organisation_id = $1 AND account.mode = $2 AND account.id <> $6 AND event.position > $7
  AND (cardinality($4::text[]) = 0 OR account.id = ANY ($4))
  AND NOT EXISTS (SELECT FROM webhook_parked parked
                  WHERE parked.organisation_id = $1 AND parked.webhook_id = $5 AND parked.account_id = account.id)
ORDER BY event.position LIMIT $8
"""  # noqa: S608 - only the expression above is inserted


async def read_probes(
    connection: Connection, lease: Lease, without_account: str, after: int, limit: int
) -> list[Probe]:
    """The probes after a position, which may be ahead of the cursor, in order of position."""
    key, accounts = (lease.organisation_id, lease.mode, lease.cursor_position), list(lease.account_ids)
    search = (accounts, lease.id, without_account, after, limit, lease.delivered_types)
    rows = await connection.fetch(READ_PROBES, *key, *search)
    return [
        Probe(
            row["account_id"],
            EventBatch(
                [row["position"]],
                _payload(row),
                row["position"],
                lease.cursor_position,
                digest_ids([row["head"]]),
                is_probe=True,
            ),
        )
        for row in rows
    ]


READ_PARKED = f"""
SELECT position, {_HEAD}, document FROM events
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND position >= $4 AND position <= $5
  AND event_type = ANY ($7)
ORDER BY position LIMIT $6
"""  # noqa: S608 - only the expression above is inserted


async def read_parked(connection: Connection, lease: Lease, account_id: str, position: int, limit: int) -> EventBatch:
    """Events of a parked account from `position` up to the cursor. Empty when there are none."""
    span = (lease.organisation_id, lease.mode, account_id, position, lease.cursor_position)
    rows = await connection.fetch(READ_PARKED, *span, limit, lease.delivered_types)
    return _fitting(rows, limit, lease.cursor_position)


def _fitting(rows: Sequence[asyncpg.Record], limit: int, end: int, *, oldest_at: float | None = None) -> EventBatch:
    """As many events as fit into a request. If events are left out, the batch reaches only its last event."""
    positions, payloads = [row["position"] for row in rows], [_payload(row) for row in rows]
    sizes = itertools.accumulate(len(payload) + len(b",") for payload in payloads)
    count = max(1, sum(size <= MAX_EVENTS_BYTES + len(b",") for size in sizes))
    cut = count < len(payloads) or len(payloads) == limit
    reaches = positions[count - 1] if cut else end
    message_id = digest_ids([row["head"] for row in rows[:count]])
    events = b",".join(payloads[:count])
    return EventBatch(positions[:count], events, reaches, message_id=message_id, oldest_at=oldest_at)


def _payload(row: asyncpg.Record) -> bytes:
    return event_payload(row["head"], row["document"])
