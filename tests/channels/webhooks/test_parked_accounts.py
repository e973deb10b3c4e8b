"""Delivery to parked accounts next to the main stream: own batch size and back-off, one request at a time."""

import asyncio

from tests.channels.webhooks.parking import refuse, until_only_parked_wait, until_parked
from tests.channels.webhooks.stage import Hook, Stage, in_order_per_account
from tests.support.api_client import ApiClient
from tests.support.receivers import Receiver, after, later, reply


async def _failing_with_a_parked_account(stage: Stage, receiver: Receiver) -> Hook:
    """One account is parked, then the receiver fails for all, with an event waiting in the main stream."""
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    receiver.rule = lambda _: reply(503)
    await stage.emit(stage.two)
    return hook


async def test_the_waiting_events_are_sent_one_at_first_then_twice_as_many_each_time(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    [poison] = await stage.emit(stage.one)
    refuse(receiver, poison)
    await stage.emit(stage.two)
    waiting = await stage.emit_many(stage.one, ["{}"] * 20)
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
        refuse(receiver)
        await stage.idle()
    recovered = receiver.deliveries[-5:]
    assert [len(delivery.events) for delivery in recovered] == [1, 2, 4, 8, 6]
    assert [event_id for delivery in recovered for event_id in delivery.event_ids] == [poison, *waiting]


async def test_retry_now_tries_a_parked_event_at_once(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    refuse(receiver)
    await stage.fetch("UPDATE webhook_parked SET next_attempt_at = now() + interval '1 hour'")
    await api.post(f"/v1/webhooks/{hook.id}/retry-now", {})
    await stage.deliver()
    assert receiver.deliveries[-1].event_ids == [ids[0]]


async def test_skipping_while_the_parked_event_is_in_flight_is_not_undone(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    released = asyncio.Event()
    receiver.next(after(released, reply(422)))
    seen = len(receiver.deliveries)
    async with stage.working():
        await receiver.count(seen + 1)
        await api.post(f"/v1/webhooks/{hook.id}/skip", {"event_id": ids[0]})
        released.set()
        await stage.idle()
    assert [delivery.event_ids for delivery in receiver.deliveries[seen:]] == [[ids[0]], [ids[2]]]


async def test_taking_a_parked_account_out_of_the_filter_leaves_no_event_unaccounted_for(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
        changed = {"account_ids": [stage.two.account_id]}
        answer = await api.http.put(f"/v1/webhooks/{hook.id}", json=changed, headers=api._headers({}))
        assert answer.json()["delivery"]["parked"] == []
        [last] = await stage.emit(stage.two)
        await stage.idle()
    assert receiver.deliveries[-1].event_ids == [last]


async def test_the_cursor_moves_on_when_the_failing_account_is_taken_out_of_the_filter(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    """Otherwise the worker would claim the webhook again and again, because its events wait but none is in scope."""
    hook = await _failing_with_a_parked_account(stage, receiver)
    async with stage.working():

        async def failed() -> bool:
            return bool((await stage.row(hook))["failures"])

        await stage.until(failed)
    changed = {"account_ids": [stage.one.account_id]}
    await api.http.put(f"/v1/webhooks/{hook.id}", json=changed, headers=api._headers({}))
    async with stage.working():
        await until_only_parked_wait(stage, hook)
    assert [row["account_id"] for row in await stage.parked(hook)] == [stage.one.account_id]


async def test_a_rewind_behind_a_parked_event_keeps_the_accounts_order(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.one, stage.two)
    refuse(receiver, ids[1])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
        await api.post(f"/v1/webhooks/{hook.id}/rewind", {"event_id": ids[0]})
        await until_only_parked_wait(stage, hook)
        refuse(receiver)
        await stage.idle()
    assert in_order_per_account(receiver.events)


async def test_an_attempt_for_a_parked_account_does_not_shorten_the_back_off_of_the_main_stream(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await _failing_with_a_parked_account(stage, receiver)
    await stage.fetch("UPDATE webhooks SET next_attempt_at = now() + interval '1 hour', failures = 11")
    await stage.fetch("UPDATE webhook_parked SET next_attempt_at = now()")
    seen = len(receiver.deliveries)
    async with stage.working():
        await receiver.count(seen + 3)
    assert {frozenset(delivery.account_ids) for delivery in receiver.deliveries[seen:]} == {
        frozenset({stage.one.account_id})
    }
    assert (await stage.row(hook))["failures"] == 11


async def test_a_parked_event_behind_the_rewound_cursor_does_not_make_the_worker_hammer_a_failing_receiver(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await _failing_with_a_parked_account(stage, receiver)
    await api.post(f"/v1/webhooks/{hook.id}/rewind", {"sequence": "2000-01-01T00:00:00.000Z"})
    await stage.fetch("UPDATE webhook_parked SET next_attempt_at = now()")
    seen = len(receiver.deliveries)
    services = stage.worker(stage.change(webhook_time_scale=1, worker_poll_s=30.0)).services
    found = []
    for _ in range(10):
        found.append(await services.deliverer.run_once())
        if services.deliverer._busy:
            await asyncio.wait(services.deliverer._busy)
    # The first back-off takes a second in real time: at most one more attempt fits into these ten runs.
    assert len(receiver.deliveries) - seen <= 3
    # If every run found work, the worker would never sleep.
    assert found[-1] is False


async def test_the_next_refused_event_of_an_account_restarts_its_back_off_and_its_mails(
    stage: Stage, receiver: Receiver
) -> None:
    """The two days of refusals belong to the previous event."""
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    await stage.fetch(
        "INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, 'ada@ours.test', now())",
        stage.one.organisation_id,
    )
    await stage.fetch(
        "UPDATE webhook_parked SET refusals = 50, alerts_sent = 2, next_attempt_at = now(), "
        "parked_at = now() - interval '2 days'"
    )
    refuse(receiver, ids[2])
    async with stage.working(stage.change(webhook_time_scale=1)):

        async def refused() -> bool:
            [account] = await stage.parked(hook)
            return bool(account["position"] == 3 and account["refusals"] == 1)

        await stage.until(refused)
    [account] = await stage.fetch(
        "SELECT extract(epoch FROM next_attempt_at - clock_timestamp())::float8 AS pause_s FROM webhook_parked"
    )
    assert account["pause_s"] <= 1.2
    assert await stage.fetch("SELECT FROM mails") == []


async def test_a_slow_receiver_gets_one_request_at_a_time_for_a_parked_account(
    stage: Stage, receiver: Receiver
) -> None:
    """Several requests take longer than a lease: it must be renewed between them."""
    hook = await stage.register(receiver.url)
    [poison] = await stage.emit(stage.one)
    refuse(receiver, poison)
    await stage.emit(stage.two)
    waiting = await stage.emit_many(stage.one, ["{}"] * 30)
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    receiver.rule = lambda _: later(0.6)
    receiver.most_at_once = 0
    seen = len(receiver.deliveries)
    short = stage.change(webhook_lease_s=2.0, webhook_timeout_s=1.9)
    async with stage.working(short), stage.working(short):
        await stage.idle()
    assert receiver.most_at_once == 1
    assert [event["event_id"] for d in receiver.deliveries[seen:] for event in d.events] == [poison, *waiting]
