"""A receiver refuses one account's event and accepts others: only that account waits, in order."""

import pytest

from tests.channels.webhooks.parking import accepted, open_third, refuse, until_only_parked_wait, until_parked
from tests.channels.webhooks.stage import Stage, in_order_per_account
from tests.support.api_client import ApiClient, codes
from tests.support.receivers import OK, Receiver, reply
from tonne.channels.webhooks.delivery.schedule import REFUSALS_BEFORE_PARKING


async def test_after_five_refusals_only_that_account_waits(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    [poison] = await stage.emit(stage.one)
    refuse(receiver, poison)
    async with stage.working():
        await receiver.count(1)
        others = await stage.emit(stage.two, stage.one, stage.two)
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
        others += await stage.emit(stage.two)
        await receiver.arrived(lambda: others[-1] in receiver.deliveries[-1].event_ids)
        await until_only_parked_wait(stage, hook)
    # Five times alone, then the next event of another account as a probe.
    assert [delivery.event_ids for delivery in receiver.deliveries[:5]] == [[poison]] * REFUSALS_BEFORE_PARKING
    assert receiver.deliveries[5].event_ids == [others[0]]
    assert accepted(receiver, but=poison) == [others[0], others[2], others[3]]
    [account] = (await api.get(f"/v1/webhooks/{hook.id}")).json()["delivery"]["parked"]
    assert (account["account_id"], account["event_id"]) == (stage.one.account_id, poison)
    assert (account["event_type"], account["refusals"] >= 5) == ("order.received", True)


async def test_a_poisoned_event_within_a_batch_parks_its_account_too(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.two, stage.one, stage.two, stage.one, stage.two)
    refuse(receiver, ids[1])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    assert accepted(receiver, but=ids[1]) == [ids[0], ids[2], ids[4]]
    # The whole batch once, the event before it, two events, and then the poisoned one alone five times.
    alone = [delivery for delivery in receiver.deliveries if delivery.event_ids == [ids[1]]]
    assert len(alone) >= REFUSALS_BEFORE_PARKING
    assert len([d for d in alone if d.at_s < next(x.at_s for x in receiver.deliveries if x.event_ids == [ids[2]])]) <= 6


async def test_an_account_that_recovers_gets_its_events_in_order_and_is_no_longer_parked(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
        ids += await stage.emit(stage.one, stage.two, stage.one)
        refuse(receiver)
        await stage.idle()
        ids += await stage.emit(stage.one, stage.two)
        await stage.idle()
    assert in_order_per_account(receiver.events)
    assert {event["event_id"] for event in receiver.events} == set(ids)
    assert await stage.parked(hook) == []


async def test_a_second_poisoned_event_of_the_same_account_keeps_it_waiting_there(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        refuse(receiver, ids[2])

        async def at_second() -> bool:
            [account] = await stage.parked(hook)
            return bool(account["position"] == 3 and account["refusals"] >= 2)

        await stage.until(at_second)
        refuse(receiver)
        await stage.idle()
    assert in_order_per_account(receiver.events)
    assert {event["event_id"] for event in receiver.events} == set(ids)


async def test_two_accounts_are_parked_while_a_third_gets_its_events(stage: Stage, receiver: Receiver) -> None:
    third = await open_third(stage)
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, third)
    refuse(receiver, ids[0], ids[1])
    async with stage.working():
        await until_parked(stage, hook, stage.one, stage.two)
        await until_only_parked_wait(stage, hook)
        assert ids[2] in [event["event_id"] for event in receiver.events]
        refuse(receiver)
        await stage.idle()
    assert in_order_per_account(receiver.events)


async def test_a_receiver_that_refuses_every_account_parks_none(stage: Stage, receiver: Receiver) -> None:
    receiver.rule = lambda _: reply(503)
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one, stage.two)
    async with stage.working():
        await receiver.count(9)
        assert await stage.parked(hook) == []
        receiver.rule = lambda _: OK
        await stage.idle()
    assert in_order_per_account(receiver.events)
    assert (await stage.row(hook))["failures"] == 0
    assert {event["event_id"] for event in receiver.events} == set(ids)


async def test_without_another_account_to_probe_none_is_parked(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url, stage.one)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await receiver.count(8)
        assert await stage.parked(hook) == []
        refuse(receiver)
        await stage.idle()
    assert in_order_per_account(receiver.events)


async def test_a_poisoned_account_with_a_long_backlog_does_not_hold_up_the_others(
    stage: Stage, receiver: Receiver
) -> None:
    """The next event of another account may be far ahead in the stream."""
    hook = await stage.register(receiver.url)
    ids = await stage.emit_many(stage.one, ["{}"] * 1100)
    [other] = await stage.emit(stage.two)
    refuse(receiver, ids[0])
    async with stage.working():
        await receiver.count(12)
        await until_parked(stage, hook, stage.one)
        await receiver.arrived(lambda: any(other in delivery.event_ids for delivery in receiver.deliveries))
        refuse(receiver)
        await stage.idle()
    assert in_order_per_account(receiver.events)


async def test_a_skip_is_recorded_and_the_account_continues_with_its_next_event(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
        answer = await api.post(f"/v1/webhooks/{hook.id}/skip", {"event_id": ids[0]})
        assert answer.status_code == 200, answer.text
        await stage.idle()
    assert receiver.deliveries[-1].event_ids == [ids[2]]
    [skip] = await stage.fetch("SELECT position, skipped_by FROM webhook_skips WHERE webhook_id = $1", hook.id)
    assert (skip["position"], skip["skipped_by"]) == (1, f"key:{stage.tenant.key_id}")
    [entry] = await stage.fetch("SELECT actor, details::text FROM audit_log WHERE action = 'webhook.event_skipped'")
    assert entry["actor"] == f"key:{stage.tenant.key_id}"
    assert ids[0] in entry["details"]


async def test_only_the_event_that_parks_an_account_can_be_skipped(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    for event_id in (ids[1], ids[2], "evt_unknown"):
        answer = await api.post(f"/v1/webhooks/{hook.id}/skip", {"event_id": event_id})
        assert (answer.status_code, codes(answer)) == (409, ["event_not_parked"])
    assert await stage.fetch("SELECT FROM webhook_skips") == []


@pytest.mark.parametrize("poisoned", [0, 3])
async def test_an_event_that_is_accepted_after_refusals_is_never_skipped(
    stage: Stage, receiver: Receiver, poisoned: int
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one, stage.two, stage.one)
    refuse(receiver, ids[poisoned])
    async with stage.working():
        await until_parked(stage, hook, (stage.one, stage.two)[poisoned % 2])
        await until_only_parked_wait(stage, hook)
        refuse(receiver)
        await stage.idle()
    acknowledged = {p for a in await stage.attempts(hook) if a["acknowledged"] for p in a["positions"]}
    assert acknowledged == {1, 2, 3, 4, 5}
    assert await stage.fetch("SELECT FROM webhook_skips") == []
