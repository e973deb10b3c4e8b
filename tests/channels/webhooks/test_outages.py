"""The database is unavailable for a moment: delivery resumes when it is back, not when the leases expire."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from tests.channels.webhooks.relay import Relay, relayed_services
from tests.channels.webhooks.stage import Stage, Worker
from tests.conftest import Server
from tests.support.receivers import Receiver, after, reply
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.delivery.claim import claim_webhooks
from tonne.channels.webhooks.delivery.kept_leases import KeptLeases
from tonne.channels.webhooks.delivery.metrics import DeliveryMetrics
from tonne.channels.webhooks.delivery.outcomes import Delivered
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.model import EventBatch

# Less than the leases of the deliveries, which are the default.
RESUMES_WITHIN_S = 20.0


@pytest.fixture
async def relayed(server: Server, stage: Stage) -> AsyncIterator[tuple[Relay, Services]]:
    name = await stage.fetchval("SELECT current_database()")
    async with relayed_services(server.url(name), stage.services.settings) as pair:
        yield pair


@pytest.mark.parametrize("status", [200, 500])
async def test_operations_7_a_response_during_an_outage_is_settled_when_the_database_is_back(
    stage: Stage, receiver: Receiver, relayed: tuple[Relay, Services], status: int
) -> None:
    relay, services = relayed
    released = asyncio.Event()
    receiver.next(after(released, reply(status)))
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    worker = Worker(services)
    await receiver.count(1)
    relay.shut()
    released.set()
    later = await stage.emit(stage.one)
    assert (await stage.row(hook))["lease_until"] is not None
    await relay.open()
    await receiver.arrived(lambda: later[0] in [event["event_id"] for event in receiver.events], RESUMES_WITHIN_S)
    await stage.idle()
    await worker.stop()
    assert [event["event_id"] for event in receiver.events] == (ids + later if status == 200 else ids + ids + later)
    row = await stage.row(hook)
    assert row["acknowledged_count"] == sum(attempt["acknowledged"] for attempt in await stage.attempts(hook))
    assert row["refused_count"] == (status == 500)


async def test_operations_7_an_outage_that_is_longer_than_the_lease_is_no_crash(
    server: Server, stage: Stage, receiver: Receiver
) -> None:
    released = asyncio.Event()
    receiver.next(after(released, reply(200)))
    await stage.register(receiver.url)
    ids = await stage.emit(stage.one)
    name = await stage.fetchval("SELECT current_database()")
    async with relayed_services(server.url(name), stage.change(webhook_lease_s=0.3)) as (relay, services):
        worker = Worker(services)
        await receiver.count(1)
        relay.shut()
        with capture_logs() as lines:
            released.set()
            await asyncio.wait(services.deliverer._busy)
            assert [line["event"] for line in lines if line["log_level"] == "error"] == []
        await relay.open()
        await receiver.arrived(lambda: len(receiver.events) == 2, RESUMES_WITHIN_S)
        await stage.idle()
        await worker.stop()
    assert [event["event_id"] for event in receiver.events] == ids * 2


async def test_operations_7_a_settlement_whose_response_was_lost_counts_once(server: Server, stage: Stage) -> None:
    hook = await stage.register("https://receiver.test/")
    await stage.emit(stage.one, stage.one)
    name = await stage.fetchval("SELECT current_database()")
    settings = stage.change(database_connections=1)
    async with relayed_services(server.url(name), settings) as (relay, services):
        async with services.database.connection() as connection:
            [lease] = await claim_webhooks(connection, 1, 1, settings.webhook_lease_s)
        settlement, outcome = (
            Settlement(services.database, settings, DeliveryMetrics(), KeptLeases(1.0, 1.0), lambda _: None),
            Delivered(200, None, 1, ""),
        )
        # The first settlement prepares the statement: the second one then needs only one response.
        renewed = await settlement.settle(lease, EventBatch([1], b"{}", 1), outcome)
        assert renewed is not None
        relay.responding.clear()
        settling = asyncio.create_task(settlement.settle(renewed, EventBatch([2], b"{}", 2), outcome))

        async def committed() -> bool:
            return bool((await stage.row(hook))["cursor_position"] == 2)

        await stage.until(committed)
        relay.drop_connections()
        relay.responding.set()
        settled = await settling
        assert settled is not None
        assert settled.cursor_position == 2
        await settlement.release(settled)
    assert len(await stage.attempts(hook)) == (await stage.row(hook))["acknowledged_count"] == 2


async def test_a_crash_that_loses_a_result_does_not_let_the_cursor_move_past_it(stage: Stage) -> None:
    """Results are committed without waiting for the disk. A worker may outlive the crash, with the next result."""
    hook = await stage.register("https://receiver.test/")
    await stage.emit(stage.one, stage.one)
    services = stage.services
    async with services.database.connection() as connection:
        [lease] = await claim_webhooks(connection, 1, 1, stage.settings.webhook_lease_s)
    settlement = Settlement(services.database, stage.settings, DeliveryMetrics(), KeptLeases(1.0, 1.0), lambda _: None)
    outcome = Delivered(200, None, 1, "")
    renewed = await settlement.settle(lease, EventBatch([1], b"{}", 1), outcome)
    assert renewed is not None
    await stage.execute("UPDATE webhooks SET cursor_position = 0")
    await stage.execute("DELETE FROM webhook_attempts")
    assert await settlement.settle(renewed, EventBatch([2], b"{}", 2, after=1), outcome) is None
    assert (await settlement.pass_over(renewed, 2)) is not None
    assert (await stage.row(hook))["cursor_position"] == 0
    assert await stage.attempts(hook) == []


async def test_operations_7_an_outage_while_events_are_read_does_not_keep_the_lease(
    stage: Stage, receiver: Receiver, relayed: tuple[Relay, Services]
) -> None:
    relay, services = relayed
    hook = await stage.register(receiver.url, stage.one)
    worker = Worker(services)
    ids = await stage.emit(stage.one, stage.one)
    await receiver.arrived(lambda: len(receiver.events) == 2)
    relay.responding.clear()
    ids += await stage.emit(stage.one)

    async def claimed() -> bool:
        return (await stage.row(hook))["lease_until"] is not None

    await stage.until(claimed)
    relay.responding.set()
    relay.drop_connections()
    await stage.idle()
    await worker.stop()
    assert set(ids) == {event["event_id"] for event in receiver.events}


IN_TRANSACTION = """
SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction')
"""


async def test_operations_7_a_claim_whose_response_was_lost_leases_nothing(server: Server, stage: Stage) -> None:
    hook = await stage.register("https://receiver.test/")
    name = await stage.fetchval("SELECT current_database()")
    async with relayed_services(server.url(name), stage.change(database_connections=1)) as (relay, services):
        # Both statements of a claim are prepared, so that each needs only one response.
        for _ in range(2):
            assert not await services.deliverer.run_once()
        await stage.emit(stage.one)
        relay.responding.clear()
        claiming = asyncio.create_task(services.deliverer.run_once())

        async def processed() -> bool:
            return (await stage.row(hook))["lease_until"] is not None or await stage.fetchval(IN_TRANSACTION)

        await stage.until(processed)
        relay.drop_connections()
        relay.responding.set()
        await asyncio.wait([claiming])
        assert claiming.exception() is not None

        async def rolled_back() -> bool:
            return not await stage.fetchval(IN_TRANSACTION)

        await stage.until(rolled_back)
    assert (await stage.row(hook))["lease_until"] is None
