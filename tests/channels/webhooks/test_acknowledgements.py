"""Acknowledgements of several webhooks share a statement, and none delays another or makes it fail."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.channels.webhooks.relay import relayed_services
from tests.channels.webhooks.stage import Hook, Stage
from tests.channels.webhooks.test_due_streams import make_lease
from tests.conftest import Server
from tests.support.receivers import Receiver
from tonne.channels.webhooks.delivery.acknowledge import Acknowledgement, acknowledge, acknowledge_many
from tonne.channels.webhooks.delivery.claim import claim_webhooks
from tonne.channels.webhooks.delivery.kept_leases import KeptLeases
from tonne.channels.webhooks.delivery.metrics import DeliveryMetrics
from tonne.channels.webhooks.delivery.outcomes import Delivered
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Stream
from tonne.platform.settings.settings import Settings

BATCH = EventBatch(range(1, 2), b"{}", 1)
ACCEPTED = Delivered(200, None, 1, "")


class Settling:
    """Leased webhooks, each with a waiting event at position 1, and their settlement."""

    def __init__(self, database: Database, settings: Settings, hooks: Sequence[Hook], leases: Sequence[Lease]) -> None:
        self.metrics = DeliveryMetrics()
        self.hooks, self._leases = hooks, {lease.id: lease for lease in leases}
        self._settlement = Settlement(database, settings, self.metrics, KeptLeases(1.0, 1.0), lambda _: None)

    def start(self, hook: Hook, outcome: Delivered = ACCEPTED) -> "asyncio.Task[Lease | None]":
        return asyncio.create_task(self._settlement.settle(self._leases[hook.id], BATCH, outcome))


async def claimed(stage: Stage, database: Database, settings: Settings, count: int) -> Settling:
    hooks = [await stage.register(f"https://receiver{number}.test/") for number in range(count)]
    await stage.emit()
    leases = await database.run(claim_webhooks, count, count, settings.webhook_lease_s)
    return Settling(database, settings, hooks, leases)


@asynccontextmanager
async def locked(stage: Stage, *hooks: Hook) -> AsyncIterator[None]:
    """Another transaction changes these webhooks at the moment."""
    async with stage.database.transaction() as tx:
        await tx.fetch("SELECT FROM webhooks WHERE id = ANY ($1) FOR UPDATE", [hook.id for hook in hooks])
        yield


async def settled(stage: Stage, hook: Hook) -> tuple[int, int, int]:
    """The cursor, and how many attempts are counted and recorded."""
    row = await stage.row(hook)
    return row["cursor_position"], row["acknowledged_count"], len(await stage.attempts(hook))


async def test_locked_webhooks_delay_no_other(stage: Stage) -> None:
    """The first one is being written alone, the second one is skipped by the statement for several."""
    settling = await claimed(stage, stage.database, stage.services.settings, 5)
    alone, skipped, *others = settling.hooks
    async with locked(stage, alone, skipped):
        waiting = [settling.start(alone), settling.start(skipped)]
        renewed = await asyncio.gather(*map(settling.start, others))
        assert all(lease is not None and lease.cursor_position == 1 for lease in renewed)
        assert not any(task.done() for task in waiting)
    assert all(lease is not None for lease in await asyncio.gather(*waiting))
    assert [await settled(stage, hook) for hook in settling.hooks] == [(1, 1, 1)] * 5


async def test_acknowledgements_that_wait_share_a_statement(stage: Stage) -> None:
    settling = await claimed(stage, stage.database, stage.services.settings, 10)
    first, *others = settling.hooks
    async with locked(stage, first):
        tasks = [settling.start(hook) for hook in settling.hooks]
        await asyncio.gather(*tasks[1:])
    await tasks[0]
    writers = "SELECT DISTINCT xmin::text FROM webhooks WHERE id = ANY ($1)"
    assert len(await stage.fetch(writers, [hook.id for hook in others])) == 1
    assert [await settled(stage, hook) for hook in settling.hooks] == [(1, 1, 1)] * 10


async def test_a_lost_lease_and_a_changed_registration_concern_only_their_webhooks(stage: Stage) -> None:
    settling = await claimed(stage, stage.database, stage.services.settings, 5)
    first, lost, changed, *others = settling.hooks
    await stage.execute("UPDATE webhooks SET lease_token = lease_token + 1 WHERE id = $1", lost.id)
    await stage.execute("UPDATE webhooks SET version = version + 1 WHERE id = $1", changed.id)
    async with locked(stage, first):
        tasks = [settling.start(hook) for hook in settling.hooks]
        results = await asyncio.gather(*tasks[1:])
    await tasks[0]
    assert results[0] is None
    # It was recorded; the cursor is where the change put it.
    assert results[1] is not None
    assert results[1].cursor_position == 0
    assert await settled(stage, lost) == (0, 0, 0)
    assert await settled(stage, changed) == (0, 1, 1)
    assert [await settled(stage, hook) for hook in [first, *others]] == [(1, 1, 1)] * 3


async def test_one_that_cannot_be_written_makes_no_other_fail(stage: Stage) -> None:
    settling = await claimed(stage, stage.database, stage.services.settings, 4)
    first, broken, *others = settling.hooks
    async with locked(stage, first):
        tasks = [settling.start(first), settling.start(broken, Delivered(200, None, 1, "\x00"))]
        tasks += map(settling.start, others)
        await asyncio.gather(*tasks[2:])
        with pytest.raises(asyncpg.CharacterNotInRepertoireError):
            await tasks[1]
    await tasks[0]
    assert [await settled(stage, hook) for hook in [first, *others]] == [(1, 1, 1)] * 3


async def test_operations_7_a_shared_statement_whose_response_was_lost_counts_once(
    server: Server, stage: Stage
) -> None:
    name = await stage.fetchval("SELECT current_database()")
    settings = stage.services.settings
    async with relayed_services(server.url(name), settings) as (relay, services):
        settling = await claimed(stage, services.database, settings, 4)
        nobody = Acknowledgement.of(make_lease(Stream("org_x", "test")), BATCH, ACCEPTED, "att_x")
        async with services.database.connection() as one, services.database.connection() as two:
            # Prepares the statements: each then needs only one response.
            for connection in (one, two):
                await acknowledge(connection, nobody, 1.0)
                await acknowledge_many(connection, [nobody], 1.0)
        relay.responding.clear()
        tasks = [settling.start(hook) for hook in settling.hooks]

        async def committed() -> bool:
            return [await settled(stage, hook) for hook in settling.hooks] == [(1, 1, 1)] * 4

        await stage.until(committed)
        relay.drop_connections()
        relay.responding.set()
        assert all(await asyncio.gather(*tasks))
        assert await committed()


async def test_workers_settle_many_webhooks_together_and_lose_nothing(stage: Stage, receiver: Receiver) -> None:
    hooks = [await stage.register(receiver.url) for _ in range(12)]
    ids = await stage.emit(*[stage.one] * 30)
    async with stage.working(), stage.working():
        await stage.idle()
    assert sorted(event["event_id"] for event in receiver.events) == sorted(ids * 12)
    for hook in hooks:
        attempts = await stage.attempts(hook)
        positions = [position for attempt in attempts for position in attempt["positions"]]
        assert (positions, await settled(stage, hook)) == (list(range(1, 31)), (30, len(attempts), len(attempts)))
