"""Building blocks of delivery tests: registrations, events, workers and database queries."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import msgspec

from tests.support.receivers import Delivery
from tests.support.scene import Scene
from tests.support.signatures import read_signature, sign
from tests.support.world import TESTER, Tenant
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.delivery.deliver import Deliverer
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.events.log import NewEvent, append
from tonne.platform.events.notification import WorkKind
from tonne.platform.jobs.loop import Job, run_jobs
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, new_id, replace, utc_now


@dataclass(frozen=True)
class Hook:
    """A registration, with its secret."""

    id: str
    secret: str


class Stage(Scene):
    """`one` and `two` are accounts of the same organisation and mode."""

    def __init__(self, services: Services, tenant: Tenant) -> None:
        super().__init__(services)
        self.tenant = tenant
        self.one = tenant.scope
        self.two = replace(tenant.scope, account_id=tenant.client_account_id)
        self._workers: list[Worker] = []

    async def register(
        self,
        url: str,
        *accounts: Scope,
        scope: Scope | None = None,
        **choices: Any,
    ) -> Hook:
        requested = WebhookRequest(url, [account.account_id for account in accounts], **choices)
        async with self.database.transaction() as tx:
            webhook, secret = await register_webhook(
                tx, scope or self.one, requested, box=self.services.box, by=TESTER.now()
            )
        return Hook(webhook.id, secret)

    async def emit(self, *accounts: Scope, document: str = '{"status":"received"}') -> list[str]:
        """Append one event per account, in this order, each in its own transaction. Returns the ids."""
        return [(await self.emit_many(account, [document]))[0] for account in accounts or (self.one,)]

    async def emit_types(self, account: Scope, *event_types: str) -> list[str]:
        """Append events of these types in one transaction, all of one order. Returns the ids."""
        order_id = new_id("ord")
        return await self._emit(account, [NewEvent(each, order_id, b'{"status":"x"}') for each in event_types])

    async def emit_many(self, account: Scope, documents: list[str]) -> list[str]:
        """Append the events in one transaction. Returns the ids."""
        return await self._emit(
            account, [NewEvent("order.received", new_id("ord"), document.encode()) for document in documents]
        )

    async def _emit(self, account: Scope, events: list[NewEvent]) -> list[str]:
        async with self.database.transaction() as tx:
            await append(tx, account, events, utc_now())
            rows = await tx.fetch(
                "SELECT id FROM events WHERE organisation_id = $1 AND mode = $2 ORDER BY position DESC LIMIT $3",
                account.organisation_id,
                account.mode,
                len(events),
            )
        return [row["id"] for row in reversed(rows)]

    @asynccontextmanager
    async def working(self, settings: Settings | None = None) -> AsyncIterator["Worker"]:
        """A worker that only delivers. On leaving, it finishes the requests in flight."""
        worker = self.worker(settings)
        try:
            yield worker
        finally:
            await worker.stop()

    def worker(self, settings: Settings | None = None, wall_clock: Callable[[], float] = time.time) -> "Worker":
        services = Services(self.database, settings or self.services.settings)
        services.deliverer = Deliverer(
            services.database, lambda: Sender(services.settings), services.box, services.settings, wall_clock
        )
        worker = Worker(services)
        self._workers.append(worker)
        return worker

    async def leave(self) -> None:
        for worker in self._workers:
            await worker.kill()

    async def row(self, hook: Hook) -> asyncpg.Record:
        return (await self.fetch("SELECT * FROM webhooks WHERE id = $1", hook.id))[0]

    async def attempts(self, hook: Hook) -> list[asyncpg.Record]:
        return await self.fetch("SELECT * FROM webhook_attempts WHERE webhook_id = $1 ORDER BY at, id", hook.id)

    async def parked(self, hook: Hook) -> list[asyncpg.Record]:
        return await self.fetch("SELECT * FROM webhook_parked WHERE webhook_id = $1 ORDER BY account_id", hook.id)

    async def idle(self) -> None:
        """Wait until every event is delivered and settled."""

        async def all_done() -> bool:
            waiting = await self.fetch(
                "SELECT FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode) "
                "WHERE enabled AND deleted_at IS NULL AND (lease_until IS NOT NULL OR cursor_position < last_position "
                "OR EXISTS (SELECT FROM webhook_parked WHERE webhook_id = webhook.id))"
            )
            return not waiting

        await self.until(all_done)

    async def deliver(self, settings: Settings | None = None) -> None:
        """Run a worker until every event is delivered."""
        async with self.working(settings):
            await self.idle()

    def change(self, **settings: Any) -> Settings:
        return msgspec.structs.replace(self.services.settings, **settings)


class Worker:
    def __init__(self, services: Services) -> None:
        self.services = services
        self._stop = asyncio.Event()
        deliverer = services.deliverer
        self.job = Job(
            "deliver_webhooks",
            deliverer.run_once,
            deliverer.drain,
            kinds=frozenset({WorkKind.EVENTS}),
            wake=deliverer.more_due,
            expect=deliverer.expect,
        )
        self._loop = asyncio.create_task(run_jobs([self.job], self._stop, services.settings.worker_poll_s))

    def ask_to_stop(self) -> None:
        """Like SIGTERM."""
        self._stop.set()

    async def stop(self) -> None:
        self.ask_to_stop()
        await self._loop

    async def kill(self) -> None:
        """Like SIGKILL, as far as possible within a process: requests in flight are not finished."""
        deliverer = self.services.deliverer
        tasks = [self._loop, *deliverer._busy]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await deliverer.drain()


def verify(delivery: Delivery, secret: str, organisation_id: str) -> bool:
    """Verify a signature like a receiver does."""
    signature = read_signature(delivery.headers["service-hmac"])
    assert signature is not None
    assert signature.organisation_id == organisation_id
    return sign(secret, signature.timestamp, delivery.body) in signature.values


def in_order_per_account(events: list[dict[str, Any]]) -> bool:
    """Whether the first deliveries of each account's events arrived in the order of their sequence."""
    last: dict[str, str] = {}
    seen: set[str] = set()
    for event in events:
        if event["event_id"] in seen:
            continue
        seen.add(event["event_id"])
        if event["sequence"] <= last.get(event["account_id"], ""):
            return False
        last[event["account_id"]] = event["sequence"]
    return True
