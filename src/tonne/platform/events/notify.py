"""Notifies workers of new work. It only saves time: workers also poll, so a lost notification does no harm."""

import asyncio
import contextlib
from collections.abc import Callable

import structlog

from tonne.platform.db.database import Connection, Database, connect
from tonne.platform.db.errors import DATABASE_ERRORS
from tonne.platform.events.notification import EVERYTHING, Notification, PendingWork, Stream, WorkKind
from tonne.platform.process.telemetry.instruments import CounterFamily, GaugeFamily, Metric
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope

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

    def notify(self, *kinds: WorkKind, scope: Scope | None = None) -> None:
        """Only the jobs for these kinds run; without kinds, all. `scope` is the one whose stream got the events."""
        stream = None if scope is None else Stream(scope.organisation_id, scope.mode)
        self._pending.add(kinds, stream)
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


async def send(connection: Connection, notification: Notification) -> None:
    await connection.execute(NOTIFY, CHANNEL, notification.payload)


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

    def receive(_connection: object, _process_id: object, _channel: object, payload: object) -> None:
        metrics.received.inc()
        wake(Notification.parse(str(payload)))

    while not stop.is_set():
        try:
            connection = await connect(url, settings, direct=True)
            try:
                await connection.add_listener(CHANNEL, receive)
                metrics.listening = True
                # Work may have been committed while there was no connection.
                wake(EVERYTHING)
                await _check_until(connection, stop)
            finally:
                metrics.listening = False
                connection.terminate()
        except Exception as error:  # noqa: BLE001 - without this loop every job would wait for its next poll
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
