"""The log of requests to the API, which organisations see in the dashboard.

Requests only append to a queue in memory. A background task writes it to the database twice a second, in batches. If
the database is slow or away, entries are dropped and counted; requests never wait.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import structlog

from tonne.platform.db.database import Database
from tonne.platform.db.errors import DATABASE_ERRORS, log_outage
from tonne.platform.http.authenticator import KeyHolder
from tonne.platform.http.request_log import store
from tonne.platform.http.request_log.mask import MAX_RAW_BYTES, mask_request
from tonne.platform.process.telemetry.instruments import CounterFamily, Metric
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import Fault

WRITE_EVERY_S = 0.5
MAX_WAITING = 10_000
# The total size of all bodies that wait.
MAX_WAITING_BYTES = 4 * 1024 * 1024
BATCH = 1000
MAX_FAULTS = 5

_log = structlog.get_logger()


class RequestNotes:
    """What the application knows about a request with a valid API key. The middleware passes it on to the log."""

    __slots__ = ("body", "faults", "holder")

    def __init__(self, holder: KeyHolder) -> None:
        self.holder = holder
        # The faults of a failed request. Not the exception, which would keep the variables of its traceback.
        self.faults: Sequence[Fault] = ()
        # The body of a failed write.
        self.body = b""


class _Entry(NamedTuple):
    ended_at: datetime
    notes: RequestNotes
    seen: dict[str, Any]
    method: str
    route: str
    status: int
    seconds: float


class RequestLog:
    def __init__(self, database: Database, clock: Clock, *, is_on: bool = True) -> None:
        self._database = database
        self._clock = clock
        self._is_on = is_on
        self._waiting: deque[_Entry] = deque()
        self._waiting_bytes = 0
        self._is_failing = False
        self._entries = CounterFamily(
            "tonne_request_log_entries_total", "Entries of the request log, by what became of them.", "outcome"
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (self._entries,)

    def add(
        self, notes: RequestNotes, seen: dict[str, Any], method: str, route: str, *, status: int, seconds: float
    ) -> None:
        """Append a request that ended now. `seen` is what the access log shows: the id and the account."""
        if not self._is_on:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._entries.inc("dropped")
            return
        if notes.body:
            if len(notes.body) > MAX_RAW_BYTES or self._waiting_bytes > MAX_WAITING_BYTES:
                notes.body = b""
            self._waiting_bytes += len(notes.body)
        self._waiting.append(_Entry(self._clock(), notes, seen, method, route, status, seconds))

    async def watch(self) -> None:
        """Write again and again, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self.write()

    async def write(self) -> None:
        """Write what waits. Entries that cannot be written are dropped: memory is bounded, and the log is not vital."""
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            if self._waiting_bytes:
                self._waiting_bytes -= sum(len(entry.notes.body) for entry in batch)
            try:
                await self._insert(batch)
            except DATABASE_ERRORS as error:
                self._entries.of("failed").inc(len(batch))
                if not log_outage(error) and not self._is_failing:
                    _log.warning("request_log_not_written", error=repr(error))
                self._is_failing = True
                return
            self._is_failing = False
            self._entries.of("written").inc(len(batch))

    async def _insert(self, batch: Sequence[_Entry]) -> None:
        kinds: dict[store.RequestKind, int] = {}
        succeeded: list[tuple[int, float, str, int]] = []
        failed: list[store.RequestRow] = []
        for entry in batch:
            if entry.notes.faults:
                failed.append(_failed(entry))
                continue
            seen, scope, seconds = entry.seen, entry.notes.holder.scope, entry.seconds
            key_id, account_id = entry.notes.holder.key_id, seen.get("account_id")
            kind = scope.organisation_id, scope.mode, key_id, account_id, entry.method, entry.route, entry.status
            number = kinds.setdefault(kind, len(kinds) + 1)
            at = round(entry.ended_at.timestamp() - seconds, 3)
            succeeded.append((number, at, seen["request_id"], _microseconds(seconds)))
        async with self._database.connection() as connection:
            if succeeded:
                await store.insert_succeeded(connection, list(kinds), succeeded)
            if failed:
                await store.insert_failed(connection, failed)


def _failed(entry: _Entry) -> store.RequestRow:
    notes, seen = entry.notes, entry.seen
    at = entry.ended_at - timedelta(milliseconds=round(entry.seconds * 1000))
    masked = mask_request(notes.body, "\n".join(fault.message for fault in notes.faults[:MAX_FAULTS]))
    scope = notes.holder.scope
    return store.RequestRow(
        slot=store.slot_of(at),
        organisation_id=scope.organisation_id,
        mode=scope.mode,
        at=at,
        request_id=seen["request_id"],
        key_id=notes.holder.key_id,
        account_id=seen.get("account_id"),
        method=entry.method,
        route=entry.route,
        status=entry.status,
        duration_us=_microseconds(entry.seconds),
        error_code=notes.faults[0].error_code,
        error_message=masked.message,
        body=masked.body,
    )


def _microseconds(seconds: float) -> int:
    return min(round(seconds * 1_000_000), 2_000_000_000)
