"""Notifications of new work: the kinds of work that became due, the streams that got events, and how they are sent."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextvars import ContextVar
from enum import StrEnum
from typing import NamedTuple, Self

import msgspec
import structlog

from tonne.platform.db.database import Connection, Database, columns, connect
from tonne.platform.db.errors import DATABASE_ERRORS, log_outage
from tonne.platform.events.payload import head_of
from tonne.platform.process.telemetry.instruments import CounterFamily, GaugeFamily, Metric
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope

# PostgreSQL accepts less than 8,000 bytes. With more streams than this, the notification names none.
MAX_STREAMS = 50
# A new order has two events.
NEWEST_EVENTS = 2
MAX_NEWS_BYTES = 7000


class WorkKind(StrEnum):
    """Kinds of due rows. Processes of two releases may run at the same time: never use a name for something else."""

    EVENTS = "events"
    LIVE_CHARGES = "live_charges"
    TEST_CHARGES = "test_charges"
    UNINVOICED_ORDERS = "uninvoiced_orders"
    BILLING_GROUPS = "billing_groups"
    INVOICES = "invoices"
    CREDIT_NOTES = "credit_notes"
    PAID_ORDERS = "paid_orders"
    POOLED_UNITS = "pooled_units"
    # Parcels that a registry is to retire.
    RETIREMENTS = "retirements"
    CERTIFICATES = "certificates"
    CARD_PROBLEMS = "card_problems"
    REFUNDS = "refunds"
    # Mails that are still to be composed.
    ORDER_MAILS = "order_mails"
    MAILS = "mails"


_KINDS = frozenset(kind.value for kind in WorkKind)


class Stream(NamedTuple):
    organisation_id: str
    mode: str


class AnnouncedEvent(NamedTuple):
    """One of the newest events of a stream, as it is stored."""

    position: int
    event_type: str
    head: str
    document: bytes
    # In seconds since 1970.
    at: float


class StreamNews(msgspec.Struct, frozen=True, array_like=True):
    """How far a stream reached when it was announced, and its newest events if they are few and small."""

    organisation_id: str
    mode: str
    last_position: int
    events: tuple[AnnouncedEvent, ...] = ()


class _Payload(msgspec.Struct, omit_defaults=True):
    kinds: list[str]
    streams: list[tuple[str, str]] = []
    news: list[StreamNews] = []
    changed: list[tuple[str, str]] = []


class Notification(msgspec.Struct, frozen=True):
    # None: work of any kind.
    kinds: frozenset[WorkKind] | None
    # The streams that got events; empty: any stream.
    streams: frozenset[Stream] = frozenset()
    news: tuple[StreamNews, ...] = ()
    # Streams whose webhooks were changed: what is kept of them is out of date.
    changed: frozenset[Stream] = frozenset()
    # The process id of the database session that received it.
    session: int = 0

    @property
    def payload(self) -> str:
        """An empty payload means work of any kind."""
        if self.kinds is None:
            return ""
        return msgspec.json.encode(_Payload(sorted(self.kinds), sorted(self.streams))).decode()

    @classmethod
    def parse(cls, payload: str, session: int = 0) -> Self:
        """Kinds of a newer release are left out: this one has no job for them."""
        try:
            given = msgspec.json.decode(payload, type=_Payload)
        except msgspec.DecodeError:
            return cls(None, session=session)
        kinds = frozenset(WorkKind(kind) for kind in given.kinds if kind in _KINDS)
        changed = frozenset(Stream(*stream) for stream in given.changed)
        streams = frozenset(Stream(*stream) for stream in given.streams) | changed
        return cls(kinds, streams, tuple(given.news), changed, session)

    def concerns(self, kinds: frozenset[WorkKind]) -> bool:
        return self.kinds is None or not self.kinds.isdisjoint(kinds)


EVERYTHING = Notification(None)


class PendingWork(msgspec.Struct):
    """Collects what became due until the next notification."""

    kinds: set[WorkKind] | None
    streams: set[Stream]
    any_stream: bool

    @classmethod
    def none(cls) -> Self:
        return cls(set(), set(), any_stream=False)

    def __bool__(self) -> bool:
        return self.kinds is None or bool(self.kinds)

    def add(self, kinds: Iterable[WorkKind], streams: Collection[Stream]) -> None:
        """No kind means all of them; without streams, events of any stream."""
        added = set(kinds)
        if not added or self.kinds is None:
            self.kinds = None
            return
        self.kinds |= added
        if WorkKind.EVENTS in added:
            self.any_stream = self.any_stream or not streams
            self.streams.update(streams)

    def notification(self) -> Notification:
        if self.kinds is None:
            return EVERYTHING
        names_streams = not self.any_stream and len(self.streams) <= MAX_STREAMS
        return Notification(frozenset(self.kinds), frozenset(self.streams if names_streams else ()))


# The streams to which events were appended, of a caller that wants to know.
_appended: ContextVar[set[Stream] | None] = ContextVar("appended", default=None)


@contextlib.contextmanager
def collecting_streams() -> Iterator[set[Stream]]:
    """The streams to which events are appended inside."""
    streams: set[Stream] = set()
    token = _appended.set(streams)
    try:
        yield streams
    finally:
        _appended.reset(token)


def note_appended(streams: Iterable[Stream]) -> None:
    collected = _appended.get()
    if collected is not None:
        collected.update(streams)


CHANNEL = "tonne_events"
# Minimum time between notifications of a process. NOTIFY takes a lock that all commits with notifications share.
QUIET_S = 0.02
RECONNECT_S = 1.0
CHECK_EVERY_S = 2.0

_log = structlog.get_logger()


class Notifier:
    """Call `notify` after the commit, not inside the transaction: a commit with NOTIFY takes a global lock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sending: asyncio.Task[None] | None = None
        # What was committed since the last notification.
        self._pending = PendingWork.none()
        self._sent = CounterFamily("tonne_notifications_sent_total", "Notifications of new work.", "outcome")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (self._sent,)

    def notify(self, *kinds: WorkKind, scope: Scope | None = None, streams: Collection[Stream] = ()) -> None:
        """Only the jobs for these kinds run; without kinds, all. `scope`, or `streams`, say where the events are."""
        self._pending.add(kinds, [Stream(scope.organisation_id, scope.mode)] if scope is not None else streams)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """Notify once of all commits so far, then, after the pause, once of all commits since."""
        while self._pending:
            pending, self._pending = self._pending, PendingWork.none()
            try:
                await self._database.run(send, pending.notification())
                self._sent.inc("sent")
            except DATABASE_ERRORS:
                self._sent.inc("failed")
                _log.warning("notification_failed")
            await asyncio.sleep(QUIET_S)


