"""Reads the event log."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.base.scope import Scope
from tonne.db.pool import Connection

# A page of the log between two positions, in either direction, of one or all accounts. Four statements instead of one
# with optional conditions, so that each can use an index. An empty event type matches all.
_PAGE = """position, sequence, payload FROM events
WHERE organisation_id = $1 AND mode = $2 AND position < $3 AND position > $4 AND ($5 = '' OR event_type = $5)"""
LIST_NEWEST_FIRST = f"SELECT {_PAGE} ORDER BY position DESC LIMIT $6"
LIST_OLDEST_FIRST = f"SELECT {_PAGE} ORDER BY position LIMIT $6"
LIST_OF_ACCOUNT_NEWEST_FIRST = f"SELECT {_PAGE} AND account_id = $7 ORDER BY position DESC LIMIT $6"
LIST_OF_ACCOUNT_OLDEST_FIRST = f"SELECT {_PAGE} AND account_id = $7 ORDER BY position LIMIT $6"


async def list_events(
    connection: Connection,
    scope: Scope,
    *,
    below: int,
    above: int,
    account_id: str | None,
    event_type: str,
    oldest_first: bool,
    limit: int,
) -> Sequence[asyncpg.Record]:
    between = (scope.organisation_id, scope.mode, below, above, event_type, limit)
    if account_id is None:
        return await connection.fetch(LIST_OLDEST_FIRST if oldest_first else LIST_NEWEST_FIRST, *between)
    of_account = LIST_OF_ACCOUNT_OLDEST_FIRST if oldest_first else LIST_OF_ACCOUNT_NEWEST_FIRST
    return await connection.fetch(of_account, *between, account_id)


FIND_EVENT = "SELECT position, payload FROM events WHERE organisation_id = $1 AND mode = $2 AND id = $3"


async def find_event(connection: Connection, scope: Scope, event_id: str) -> asyncpg.Record | None:
    return await connection.fetchrow(FIND_EVENT, scope.organisation_id, scope.mode, event_id)


# Sequences increase with positions: a binary search over positions.
FIND_LAST_BEFORE = """
WITH RECURSIVE halves (low, high) AS (
    SELECT 0::bigint, last_position + 1 FROM event_streams WHERE organisation_id = $1 AND mode = $2
    UNION ALL
    SELECT CASE WHEN event.sequence < $3 THEN event.position ELSE low END,
           CASE WHEN event.sequence < $3 THEN high ELSE event.position END
    FROM halves JOIN events event
      ON event.organisation_id = $1 AND event.mode = $2 AND event.position = (low + high) / 2
    WHERE high - low > 1
)
SELECT max(low) FROM halves
"""


async def last_position_before(connection: Connection, scope: Scope, sequence: datetime) -> int:
    """The position of the last event with a lower sequence; 0 when there is none."""
    position: int | None = await connection.fetchval(FIND_LAST_BEFORE, scope.organisation_id, scope.mode, sequence)
    return position or 0
