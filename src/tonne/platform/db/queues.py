"""What waits: queues for the metrics, checks of `tonne doctor` for what needs the operator, and the hold.

The metrics are read from the database at most once in a few seconds, on a scrape only. While the service is held,
nothing leaves it and no number is taken; a restored database starts held. The row in the database is what counts.
Processes read it every second; triggers refuse charges, refunds and numbers at once, for commands too.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import asyncpg
import structlog
from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import DATABASE_ERRORS, ServiceHeld, log_outage, repeat
from tonne.platform.db.operation_runs import read_runs
from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Labels, Metric, MetricKind, Snapshot
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By

# Scrapes of several servers, and repeated ones, share one read.
KEEP_S = 5.0
READ_WITHIN_S = 5.0
# Counting stops here, so that a long queue does not make scrapes slow.
MAX_COUNTED = 100_000
MODES = ("live", "test")

_log = structlog.get_logger()


class Queue(Struct, frozen=True):
    """Rows that wait for a job or for the operator.

    `sql` returns at most one row per mode, with the columns `mode`, `depth`, `since` (how long the oldest one has been
    waiting) and `due` (since when the next one could have been processed; null if no job is responsible). `modes` are
    the values of `mode`.
    """

    name: str
    sql: str
    modes: tuple[str, ...] = MODES


def queue_of(
    name: str, rows: str, *, since: str = "created_at", due: str | None = "next_attempt_at", mode: str | None = None
) -> Queue:
    """Counts what `rows` selects, which is all that follows FROM. `mode` is for tables that have no such column."""
    sql = f"""
    SELECT mode, count(*) AS depth, min(since) AS since, min(due) AS due
    FROM (SELECT {f"'{mode}' AS mode" if mode else "mode"}, {since} AS since, {due or "NULL::timestamptz"} AS due
          FROM {rows} LIMIT {MAX_COUNTED}) AS each
    GROUP BY mode
    """  # noqa: S608 - our own queries
    return Queue(name, sql, (mode,) if mode else MODES)


class QueueState(Struct, frozen=True):
    """`oldest_s` is how long the oldest row has been waiting, `overdue_s` how long the first was due for a worker."""

    name: str
    mode: str
    depth: int
    oldest_s: float
    overdue_s: float


class QueueReader:
    """Uses a connection of its own: when the pool is exhausted, the metrics matter most.

    A replica has other locks, and a queue there is as old as the replica is behind: always the primary is read.
    """

    def __init__(
        self, primary: Database, queues: Sequence[Queue], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._primary = primary
        self._queues = queues
        self._statement = "\nUNION ALL\n".join(_named(queue) for queue in queues)
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._connection: Connection | None = None
        # Until when, the states, and the same as metrics.
        self._kept: tuple[float, list[QueueState] | None, list[Snapshot]] | None = None

    async def read(self) -> list[Snapshot]:
        """If the database does not respond in time, the queues are missing and `tonne_queue_read_success` is 0."""
        return (await self._read())[1]

    async def read_states(self) -> list[QueueState] | None:
        """The state of every queue in each of its modes. None if the database does not respond in time."""
        return (await self._read())[0]

    async def _read(self) -> tuple[list[QueueState] | None, list[Snapshot]]:
        async with self._lock:
            if self._kept is not None and self._monotonic() < self._kept[0]:
                return self._kept[1:]
            states: list[QueueState] | None = None
            others: list[Snapshot] = []
            try:
                async with asyncio.timeout(READ_WITHIN_S):
                    connection = await self._connect()
                    # First: the queues may wait for the same lock.
                    others.append(await read_blocking(connection))
                    rows = await connection.fetch(self._statement)
                    others += await read_runs(connection)
                    states = self._states(rows)
            except (TimeoutError, *DATABASE_ERRORS) as error:
                if not log_outage(error):
                    _log.warning("queues_not_read", error=repr(error))
                await self.close()
            snapshots = [*([_success(0)] if states is None else _snapshots(states)), *others]
            self._kept = self._monotonic() + KEEP_S, states, snapshots
            return states, snapshots

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _connect(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._primary.connect()
        return self._connection

    def _states(self, rows: list[asyncpg.Record]) -> list[QueueState]:
        found = {
            (row["queue"], row["mode"]): QueueState(
                row["queue"], row["mode"], row["depth"], row["oldest_s"], row["overdue_s"]
            )
            for row in rows
        }
        places = [(queue.name, mode) for queue in self._queues for mode in queue.modes]
        return [found.get(place) or QueueState(*place, 0, 0.0, 0.0) for place in places]


READ_BLOCKING = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - blocker.xact_start)), 0)::float8
FROM pg_stat_activity waiting
CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocking (pid)
JOIN pg_stat_activity blocker ON blocker.pid = blocking.pid
WHERE waiting.datname = current_database() AND waiting.wait_event_type = 'Lock'
"""


async def read_blocking(connection: Connection) -> Snapshot:
    text = "Age of the oldest transaction that others wait for, because it holds a lock."
    seconds: float = await connection.fetchval(READ_BLOCKING)
    name = "tonne_database_blocking_seconds"
    return Snapshot(name, MetricKind.GAUGE, text, (), [((), [seconds])], combine=Combine.MAX)


def _snapshots(states: Sequence[QueueState]) -> list[Snapshot]:
    depth, oldest, overdue = (list[tuple[Labels, list[float]]]() for _ in range(3))
    for state in states:
        labels = (state.name, state.mode)
        depth.append((labels, [float(state.depth)]))
        oldest.append((labels, [state.oldest_s]))
        overdue.append((labels, [state.overdue_s]))
    return [
        _success(1),
        _gauge("tonne_queue_depth", f"Rows that wait, counted up to {MAX_COUNTED}.", depth),
        _gauge("tonne_queue_oldest_seconds", "How long the oldest row has been waiting.", oldest),
        _gauge("tonne_queue_overdue_seconds", "How long the first row has been due for a worker.", overdue),
    ]


