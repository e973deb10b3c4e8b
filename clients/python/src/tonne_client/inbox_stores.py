"""Stores for `WebhookInbox`: in memory, and in a file of SQLite."""

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from tonne_client.inbox import StoredEvent


@dataclass(slots=True)
class _Entry:
    event: StoredEvent
    due: float = 0.0
    finished: float | None = None


class MemoryStore:
    """For tests and for processes that may forget: nothing is kept when the process ends."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._forgotten: dict[str, str] = {}
        self._lock = threading.Lock()

    def add(self, events: Sequence[StoredEvent]) -> int:
        with self._lock:
            new = {
                event.event_id: _Entry(event)
                for event in events
                if event.event_id not in self._entries and event.sequence > self._forgotten.get(event.account_id, "")
            }
            self._entries |= new
            return len(new)

    def claim(self, now: float, lease_s: float) -> StoredEvent | None:
        with self._lock:
            first: dict[str, _Entry] = {}
            for entry in self._entries.values():
                other = first.get(entry.event.account_id)
                if entry.finished is None and (other is None or entry.event.sequence < other.event.sequence):
                    first[entry.event.account_id] = entry
            due = min(
                (entry for entry in first.values() if entry.due <= now), key=lambda e: e.event.sequence, default=None
            )
            if due is None:
                return None
            due.due = now + lease_s
            return due.event

    def finish(self, event_id: str, now: float) -> None:
        with self._lock:
            self._entries[event_id].finished = now

    def retry(self, event_id: str, at: float) -> None:
        with self._lock:
            entry = self._entries[event_id]
            entry.event, entry.due = replace(entry.event, failures=entry.event.failures + 1), at

    def forget(self, before: float) -> int:
        with self._lock:
            old = [entry.event for entry in self._entries.values() if entry.finished and entry.finished < before]
            for event in old:
                self._forgotten[event.account_id] = max(event.sequence, self._forgotten.get(event.account_id, ""))
                del self._entries[event.event_id]
            return len(old)


_SCHEMA = """
CREATE TABLE IF NOT EXISTS tonne_inbox (
    event_id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL,
    sequence TEXT NOT NULL,
    json TEXT NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    due REAL NOT NULL DEFAULT 0,
    finished REAL
);
CREATE INDEX IF NOT EXISTS tonne_inbox_unfinished ON tonne_inbox (account_id, sequence) WHERE finished IS NULL;
CREATE TABLE IF NOT EXISTS tonne_inbox_forgotten (account_id TEXT PRIMARY KEY, sequence TEXT NOT NULL);
"""
_ADD = """
INSERT INTO tonne_inbox (event_id, account_id, sequence, json)
SELECT :event_id, :account_id, :sequence, :json
WHERE NOT EXISTS (SELECT 1 FROM tonne_inbox_forgotten WHERE account_id = :account_id AND sequence >= :sequence)
ON CONFLICT (event_id) DO NOTHING
"""
_CLAIM = """
UPDATE tonne_inbox SET due = :now + :lease
WHERE event_id = (
    SELECT event_id FROM tonne_inbox AS first
    WHERE finished IS NULL AND due <= :now AND NOT EXISTS (
        SELECT 1 FROM tonne_inbox AS earlier
        WHERE earlier.account_id = first.account_id AND earlier.finished IS NULL AND earlier.sequence < first.sequence
    )
    ORDER BY sequence LIMIT 1
)
RETURNING event_id, account_id, sequence, json, failures
"""
_FORGET = """
INSERT INTO tonne_inbox_forgotten (account_id, sequence)
SELECT account_id, max(sequence) FROM tonne_inbox WHERE finished < :before GROUP BY account_id
ON CONFLICT (account_id) DO UPDATE SET sequence = max(sequence, excluded.sequence)
"""


class SqliteStore:
    """In a file on a local disk: events survive a crash of the process and of the machine.

    Threads and processes may share the file. Writers wait for each other up to `timeout_s`.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout_s: float = 10.0) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._local = threading.local()
        with self._transaction() as connection:
            for statement in _SCHEMA.split(";"):
                connection.execute(statement)

    def add(self, events: Sequence[StoredEvent]) -> int:
        rows = [
            {"event_id": event.event_id, "account_id": event.account_id, "sequence": event.sequence, "json": event.json}
            for event in events
        ]
        with self._transaction() as connection:
            return sum(connection.execute(_ADD, row).rowcount for row in rows)

    def claim(self, now: float, lease_s: float) -> StoredEvent | None:
        with self._transaction() as connection:
            row = connection.execute(_CLAIM, {"now": now, "lease": lease_s}).fetchone()
        return None if row is None else StoredEvent(*row)

    def finish(self, event_id: str, now: float) -> None:
        with self._transaction() as connection:
            connection.execute("UPDATE tonne_inbox SET finished = ? WHERE event_id = ?", (now, event_id))

    def retry(self, event_id: str, at: float) -> None:
        statement = "UPDATE tonne_inbox SET failures = failures + 1, due = ? WHERE event_id = ?"
        with self._transaction() as connection:
            connection.execute(statement, (at, event_id))

    def forget(self, before: float) -> int:
        with self._transaction() as connection:
            connection.execute(_FORGET, {"before": before})
            return connection.execute("DELETE FROM tonne_inbox WHERE finished < :before", {"before": before}).rowcount

    def close(self) -> None:
        """Close the connection of this thread."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            del self._local.connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """IMMEDIATE: a transaction that first reads and then writes could otherwise fail because another one wrote."""
        connection = self._connection()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        """One for each thread: a transaction must not mix with that of another thread."""
        found: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if found is None:
            found = sqlite3.connect(self._path, timeout=self._timeout_s, isolation_level=None)
            found.execute("PRAGMA journal_mode = WAL")
            # A commit is on disk before the request is acknowledged.
            found.execute("PRAGMA synchronous = FULL")
            self._local.connection = found
        return found
