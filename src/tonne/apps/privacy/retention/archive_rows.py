"""The rows of a partition as lines of its archive."""

from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from datetime import datetime
from typing import Any

import asyncpg
import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import ATTEMPTS, EVENTS, MAILS, PartitionedTable
from tonne.platform.events.payload import event_payload, head_of

# Rows per round trip.
BATCH = 500
_FETCH_WITHIN_S = 60.0
_Rows = AsyncIterable[asyncpg.Record]

ARCHIVE_EVENTS = f"""
SELECT organisation_id, mode, position, subject_id, {head_of("events")} AS head, document FROM events
WHERE sequence >= $1 AND sequence < $2 ORDER BY organisation_id, mode, position
"""  # noqa: S608 - our own words


def read_events_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_EVENTS, start, end, prefetch=BATCH, timeout=_FETCH_WITHIN_S)


ARCHIVE_ATTEMPTS = """
SELECT organisation_id, webhook_id, id, at, positions, status, error, acknowledged, duration_ms, answer
FROM webhook_attempts WHERE at >= $1 AND at < $2 ORDER BY organisation_id, webhook_id, at, id
"""


def read_attempts_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_ATTEMPTS, start, end, prefetch=BATCH, timeout=_FETCH_WITHIN_S)


ARCHIVE_MAILS = """
SELECT id, organisation_id, subject_id, recipients, created_at, attempts, sent_at, held_reason, discarded_at,
       last_error, message
FROM mails WHERE created_at >= $1 AND created_at < $2 ORDER BY id
"""


def read_mails_any_account(tx: Connection, start: datetime, end: datetime) -> _Rows:
    return tx.cursor(ARCHIVE_MAILS, start, end, prefetch=BATCH, timeout=_FETCH_WITHIN_S)


async def read_lines(
    tx: Connection, table: PartitionedTable, start: datetime, end: datetime
) -> AsyncIterator[list[bytes]]:
    """In batches, in the order of the primary key."""
    rows, line = _TABLES[table.name]
    lines = []
    # Iterating closes the cursor at its end: an open one would prevent that the partition is dropped.
    async for row in rows(tx, start, end):
        lines.append(line(row))
        if len(lines) == BATCH:
            yield lines
            lines = []
    yield lines


def _event_line(row: asyncpg.Record) -> bytes:
    """`event` is the JSON that was delivered, byte for byte."""
    values: dict[str, Any] = dict(row)
    values["event"] = msgspec.Raw(event_payload(values.pop("head"), values.pop("document")))
    return msgspec.json.encode(values)


def _line(row: asyncpg.Record) -> bytes:
    """Binary columns are in base64."""
    return msgspec.json.encode(dict(row))


_TABLES: Mapping[str, tuple[Callable[[Connection, datetime, datetime], _Rows], Callable[[asyncpg.Record], bytes]]] = {
    EVENTS.name: (read_events_any_account, _event_line),
    ATTEMPTS.name: (read_attempts_any_account, _line),
    MAILS.name: (read_mails_any_account, _line),
}
