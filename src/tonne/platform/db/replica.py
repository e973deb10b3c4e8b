"""Reads that may be a few seconds old: from a streaming replica if one is configured, otherwise from the primary."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import DATABASE_ERRORS, is_database_unavailable
from tonne.platform.process.telemetry.instruments import Combine, CounterFamily, GaugeFamily, Metric
from tonne.platform.settings.settings import Settings

T = TypeVar("T")
MEASURE_EVERY_S = 1.0
MEASURE_WITHIN_S = 1.0
POLL_S = 0.1
# A replica cancels a query that needs rows which the primary has removed since.
RECOVERY_CONFLICTS = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError)

_log = structlog.get_logger()

WRITTEN = "SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint"


async def read_written(primary: Connection) -> int:
    """The position up to which the primary's log is on disk: all confirmed transactions are before it."""
    return int(await primary.fetchval(WRITTEN))


REPLAYED = "SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() - '0/0' >= $1::bigint"


async def has_replayed(replica: Connection, position: int) -> bool:
    """False also if the server is no replica: it may have a history of its own since it was promoted."""
    reached: bool | None = await replica.fetchval(REPLAYED, position)
    return bool(reached)


async def wait_until_replayed(replica: Connection, position: int, within_s: float) -> bool:
    """Whether the replica shows all that was committed before `position`, within that time."""
    deadline = time.monotonic() + within_s
    while not await has_replayed(replica, position):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)
    return True


class Reads:
    """Chooses the server for each read.

    The lag is measured by positions of the log and the clock of this process: the replica has everything that was
    committed when the primary was at the last position that the replica has reached. Unlike the times that the replica
    itself reports, this is right when nothing is written, and when the replica has lost its connection to the primary.
    """

    def __init__(self, primary: Database, settings: Settings, monotonic: Callable[[], float] = time.monotonic) -> None:
        url = settings.database_replica_url
        self._primary = primary
        self._replica = Database(url, settings, direct=True) if url else None
        self._max_lag_s = settings.database_replica_lag_s
        self._monotonic = monotonic
        # Positions of the primary that the replica has not reached yet, each with the time when it was read.
        self._ahead: list[tuple[float, int]] = []
        # The replica has what was committed at this time.
        self._current_at = -math.inf
        self._is_used = False
        self._counts = CounterFamily(
            "tonne_database_replica_reads_total", "Reads for which a replica is configured.", "server"
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        lag = GaugeFamily(
            "tonne_database_replica_lag_seconds",
            "How far the replica is behind the primary, at most. Infinite while the replica cannot be reached.",
            read=lambda: [] if self._replica is None else [((), self._lag_s())],
            combine=Combine.MAX,
        )
        return lag, self._counts

    def server(self) -> Database:
        """The replica if it is reachable and not too far behind, otherwise the primary."""
        if self._replica is None or self._lag_s() > self._max_lag_s:
            return self._primary
        return self._replica

    async def read(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in one read-only snapshot. If the replica fails or cancels it, it runs again on the primary."""
        server = self.server()
        if server is self._replica:
            try:
                async with server.snapshot() as tx:
                    found = await work(tx)
                self._counts.inc("replica")
            except DATABASE_ERRORS as error:
                if is_database_unavailable(error):
                    self._forget()
                elif not isinstance(error, RECOVERY_CONFLICTS):
                    raise
                _log.warning("replica_read_failed", error=repr(error))
            else:
                return found
        if self._replica is not None:
            self._counts.inc("primary")
        async with self._primary.snapshot() as tx:
            return await work(tx)

    async def find(self, work: Callable[[Connection], Awaitable[T | None]]) -> T | None:
        """Like `read`. What the replica does not have is looked up on the primary: it may be new."""
        found = await self.read(work)
        if found is None and self.server() is not self._primary:
            async with self._primary.snapshot() as tx:
                return await work(tx)
        return found

    async def measure(self) -> None:
        """Compare the replica with the primary. Errors mean that the replica falls further behind."""
        if self._replica is None:
            return
        self._replica.is_open = True
        try:
            async with asyncio.timeout(MEASURE_WITHIN_S):
                await self._measure(self._replica)
        except DATABASE_ERRORS as error:
            _log.debug("replica_not_measured", error=repr(error))
        is_used = self.server() is self._replica
        if is_used != self._is_used:
            self._is_used = is_used
            _log.warning(
                "replica_used" if is_used else "replica_not_used",
                lag_s=self._lag_s() if math.isfinite(self._current_at) else None,
            )

    async def watch(self) -> None:
        """Measure again and again, until cancelled. Without a replica it returns at once."""
        while self._replica is not None:
            await self.measure()
            await asyncio.sleep(MEASURE_EVERY_S)

    async def close(self) -> None:
        if self._replica is not None:
            await self._replica.close()

    async def _measure(self, replica: Database) -> None:
        self._ahead.append((self._monotonic(), await self._primary.run(read_written)))
        try:
            async with replica.connection() as connection:
                reached = [mark for mark in self._ahead if await has_replayed(connection, mark[1])]
        except DATABASE_ERRORS:
            self._forget()
            raise
        if reached:
            self._current_at = max(at for at, _ in reached)
        self._ahead = [mark for mark in self._ahead if mark not in reached and self._is_relevant(mark[0])]

    def _is_relevant(self, at: float) -> bool:
        return self._monotonic() - at <= self._max_lag_s

    def _forget(self) -> None:
        """Do not use the replica before it was reached again."""
        self._current_at = -math.inf

    def _lag_s(self) -> float:
        return self._monotonic() - self._current_at