def _gauge(name: str, text: str, series: list[tuple[Labels, list[float]]]) -> Snapshot:
    return Snapshot(name, MetricKind.GAUGE, text, ("queue", "mode"), series, combine=Combine.MAX)


def _success(value: float) -> Snapshot:
    text = "1 if the queues could be read from the database."
    return Snapshot("tonne_queue_read_success", MetricKind.GAUGE, text, (), [((), [value])], combine=Combine.MAX)


def _named(queue: Queue) -> str:
    seconds = "greatest(0, coalesce(extract(epoch FROM clock_timestamp() - {}), 0))::float8 AS {}"
    return (
        f"SELECT '{queue.name}' AS queue, mode::text AS mode, depth::bigint AS depth, "  # noqa: S608 - our own queries
        f"{seconds.format('since', 'oldest_s')}, {seconds.format('due', 'overdue_s')} FROM ({queue.sql}) AS waiting"
    )


def at_this_time(_: Settings, now: datetime) -> Sequence[object]:
    """The parameters of a check that needs only the current time."""
    return (now,)


def no_parameters(_settings: Settings, _now: datetime) -> Sequence[object]:
    """The parameters of a check that compares with the time of the database, or with none."""
    return ()


class Topic(StrEnum):
    """What a check is about: the operator's page groups them. Checks of the service concern both modes."""

    SERVICE = "service"
    ORDERS = "orders"
    PAYMENTS = "payments"
    INVOICES = "invoices"
    BANK = "bank"
    REFUNDS = "refunds"
    RETIREMENTS = "retirements"
    SUPPLY = "supply"
    REGISTRIES = "registries"
    RATES = "rates"
    WEBHOOKS = "webhooks"
    MAILS = "mails"


class WaitingCheck(Struct, frozen=True):
    """Work that waits too long, or a setting that is missing. The data is correct, so this is a warning.

    `sql` returns one row per object, with a column `where` that names it, oldest first; `parameters` returns the values
    of its parameters. `meaning` says what is wrong, `remedy` names the command or the setting that deals with it.
    `patience` is how much earlier the operator's page shows the objects than the doctor warns. `is_broken`: what the
    service says meanwhile is wrong, so it is more than a warning.
    """

    name: str
    meaning: str
    remedy: str
    sql: str
    parameters: Callable[[Settings, datetime], Sequence[object]] = at_this_time
    topic: Topic = Topic.SERVICE
    patience: timedelta = timedelta(0)
    is_broken: bool = False


READ_EVERY_S = 1.0


class ServiceHold(Struct, frozen=True):
    held_at: datetime
    held_by: str
    reason: str


READ_HOLD = "SELECT held_at, held_by, reason FROM service_holds"


async def read_hold(connection: Connection) -> ServiceHold | None:
    row = await connection.fetchrow(READ_HOLD)
    return None if row is None else ServiceHold(row["held_at"], row["held_by"], row["reason"])


async def require_not_held(connection: Connection) -> None:
    """Raises ServiceHeld. For commands that call another service."""
    if await read_hold(connection) is not None:
        raise ServiceHeld


SET_HOLD = "INSERT INTO service_holds (held_at, held_by, reason) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"


async def set_hold(tx: Connection, reason: str, *, by: By) -> bool:
    """False if the service is held already: that hold stays as it is."""
    return bool(await tx.execute(SET_HOLD, by.at, str(by.actor), reason) != "INSERT 0 0")


END_HOLD = "DELETE FROM service_holds RETURNING held_at, held_by, reason"


async def end_hold(tx: Connection) -> ServiceHold | None:
    """The hold that ended. None if the service was not held."""
    row = await tx.fetchrow(END_HOLD)
    return None if row is None else ServiceHold(row["held_at"], row["held_by"], row["reason"])


class HoldWatch:
    """Whether the service is held, as last read from the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.is_held = False

    @property
    def metrics(self) -> tuple[Metric, ...]:
        held = GaugeFamily(
            "tonne_held",
            "1 while the service is held.",
            read=lambda: [((), 1.0 if self.is_held else 0.0)],
            combine=Combine.MAX,
        )
        return (held,)

    def require_not_held(self) -> None:
        """Raises ServiceHeld."""
        if self.is_held:
            raise ServiceHeld

    async def refresh(self) -> None:
        hold = await self._database.run(read_hold)
        was_held, self.is_held = self.is_held, hold is not None
        if hold is not None and not was_held:
            _log.warning("service_held", since=hold.held_at.isoformat(), reason=hold.reason)
        elif was_held and hold is None:
            _log.warning("service_resumed")

    async def watch(self) -> None:
        """Read again and again, until cancelled. While the database is unavailable, the last state stays."""
        await repeat(self.refresh, READ_EVERY_S, "hold_not_read")


WAITING = (
    WaitingCheck(
        "the service is not held",
        "It answers reads only: no order is placed, charged or invoiced, and no webhook or mail is sent.",
        "Run `tonne resume`: it shows what would be sent, and asks before it ends the hold.",
        """
        SELECT format('held since %s by %s: %s', to_char(held_at, 'YYYY-MM-DD HH24:MI'), held_by, reason) AS "where"
        FROM service_holds
        """,
        lambda _settings, _now: (),
    ),
)
