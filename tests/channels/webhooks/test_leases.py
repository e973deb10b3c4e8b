"""Several workers at once: one request in flight per webhook, no event lost, no webhook delays another."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.channels.webhooks.stage import Stage, in_order_per_account
from tests.support.receivers import OK, Delivery, Receiver, Reply, after, hang, receiving, reply
from tests.support.tls import Authority
from tests.support.world import World


@pytest.mark.parametrize("workers", [2, 4])
async def test_several_workers_on_one_webhook_have_one_request_in_flight_and_lose_nothing(
    stage: Stage, receiver: Receiver, workers: int
) -> None:
    refused: set[str] = set()

    def flap(delivery: Delivery) -> Reply:
        """Refuse every batch once and accept it the second time."""
        key = delivery.event_ids[0]
        if key in refused:
            return OK
        refused.add(key)
        return reply(500)

    receiver.rule = flap
    await stage.register(receiver.url)
    ids: list[str] = []
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(stage.working())
        for _ in range(15):
            ids += await stage.emit(stage.one, stage.two)
        await stage.idle()
    assert receiver.most_at_once == 1
    assert {event["event_id"] for event in receiver.events} == set(ids)
    assert in_order_per_account(receiver.events)
    bodies: dict[tuple[str, ...], bytes] = {}
    for delivery in receiver.deliveries:
        assert bodies.setdefault(tuple(delivery.event_ids), delivery.body) == delivery.body


async def test_workers_share_the_webhooks_and_each_event_is_sent_once(
    stage: Stage, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as second, receiving(authority.context()) as third:
        receivers = [receiver, second, third]
        for each in receivers:
            await stage.register(each.url)
        async with stage.working(), stage.working():
            ids = await stage.emit(*[stage.one, stage.two] * 10)
            await stage.idle()
        for each in receivers:
            assert [event["event_id"] for event in each.events] == ids
            assert each.most_at_once == 1


async def test_a_frozen_worker_loses_its_lease_and_settles_nothing_when_it_wakes(
    stage: Stage, receiver: Receiver
) -> None:
    released = asyncio.Event()
    receiver.next(after(released))
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    frozen = stage.worker(stage.change(webhook_lease_s=0.3, webhook_timeout_s=30.0))
    await receiver.count(1)
    async with stage.working():
        # The second worker has taken over when the same events arrive again.
        await receiver.count(2)
        ids += await stage.emit(stage.one)
        await stage.idle()
        before = await stage.row(hook)
        settled = await stage.attempts(hook)
        released.set()
        await frozen.stop()
    after_waking = await stage.row(hook)
    assert [attempt["id"] for attempt in await stage.attempts(hook)] == [attempt["id"] for attempt in settled]
    assert after_waking["cursor_position"] == before["cursor_position"] == 3
    assert after_waking["acknowledged_count"] == len(settled)
    assert [delivery.event_ids for delivery in receiver.deliveries[:2]] == [ids[:2], ids[:2]]
    assert receiver.deliveries[0].body == receiver.deliveries[1].body
    assert {event["event_id"] for event in receiver.events} == set(ids)
    assert in_order_per_account(receiver.events)


async def test_a_frozen_workers_late_refusal_does_not_count_either(stage: Stage, receiver: Receiver) -> None:
    released = asyncio.Event()
    receiver.next(after(released, reply(500)))
    hook = await stage.register(receiver.url)
    await stage.emit()
    frozen = stage.worker(stage.change(webhook_lease_s=0.3, webhook_timeout_s=30.0))
    await receiver.count(1)
    async with stage.working():
        await receiver.count(2)
        await stage.idle()
        released.set()
        await frozen.stop()
    row = await stage.row(hook)
    assert (row["failures"], row["failing_since"], row["refused_count"]) == (0, None, 0)


async def test_a_worker_killed_after_it_claimed_leaves_its_events_to_the_next(stage: Stage, receiver: Receiver) -> None:
    receiver.next(hang)
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    doomed = stage.worker(stage.change(webhook_lease_s=0.3))
    await receiver.count(1)
    await doomed.kill()
    assert (await stage.row(hook))["lease_until"] is not None
    await stage.deliver()
    assert [delivery.event_ids for delivery in receiver.deliveries] == [ids, ids]
    assert receiver.deliveries[0].body == receiver.deliveries[1].body
    [attempt] = await stage.attempts(hook)
    assert attempt["acknowledged"]


async def test_no_other_worker_sends_during_a_lease(stage: Stage, receiver: Receiver, authority: Authority) -> None:
    released = asyncio.Event()
    receiver.next(after(released))
    await stage.register(receiver.url)
    async with receiving(authority.context()) as other, stage.working(), stage.working():
        await stage.emit(stage.one)
        await receiver.count(1)
        await stage.register(other.url)
        await stage.emit(stage.one)
        # Both workers run: the other receiver gets its event while the first request is held.
        await other.count(1)
        released.set()
        await stage.idle()
    assert receiver.most_at_once == 1
    assert len(receiver.deliveries) == 2


async def test_a_stopping_worker_finishes_the_request_in_flight_and_starts_no_other(
    stage: Stage, receiver: Receiver
) -> None:
    released = asyncio.Event()
    receiver.next(after(released))
    hook = await stage.register(receiver.url)
    ids = await stage.emit()
    worker = stage.worker()
    await receiver.count(1)
    worker.ask_to_stop()
    released.set()
    await worker.stop()
    row = await stage.row(hook)
    assert (row["cursor_position"], row["lease_until"], row["acknowledged_count"]) == (1, None, 1)
    assert [event["event_id"] for event in receiver.events] == ids


async def test_a_receiver_that_hangs_slows_no_other_organisation(
    stage: Stage, world: World, receiver: Receiver, authority: Authority
) -> None:
    async with AsyncExitStack() as stack:
        hanging = [await stack.enter_async_context(receiving(authority.context())) for _ in range(8)]
        for each in hanging:
            each.rule = lambda _: hang
            await stage.register(each.url)
        await stage.register(receiver.url, scope=world.theirs_test.scope)
        await stage.emit(stage.one)
        stage.worker()
        for each in hanging:
            await each.count(1)
        for n in range(20):
            await stage.emit(world.theirs_test.scope)
            await receiver.arrived(lambda n=n: len(receiver.events) > n)  # type: ignore[misc]
        # All twenty arrived while the other requests were still hanging.
        assert await stage.fetch("SELECT FROM webhook_attempts WHERE NOT acknowledged") == []
        assert [len(each.deliveries) for each in hanging] == [1] * 8


async def test_a_long_backlog_does_not_starve_another_organisation(
    stage: Stage, world: World, receiver: Receiver, authority: Authority
) -> None:
    """With one place, the other webhook is claimed before the whole backlog is delivered."""
    async with receiving(authority.context()) as quiet:
        await stage.register(receiver.url)
        await stage.register(quiet.url, scope=world.theirs_test.scope)
        await stage.emit_many(stage.one, ["{}"] * 2500)
        [event_id] = await stage.emit(world.theirs_test.scope)
        async with stage.working(stage.change(webhook_concurrency=1)):
            await stage.idle()
        [delivery] = quiet.deliveries
        assert delivery.event_ids == [event_id]
        assert delivery.at_s < receiver.deliveries[-1].at_s
        assert sum(each.at_s < delivery.at_s for each in receiver.deliveries) <= 11


async def test_a_webhook_whose_secret_cannot_be_opened_does_not_stop_the_others(
    stage: Stage, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as broken:
        hook = await stage.register(broken.url)
        await stage.register(receiver.url)
        await stage.fetch("UPDATE webhooks SET secret_box = '\\x00' WHERE id = $1", hook.id)
        ids = await stage.emit(stage.one, stage.two)
        async with stage.working():
            await receiver.arrived(lambda: len(receiver.events) == 2)
        assert [event["event_id"] for event in receiver.events] == ids
        assert broken.deliveries == []
