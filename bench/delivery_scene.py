"""What the benchmarks of delivery stand on: the stage of all benchmarks, receivers, webhooks and a `tonne worker`."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from bench.checks import NotMeasured
from bench.delivery_bare import Route
from bench.delivery_receivers import HOST, Receivers, receiving
from bench.fill import fill
from bench.stage import Stage, set_stage
from bench.tenants import Tenant
from bench.worker import Worker, working
from tonne.base.clock import utc_now
from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings
from tonne.events.notify import CHANNEL
from tonne.webhooks import store
from tonne.webhooks.model import Webhook
from tonne.webhooks.register import register_webhook, remove_webhook

RECEIVERS = 200
_ACTOR = "bench"
_LOOK_EVERY_S = 0.03
_DELIVERED_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook, its tenant, and where its cursor stood when it was registered."""

    webhook: Webhook
    tenant: Tenant
    start: int

    @property
    def route(self) -> Route:
        return Route(self.webhook.organisation_id, self.start, self.webhook.url)


@dataclass(slots=True)
class Scene:
    stage: Stage
    receivers: Receivers
    secret_key: str
    _filled: int = field(default=0)

    async def fill(self, tenants: Sequence[Tenant], events: int) -> None:
        """Add so many events in all, two for each order, to `tenants` in turn."""
        await fill(self.stage, tenants, first=self._filled + 1, count=events // 2)
        self._filled += events // 2

    @contextlib.asynccontextmanager
    async def hooks(self, tenants: Sequence[Tenant]) -> AsyncIterator[list[Hook]]:
        """One webhook for each entry, each with a receiver of its own; they are out of use afterwards."""
        box = SecretBox.from_settings(Settings(secret_key=self.secret_key))
        hooks = []
        async with self.stage.connection() as connection, connection.transaction():
            for tenant, url in zip(tenants, self.receivers.urls, strict=False):
                webhook, _ = await register_webhook(
                    connection, tenant.scope, url, [], box=box, actor=_ACTOR, now=utc_now()
                )
                progress = await store.read_progress(connection, webhook)
                hooks.append(Hook(webhook, tenant, progress.cursor_position))
        yield hooks
        async with self.stage.connection() as connection, connection.transaction():
            for hook in hooks:
                await remove_webhook(connection, hook.tenant.scope, hook.webhook.id, actor=_ACTOR, now=utc_now())

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        """`tonne worker` with its defaults, except that it may send to receivers on this machine."""
        return working(
            self.stage,
            {
                "TONNE_SECRET_KEY": self.secret_key,
                "TONNE_WEBHOOK_ALLOW_PRIVATE": f"{HOST}/32",
                "TONNE_WEBHOOK_PORTS": "*",
                "TONNE_WEBHOOK_CA_FILE": str(self.receivers.authority_file),
            },
        )

    async def send_again(self, hooks: Sequence[Hook], *, last: int | None = None) -> float:
        """Take the cursors back to where they began, or by `last` events, in one moment; the time of it."""
        async with self.stage.connection() as connection:
            async with connection.transaction():
                for hook in hooks:
                    start = hook.start
                    if last is not None:
                        start = (await store.read_progress(connection, hook.webhook)).last_position - last
                    await store.rewind(connection, hook.webhook, start)
                started = time.perf_counter()
            await connection.execute(f"NOTIFY {CHANNEL}")
        return started

    async def wait_until_delivered(self, hooks: Sequence[Hook]) -> float:
        """The time at which all cursors had reached the end."""
        ids = [hook.webhook.id for hook in hooks]
        async with self.stage.connection() as connection:
            look = await connection.prepare(WAITING)
            deadline = time.perf_counter() + _DELIVERED_WITHIN_S
            while waiting := await look.fetchval(ids):
                if time.perf_counter() > deadline:
                    raise NotMeasured(
                        f"After {_DELIVERED_WITHIN_S:.0f} s {waiting} webhooks still have events waiting."
                    )
                await asyncio.sleep(_LOOK_EVERY_S)
        return time.perf_counter()


WAITING = """
SELECT count(*) FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
WHERE webhook.id = ANY ($1::text[]) AND webhook.cursor_position < stream.last_position
"""


@contextlib.asynccontextmanager
async def set_scene() -> AsyncIterator[Scene]:
    async with set_stage() as stage:
        # The worker under test shall deliver, and leave the orders where they are.
        async with stage.connection() as connection:
            await connection.execute("UPDATE accounts SET auto_advance = false")
        with receiving(RECEIVERS, stage.bodies.parent) as receivers:
            yield Scene(stage, receivers, secrets.token_urlsafe(32))
