"""The connection pool, transactions (returning commits, an exception rolls back), and rows as values."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache
from operator import attrgetter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

import asyncpg
import msgspec

from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.db.one_transaction import one_transaction_of
from tonne.platform.db.server.hosts import connect_to_any
from tonne.platform.db.session_settings import FOR_READERS, LONG_STATEMENT_S, lift_limits, session_settings
from tonne.platform.db.traced_statements import trace_statements
from tonne.platform.process.cost import COST
from tonne.platform.process.shared_timer import WaitQueue
from tonne.platform.process.telemetry import instruments, tracing
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope, replace

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
V = TypeVar("V")
Row = asyncpg.Record | Mapping[str, Any]
_COMMON_SETTINGS = {"application_name": "tonne", "TimeZone": "UTC"}
CLOSE_WITHIN_S = 5.0
# The server ends a statement first; the client gives up a little later, if the server or the network hangs.
CLIENT_MARGIN_S = 2.0


async def connect(url: str, settings: Settings, *, direct: bool = False) -> Connection:
    """A connection on which every wait is bounded: connecting, each statement, each lock, a dead network.

    `direct` means that the URL leads to PostgreSQL itself, whatever `database_pooling` says.
    """
    options: dict[str, Any] = {"server_settings": {**_COMMON_SETTINGS, **session_settings(settings)}}
    if settings.database_pooling == "transaction" and not direct:
        # PgBouncer refuses other parameters, and prepared statements would be missing on the next server connection.
        options = {"server_settings": _COMMON_SETTINGS, "statement_cache_size": 0}
    connection = await connect_to_any(
        url,
        within_s=settings.database_connect_s,
        command_timeout=settings.statement_timeout_s + CLIENT_MARGIN_S,
        **options,
    )
    _keep_alive(connection)
    if tracing.is_on():
        trace_statements(connection)
    return connection


def _keep_alive(connection: Connection) -> None:
    """Detect a host that vanished without closing its connections, also while no statement runs."""
    transport = getattr(connection, "_transport", None)
    sock = None if transport is None else transport.get_extra_info("socket")
    if sock is None or sock.family not in {socket.AF_INET, socket.AF_INET6}:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 15_000)):
        if hasattr(socket, option):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class PoolTimeout(asyncpg.InterfaceError):
    """All connections are in use, and none was released within `database_acquire_s`."""


class Database:
    """A pool of connections to one PostgreSQL, last in, first out.

    asyncpg's pool starts a task for every connection that is released, and proxies each call. That is a third of the
    CPU time of reading an order. This pool needs neither: no code sets session state, and a connection whose use was
    interrupted is closed.
    """

    def __init__(self, url: str, settings: Settings, *, direct: bool = False) -> None:
        self._url = url
        self._direct = direct
        self._settings = settings
        self._idle: list[Connection] = []
        self._in_use: set[Connection] = set()
        self.is_open = False
        # Connections that are open or being opened.
        self._count = 0
        # Waiters get a released connection, or None if they may open one.
        self._waiters: WaitQueue[Connection | None] = WaitQueue(settings.database_acquire_s)
        self._waits = instruments.HistogramFamily(
            "tonne_database_pool_wait_seconds",
            "How long requests for a connection waited, if they had to.",
            bounds=instruments.FAST_BOUNDS,
        )
        self._timeouts = instruments.CounterFamily(
            "tonne_database_pool_timeouts_total", "Requests for a connection that got none within database_acquire_s."
        )
        self._connects = instruments.CounterFamily(
            "tonne_database_connects_total", "Connections opened, or not.", "outcome"
        )

    async def open(self) -> "Database":
        """Open the first connection, so that an unreachable database is detected at the start."""
        self.is_open = True
        async with self.connection():
            return self

    @property
    def address(self) -> tuple[str, bool]:
        """The URL, and whether it leads to PostgreSQL itself: what another process needs to connect."""
        return self._url, self._direct

    async def connect(self) -> Connection:
        """A connection of its own, outside of the pool. The caller closes it."""
        self._require_open()
        return await connect(self._url, self._settings, direct=self._direct)

    @property
    def metrics(self) -> tuple[instruments.Metric, ...]:
        return (
            instruments.GaugeFamily(
                "tonne_database_pool_connections",
                "Connections of the pool.",
                "state",
                read=lambda: [(("in_use",), len(self._in_use)), (("idle",), len(self._idle))],
            ),
            instruments.GaugeFamily(
                "tonne_database_pool_limit",
                "The maximum number of connections.",
                read=lambda: [((), self._settings.database_connections)],
            ),
            self._waits,
            self._timeouts,
            self._connects,
        )

    def connection(self) -> AbstractAsyncContextManager[Connection]:
        """A connection without a transaction, for reads: each statement sees its own snapshot."""
        one = one_transaction_of(self)
        return _Acquired(self) if one is None or one.connection is None else nullcontext(one.connection)

    async def run(
        self, query: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What `query` returns when it is called with a connection, without a transaction."""
        async with self.connection() as connection:
            return await query(connection, *args, **kwargs)

    async def commit(
        self, change: Callable[Concatenate[Connection, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What `change` returns when it is called in a transaction of its own."""
        async with self.transaction() as tx:
            return await change(tx, *args, **kwargs)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """A read-only transaction in which all statements see the same snapshot."""
        async with (
            _Acquired(self) as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection

    @asynccontextmanager
    async def long_connection(self) -> AsyncIterator[Connection]:
        """A connection outside of the pool, which waits for long statements. Each transaction lifts its own limits."""
        self._require_open()
        settings = replace(self._settings, statement_timeout_s=LONG_STATEMENT_S)
        connection = await connect(self._url, settings, direct=self._direct)
        try:
            yield connection
        finally:
            connection.terminate()

    @asynccontextmanager
    async def long_snapshot(self) -> AsyncIterator[Connection]:
        """Like `snapshot`, on a connection outside of the pool: for exports, however many rows they have.

        A statement ends when its reader has gone, and a reader that stands still gets no more.
        """
        async with (
            self.long_connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            await lift_limits(connection)
            await connection.execute(FOR_READERS)
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A short transaction. Do not call other services or render files inside."""
        one = one_transaction_of(self)
        if one is not None:
            await one.begin()
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def close(self) -> None:
        """Close idle connections, and terminate those still in use."""
        self.is_open = False
        idle, self._idle = self._idle, []
        for connection in list(self._in_use):
            connection.terminate()
        await asyncio.gather(*(_close(connection) for connection in idle))
        self._count -= len(idle)

    async def acquire(self) -> Connection:
        """An idle connection, a new one, or the next that is released. Waiters are served in order."""
        while True:
            self._require_open()
            connection = self._take_idle()
            if connection is None and self._count < self._settings.database_connections:
                connection = await self._connect()
            if connection is None:
                connection = await self._wait()
            if connection is not None:
                self._in_use.add(connection)
                return connection

    def release(self, connection: Connection, *, reusable: bool) -> None:
        """`reusable` is false after a cancellation: the connection's state is unknown, so it is closed."""
        self._in_use.discard(connection)
        # The pool is not open if it was closed while this connection was being opened.
        if not reusable or not self.is_open or connection.is_closed() or connection.is_in_transaction():
            connection.terminate()
            self._count -= 1
            self._waiters.hand_over(None)
        elif not self._waiters.hand_over(connection):
            self._idle.append(connection)

    def discard_idle(self) -> None:
        """Close the connections that nobody uses: they lead to a server that hangs or is no longer the primary.

        Otherwise each of them would be found out by a request that waits for its time limit.
        """
        idle, self._idle = self._idle, []
        self._count -= len(idle)
        for connection in idle:
            connection.terminate()

    def _require_open(self) -> None:
        if not self.is_open:
            raise asyncpg.InterfaceError("the database is not open")

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._count -= 1
        return None

    async def _connect(self) -> Connection:
        self._count += 1
        try:
            connection = await connect(self._url, self._settings, direct=self._direct)
        except BaseException:
            self._count -= 1
            self._connects.inc("failed")
            self._waiters.hand_over(None)
            raise
        self._connects.inc("opened")
        return connection

    async def _wait(self) -> Connection | None:
        started = time.monotonic()
        try:
            connection = await self._waiters.wait(self._release_unused)
        except TimeoutError as error:
            self._timeouts.inc()
            timeout_s = self._settings.database_acquire_s
            raise PoolTimeout(f"no database connection became free within {timeout_s} s") from error
        self._waits.of().observe(time.monotonic() - started)
        return connection

    def _release_unused(self, connection: Connection | None) -> None:
        """Pass on what a waiter got that was cancelled at the same time."""
        if connection is None:
            self._waiters.hand_over(None)
        else:
            self.release(connection, reusable=True)


# After these the connection may be in the middle of something, or lead to a server that is no longer the primary.
_SUSPECT = (TimeoutError, asyncpg.ReadOnlySQLTransactionError, asyncpg.InternalClientError)


class _Acquired:
    """Not a generator with `asynccontextmanager`: every request uses it, and a class is faster."""

    __slots__ = ("_connection", "_database", "_since")

    def __init__(self, database: Database) -> None:
        self._database = database

    async def __aenter__(self) -> Connection:
        self._connection = await self._database.acquire()
        self._since = time.perf_counter_ns()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if (cost := COST.get()) is not None:
            cost.ns += time.perf_counter_ns() - self._since
        suspect = kind is not None and issubclass(kind, _SUSPECT)
        interrupted = kind is not None and not issubclass(kind, Exception)
        self._database.release(self._connection, reusable=not suspect and not interrupted)
        if suspect:
            self._database.discard_idle()
        if kind is AttributeError and self._connection.is_closed():
            # asyncpg looks for the protocol of a connection that was closed between two steps of a statement.
            raise asyncpg.InterfaceError("the connection was closed during a statement") from error


async def _close(connection: Connection) -> None:
    try:
        await connection.close(timeout=CLOSE_WITHIN_S)
    except DATABASE_ERRORS:
        connection.terminate()


def value_of(kind: type[S], row: Row, **others: Any) -> S:
    """A struct of the columns that have the names of its fields, and of `others`. Texts become enums, arrays tuples."""
    return msgspec.convert({**row, **others}, kind)


def optional(make: Callable[[V], T], found: V | None) -> T | None:
    """What `make` makes of a row or a value that was found, None without one."""
    return None if found is None else make(found)


def value_or_none(kind: type[S], row: Row | None) -> S | None:
    return None if row is None else value_of(kind, row)


def scope_of(row: Row) -> Scope:
    return Scope(row["organisation_id"], row["account_id"], Mode(row["mode"]))


def columns(rows: Sequence[object], names: str) -> list[list[Any]]:
    """Arrays for `unnest`: one for each name of a column list such as `account_id, id`."""
    return [[read(row) for row in rows] for read in _readers(names)]


def parameters_of(value: object, names: str) -> list[Any]:
    """The attributes of one value that have the names of a column list."""
    return [read(value) for read in _readers(names)]


@cache
def _readers(names: str) -> tuple[Callable[[object], Any], ...]:
    return tuple(attrgetter(name.strip()) for name in names.split(","))


def json_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """A parameter for `jsonb_populate_recordset`, which matches columns by name and ignores other members."""
    return msgspec.json.encode(list(rows)).decode()
