"""Workers that hear notifications, for tests of kept leases."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from tests.channels.webhooks.stage import Hook, Stage, Worker
from tests.conftest import Server
from tests.support.receivers import Receiver
from tonne.channels.webhooks.delivery.kept_leases import KeptLeases
from tonne.platform.events.notification import Notifier, WorkKind, listen
from tonne.platform.jobs.loop import wake_jobs

POLL_S = 5.0
# A lonely event that needs a poll takes longer.
AT_ONCE_S = 3.0


class Listening:
    """A worker that only delivers and hears notifications over a session of its own."""

    def __init__(self, stage: Stage, url: str, worker: Worker) -> None:
        self.worker = worker
        self._stop = asyncio.Event()
        wake = partial(wake_jobs, [worker.job])
        self._task = asyncio.create_task(listen(url, stage.services.settings, wake, self._stop))

    @property
    def kept(self) -> KeptLeases:
        return self.worker.services.deliverer._kept

    async def stop(self) -> None:
        if not self._stop.is_set():
            self._stop.set()
            await self._task
            await self.worker.stop()

    async def kill(self) -> None:
        """Like SIGKILL: its session ends, and its requests are not finished."""
        self._stop.set()
        await self.worker.kill()
        await self._task


@asynccontextmanager
async def listening(stage: Stage, server: Server, **settings: object) -> AsyncIterator[Listening]:
    url = server.url(await stage.fetchval("SELECT current_database()"))
    worker = Listening(stage, url, stage.worker(stage.change(**{"worker_poll_s": POLL_S, **settings})))
    try:
        await stage.until(lambda: _is_true(worker.kept._session is not None))
        yield worker
    finally:
        await worker.stop()


async def _is_true(value: bool) -> bool:
    return value


async def emit(stage: Stage, count: int = 1) -> list[str]:
    """Append events in one transaction and announce them."""
    ids = await stage.emit_many(stage.one, ['{"status":"received"}'] * count)
    Notifier(stage.database).notify(WorkKind.EVENTS, scope=stage.one)
    return ids


async def deliver(stage: Stage, receiver: Receiver, count: int = 1) -> list[str]:
    """Emit events and wait until they have arrived, without a poll."""
    before = len(receiver.events)
    ids = await emit(stage, count)
    await receiver.arrived(lambda: len(receiver.events) >= before + count, AT_ONCE_S)
    return ids


async def keep(stage: Stage, hook: Hook, receiver: Receiver) -> int:
    """Deliver until the worker keeps the lease and knows all webhooks of the stream. Returns the token."""
    for _ in range(2):
        await deliver(stage, receiver)
        await stage.until(lambda: is_kept(stage, hook))
    token: int = (await stage.row(hook))["lease_token"]
    return token


async def is_kept(stage: Stage, hook: Hook) -> bool:
    row = await stage.row(hook)
    last = await stage.fetchval(
        "SELECT last_position FROM event_streams WHERE organisation_id = $1 AND mode = $2",
        stage.one.organisation_id,
        stage.one.mode,
    )
    known = {lease.id for worker in stage._workers for lease in worker.services.deliverer._kept.leases}
    return row["lease_keeper"] is not None and row["cursor_position"] == last and hook.id in known


async def is_released(stage: Stage, hook: Hook) -> bool:
    return (await stage.row(hook))["lease_until"] is None
