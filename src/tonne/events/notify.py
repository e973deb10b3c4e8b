"""Notifies workers of new work. It only saves time: workers also poll, so a lost notification does no harm."""

import asyncio
from collections.abc import Callable

import asyncpg
import structlog

from tonne.db.errors import DATABASE_ERRORS
from tonne.db.pool import Connection, Database

CHANNEL = "tonne_events"
# Minimum time between notifications of a process. NOTIFY takes a lock that all commits with notifications share.
QUIET_S = 0.02
RECONNECT_S = 1.0

_log = structlog.get_logger()


class Notifier:
    """Call `notify` after the commit, not inside the transaction: a commit with NOTIFY takes a global lock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._sending: asyncio.Task[None] | None = None
        # Something was committed since the last notification.
        self._wanted = False

    def notify(self) -> None:
        self._wanted = True
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """Notify once for all commits so far, then, after the pause, once for all commits since."""
        while self._wanted:
            self._wanted = False
            try:
                async with self._database.connection() as connection:
                    await connection.execute(f"NOTIFY {CHANNEL}")
            except DATABASE_ERRORS:
                _log.warning("notification_failed")
            await asyncio.sleep(QUIET_S)


async def listen(url: str, wake: Callable[[], None], stop: asyncio.Event) -> None:
    """Call `wake` on every notification until `stop` is set. Reconnects after a failure; polling covers the gap."""
    while not stop.is_set():
        try:
            connection: Connection = await asyncpg.connect(url)
        except DATABASE_ERRORS:
            await asyncio.sleep(RECONNECT_S)
            continue
        closed = asyncio.Event()
        connection.add_termination_listener(lambda *_, closed=closed: closed.set())
        try:
            await connection.add_listener(CHANNEL, lambda *_: wake())
            waits = [asyncio.create_task(closed.wait()), asyncio.create_task(stop.wait())]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for task in waits:
                task.cancel()
        except DATABASE_ERRORS:
            await asyncio.sleep(RECONNECT_S)
        finally:
            if not connection.is_closed():
                await connection.close()
