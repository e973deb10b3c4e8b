"""Whatever happens, receivers get every event in order, with the bytes that a read of the events gives."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from tests.channels.webhooks.listening import Listening, emit, listening
from tests.channels.webhooks.stage import Hook, Stage
from tests.channels.webhooks.test_due_streams import make_lease
from tests.conftest import Server
from tests.support.receivers import Delivery, Receiver, later, receiving, reply
from tests.support.rounds import ROUNDS
from tests.support.tls import Authority
from tests.support.world import TESTER
from tonne.channels.webhooks import register, registration_store
from tonne.channels.webhooks.delivery import kept_leases
from tonne.channels.webhooks.delivery.batch_store import read_stream
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import replace

STEPS = 80


class Model:
    """Two webhooks, two workers, and what was emitted, in order."""

    def __init__(self, stage: Stage, server: Server, stack: AsyncExitStack, chance: random.Random) -> None:
        self.emitted: list[str] = []
        self._stage, self._server, self._stack, self._chance = stage, server, stack, chance
        self._workers: list[Listening] = []

    async def start_worker(self) -> None:
        worker = listening(self._stage, self._server, worker_poll_s=0.3, webhook_lease_s=3.0)
        self._workers.append(await self._stack.enter_async_context(worker))

    async def step(self, hook: Hook, receiver: Receiver) -> None:
        match self._chance.randrange(13):
            case 0:  # without a notification, as if it was lost
                self.emitted += await self._stage.emit()
            case 1:
                receiver.next(later(self._chance.uniform(0, 0.2)))
            case 2:
                receiver.next(reply(503))
            case 3 | 4 | 5:
                await self._change(hook)
            case 6:  # a holder is killed: its session ends with it
                await self._workers.pop(0).kill()
                await self.start_worker()
            case 7:
                await self._stage.fetch(
                    "SELECT pg_terminate_backend(lease_keeper) FROM webhooks WHERE lease_keeper IS NOT NULL LIMIT 1"
                )
            case 8:  # a holder is frozen beyond its lease: another worker has claimed meanwhile
                await self._stage.execute(
                    "UPDATE webhooks SET lease_until = clock_timestamp(), lease_token = lease_token + 1 WHERE id = $1",
                    hook.id,
                )
            case _:
                self.emitted += await emit(self._stage, self._chance.choice((1, 1, 2, 3)))

    async def _change(self, hook: Hook) -> None:
        stage = self._stage
        async with stage.database.transaction() as tx:
            webhook = await registration_store.find_webhook(tx, stage.one, hook.id)
            match self._chance.randrange(3):
                case 0:
                    changed = replace(webhook, enabled=not webhook.enabled)
                    await register.change_webhook(tx, stage.one, webhook, changed, by=TESTER.now())
                case 1:
                    await register.rotate_secret(tx, webhook, 0, box=stage.services.box, by=TESTER.now())
                case _:
                    cursor = (await registration_store.read_progress(tx, webhook)).cursor_position
                    await register.rewind(tx, webhook, self._chance.randint(0, cursor), by=TESTER.now())

    async def enable(self, hook: Hook) -> None:
        stage = self._stage
        async with stage.database.transaction() as tx:
            webhook = await registration_store.find_webhook(tx, stage.one, hook.id)
            if not webhook.enabled:
                changed = replace(webhook, enabled=True)
                await register.change_webhook(tx, stage.one, webhook, changed, by=TESTER.now())


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_every_event_is_delivered_in_order_as_it_is_read(
    stage: Stage, server: Server, authority: Authority, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost notifications and sessions, changes, rewinds, slow and failing receivers, killed and frozen holders."""
    monkeypatch.setattr(kept_leases, "LATE_S", 60.0)
    chance = random.Random(seed)  # noqa: S311 - a test
    async with AsyncExitStack() as stack:
        receivers = [await stack.enter_async_context(receiving(authority.context())) for _ in range(2)]
        hooks = [(await stage.register(receiver.url), receiver) for receiver in receivers]
        model = Model(stage, server, stack, chance)
        await model.start_worker()
        await model.start_worker()
        for _ in range(STEPS):
            await model.step(*chance.choice(hooks))
            await asyncio.sleep(chance.choice((0.0, 0.01, 0.05)))
        for hook, receiver in hooks:
            await model.enable(hook)
            await receiver.arrived(lambda: {event["event_id"] for event in receiver.events} >= set(model.emitted))  # noqa: B023
            # Repeats are allowed; a new event never comes before an older one.
            assert list(dict.fromkeys(event["event_id"] for event in receiver.events)) == model.emitted
    for receiver in receivers:
        await assert_read_alike(stage, receiver.deliveries, model.emitted)


async def assert_read_alike(stage: Stage, deliveries: Sequence[Delivery], emitted: Sequence[str]) -> None:
    lease = make_lease(Stream(stage.one.organisation_id, stage.one.mode))
    async with stage.database.connection() as connection:
        for delivery in deliveries:
            after = emitted.index(delivery.event_ids[0])
            batch = await read_stream(connection, lease, after, len(delivery.event_ids))
            assert batch is not None
            assert delivery.body == batch.body