NOTIFY = "SELECT pg_notify($1, $2)"
# Adds where the streams end and, for a single one, its newest events: a worker that keeps the lease of a webhook then
# reads nothing. They are read here, so they are committed.
NOTIFY_WITH_NEWS = f"""
WITH news AS (
    SELECT stream.organisation_id, stream.mode, stream.last_position, cardinality($3::text[]) = 1 AS is_single
    FROM unnest($3::text[], $4::text[]) AS named (organisation_id, mode)
    JOIN event_streams stream ON stream.organisation_id = named.organisation_id AND stream.mode = named.mode
), newest AS (
    SELECT json_agg(json_build_array(event.position, event.event_type, {head_of("event")},
                                     translate(encode(event.document, 'base64'), E'\n', ''),
                                     extract(epoch FROM event.sequence)::float8) ORDER BY event.position) AS events
    FROM news JOIN events event ON event.organisation_id = news.organisation_id AND event.mode = news.mode
    WHERE news.is_single AND event.position > news.last_position - {NEWEST_EVENTS}
      AND event.position <= news.last_position AND event.sequence >= now() - interval '1 day'
), announced AS (
    SELECT json_agg(json_build_array(organisation_id, mode, last_position, coalesce(newest.events, '[]'))) AS whole,
           coalesce(json_agg(json_build_array(organisation_id, mode, last_position)), '[]') AS short
    FROM news, newest
)
SELECT pg_notify($1, rtrim($2, '}}') || ',"news":' ||
                     CASE WHEN octet_length(whole::text) < {MAX_NEWS_BYTES} THEN whole ELSE short END || '}}')
FROM announced
"""  # noqa: S608 - only constants are inserted


async def send(connection: Connection, notification: Notification) -> None:
    if not notification.streams:
        await connection.execute(NOTIFY, CHANNEL, notification.payload)
        return
    streams = columns(list(notification.streams), "organisation_id, mode")
    await connection.execute(NOTIFY_WITH_NEWS, CHANNEL, notification.payload, *streams)


class ListenMetrics:
    def __init__(self) -> None:
        self.listening = False
        self.received = CounterFamily("tonne_notifications_received_total", "Notifications of new work.")

    @property
    def metrics(self) -> tuple[Metric, ...]:
        listening = GaugeFamily(
            "tonne_listening",
            "Connections that receive notifications. Without one, new work waits for the next poll.",
            read=lambda: [((), float(self.listening))],
        )
        return self.received, listening


async def listen(
    url: str,
    settings: Settings,
    wake: Callable[[Notification], None],
    stop: asyncio.Event,
    metrics: ListenMetrics | None = None,
) -> None:
    """Call `wake` with every notification until `stop` is set. Reconnects after any failure; polling covers the gap.

    The URL must lead to PostgreSQL itself: a pooler forgets LISTEN after the transaction.
    """
    metrics = metrics or ListenMetrics()

    session = 0

    def receive(_connection: object, _process_id: object, _channel: object, payload: object) -> None:
        metrics.received.inc()
        wake(Notification.parse(str(payload), session))

    while not stop.is_set():
        try:
            connection = await connect(url, settings, direct=True)
            session = connection.get_server_pid()
            try:
                await connection.add_listener(CHANNEL, receive)
                metrics.listening = True
                # Work may have been committed while there was no connection.
                wake(Notification(None, session=session))
                await _check_until(connection, stop)
            finally:
                metrics.listening = False
                connection.terminate()
        except Exception as error:  # noqa: BLE001 - without this loop every job would wait for its next poll
            if not log_outage(error):
                _log.warning("listening_failed", error=repr(error))
            await _wait(stop, RECONNECT_S)


async def _check_until(connection: Connection, stop: asyncio.Event) -> None:
    """Run a statement from time to time: without one, a connection to a host that has vanished seems open for ever."""
    while not await _wait(stop, CHECK_EVERY_S):
        await connection.execute("SELECT")


async def _wait(stop: asyncio.Event, seconds: float) -> bool:
    """Whether `stop` was set within that time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
    return stop.is_set()
