"""The environment of the delivery benchmarks: receivers, webhooks, and a `tonne worker` that may send to them."""

import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from bench.copies import copy_event, copying
from bench.delivery.bare_client import Route
from bench.delivery.receivers import Receiver, start_receivers
from bench.environment import SECRET_KEY, Environment, Worker, open_environment
from bench.tenants import MODE, Tenant
from tests.support.processes import HOST
from tonne.channels.webhooks import registration_store
from tonne.channels.webhooks.model import Webhook, WebhookRequest
from tonne.channels.webhooks.register import register_webhook, remove_webhook
from tonne.platform.events.notification import EVERYTHING, send
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import job_actor

RECEIVERS = 200
_ACTOR = job_actor("bench")


@dataclass(frozen=True, slots=True)
class Hook:
    """A webhook, its tenant, and the position of its cursor at registration."""

    webhook: Webhook
    tenant: Tenant
    start: int

    @property
    def route(self) -> Route:
        return Route(self.webhook.organisation_id, self.start, self.webhook.url)


@dataclass(slots=True)
class Delivery:
    environment: Environment
    receivers: list[Receiver]

    @property
    def ca_file(self) -> Path:
        return self.environment.folder / "authority.pem"

    def reset(self) -> None:
        """Let the receivers count from zero."""
        for receiver in self.receivers:
            receiver.reset()

    @contextlib.asynccontextmanager
    async def hooks(self, tenants: Sequence[Tenant]) -> AsyncIterator[list[Hook]]:
        """One webhook for each entry, each with a receiver of its own. They are deleted afterwards."""
        box = SecretBox.from_settings(Settings(secret_key=SECRET_KEY))
        hooks = []
        async with self.environment.connection() as tx, tx.transaction():
            for tenant, receiver in zip(tenants, self.receivers, strict=False):
                webhook, _ = await register_webhook(
                    tx, tenant.scope, WebhookRequest(receiver.url), box=box, by=_ACTOR.now()
                )
                progress = await registration_store.read_progress(tx, webhook)
                hooks.append(Hook(webhook, tenant, progress.cursor_position))
        yield hooks
        async with self.environment.connection() as tx, tx.transaction():
            for hook in hooks:
                await remove_webhook(tx, hook.tenant.scope, hook.webhook.id, by=_ACTOR.now())

    def worker(self) -> AbstractAsyncContextManager[Worker]:
        """A worker with default settings, except that it may send to receivers on this machine."""
        return self.environment.worker(
            webhook_allow_private=f"{HOST}/32",
            webhook_ports="*",
            webhook_ca_file=self.ca_file,
        )

    async def rewind(self, hooks: Sequence[Hook], *, last: int | None = None) -> float:
        """Rewind to the start, or by `last` events, in one transaction. Returns the time of its commit."""
        async with self.environment.connection() as connection:
            async with connection.transaction():
                for hook in hooks:
                    start = hook.start
                    if last is not None:
                        start = (await registration_store.read_progress(connection, hook.webhook)).last_position - last
                    await registration_store.rewind(connection, hook.webhook, start)
                started = time.perf_counter()
            await send(connection, EVERYTHING)
        return started

    async def wait_until_delivered(self, hooks: Sequence[Hook]) -> float:
        """The time at which all cursors had reached the end."""
        return await self.environment.wait_while(WAITING, [hook.webhook.id for hook in hooks])


WAITING = """
SELECT count(*) FROM webhooks webhook JOIN event_streams stream USING (organisation_id, mode)
WHERE webhook.id = ANY ($1::text[]) AND webhook.cursor_position < stream.last_position
"""


@contextlib.asynccontextmanager
async def open_delivery() -> AsyncIterator[Delivery]:
    async with open_environment() as environment:
        # The worker must only deliver, and leave the orders as they are.
        async with environment.connection() as connection:
            await connection.execute("UPDATE accounts SET auto_advance = false")
        delivery = Delivery(environment, [])
        with start_receivers(RECEIVERS, delivery.ca_file) as delivery.receivers:
            yield delivery


NEWEST_EVENT = """
SELECT organisation_id, mode, position, account_id, id, sequence FROM events
WHERE organisation_id = $1 AND mode = $2 ORDER BY position DESC LIMIT 1
"""


async def lengthen_stream(environment: Environment, tenant: Tenant, count: int) -> None:
    """Add copies of the newest event of this tenant, without orders."""
    async with copying(environment, [tenant], count, events_each=1, tables=["events"]) as (connection, _):
        newest = await connection.fetchrow(NEWEST_EVENT, tenant.scope.organisation_id, MODE)
        if newest is None:
            raise LookupError("there is no event to copy yet")
        await copy_event(connection, newest)
