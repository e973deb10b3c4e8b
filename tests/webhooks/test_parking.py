"""A receiver that refuses one account's event while it takes others: only that account waits, and in order."""

import asyncio
from dataclasses import replace

import pytest

from tests.api_client import ApiClient, codes
from tests.webhooks.receiver import OK, Delivery, Receiver, Reply, after, later, reply
from tests.webhooks.stage import Hook, Stage, in_order_per_account
from tests.world import START
from tonne.accounts.model import Account, AccountKind, PaymentMethod
from tonne.accounts.open_account import open_account
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.webhooks.schedule import REFUSALS_BEFORE_PARKING


def refuse(receiver: Receiver, *event_ids: str) -> None:
    """Everything that carries one of these is refused, the rest is taken."""
    poison = set(event_ids)

    def rule(delivery: Delivery) -> Reply:
        return reply(422, b"bad event") if poison & set(delivery.event_ids) else OK

    receiver.rule = rule


async def open_third(stage: Stage) -> Scope:
    scope = replace(stage.one, account_id=new_id("acc"))
    account = Account(scope, AccountKind.CLIENT_ACCOUNT, "third", "EUR", "Someone", PaymentMethod.INVOICE, START)
    async with stage.house.database.transaction() as tx:
        await open_account(tx, account, actor="test")
    return scope


async def until_parked(stage: Stage, hook: Hook, *accounts: Scope) -> None:
    wanted = sorted(account.account_id for account in accounts)

    async def parked() -> bool:
        return [row["account_id"] for row in await stage.parked(hook)] == wanted

    await stage.until(parked)


async def until_only_parked_wait(stage: Stage, hook: Hook) -> None:
    """The main lane has delivered all it has."""

    async def done() -> bool:
        row = await stage.row(hook)
        [stream] = await stage.fetch(
            "SELECT last_position FROM event_streams WHERE organisation_id = $1 AND mode = $2",
            row["organisation_id"],
            row["mode"],
        )
        return bool(row["cursor_position"] == stream["last_position"])

    await stage.until(done)


def taken(receiver: Receiver, *, but: str) -> list[str]:
    """What the receiver has taken, in order."""
    return [
        event_id for delivery in receiver.deliveries for event_id in delivery.event_ids if but not in delivery.event_ids
    ]


async def test_after_five_refusals_only_that_account_waits_and_the_others_go_on(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
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
    # Five times alone, then the next of another account, to see whether it is this event or the receiver.
    assert [delivery.event_ids for delivery in receiver.deliveries[:5]] == [[poison]] * REFUSALS_BEFORE_PARKING
    assert receiver.deliveries[5].event_ids == [others[0]]
    assert taken(receiver, but=poison) == [others[0], others[2], others[3]]
    [lane] = (await api.get(f"/v1/webhooks/{hook.id}")).json()["delivery"]["parked"]
    assert (lane["account_id"], lane["event_id"]) == (stage.one.account_id, poison)
    assert (lane["event_type"], lane["refusals"] >= 5) == ("order.received", True)


async def test_a_poisoned_event_within_a_batch_parks_its_account_too(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.two, stage.one, stage.two, stage.one, stage.two)
    refuse(receiver, ids[1])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    assert taken(receiver, but=ids[1]) == [ids[0], ids[2], ids[4]]
    # The whole batch once, then the event before it, the two after that, and then five times the poisoned one alone.
    alone = [delivery for delivery in receiver.deliveries if delivery.event_ids == [ids[1]]]
    assert len(alone) >= REFUSALS_BEFORE_PARKING
    assert len([d for d in alone if d.at_s < next(x.at_s for x in receiver.deliveries if x.event_ids == [ids[2]])]) <= 6


async def test_an_account_that_recovers_gets_its_events_in_order_and_leaves_the_lane(
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


async def test_the_waiting_events_go_out_one_then_twice_as_many(stage: Stage, receiver: Receiver) -> None:
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
            [lane] = await stage.parked(hook)
            return bool(lane["position"] == 3 and lane["refusals"] >= 2)

        await stage.until(at_second)
        refuse(receiver)
        await stage.idle()
    assert in_order_per_account(receiver.events)
    assert {event["event_id"] for event in receiver.events} == set(ids)


async def test_two_accounts_can_be_parked_while_a_third_goes_on(stage: Stage, receiver: Receiver) -> None:
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


async def test_a_receiver_that_is_down_for_everybody_parks_nobody(stage: Stage, receiver: Receiver) -> None:
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


async def test_with_no_other_account_to_try_nothing_is_parked(stage: Stage, receiver: Receiver) -> None:
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
    """The next event of another account may be far away in the stream."""
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


async def test_skipping_is_on_record_and_lets_the_account_go_on(
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


async def test_skipping_while_the_parked_event_is_under_way_is_not_undone(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    gate = asyncio.Event()
    receiver.next(after(gate, reply(422)))
    seen = len(receiver.deliveries)
    async with stage.working():
        await receiver.count(seen + 1)
        await api.post(f"/v1/webhooks/{hook.id}/skip", {"event_id": ids[0]})
        gate.set()
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


async def _failing_with_a_parked_account(stage: Stage, receiver: Receiver) -> Hook:
    """One account is parked, and then the receiver goes down for everybody, with an event waiting in the main lane."""
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    refuse(receiver, ids[0])
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    receiver.rule = lambda _: reply(503)
    await stage.emit(stage.two)
    return hook


async def test_trying_a_parked_account_does_not_cut_the_main_lanes_backoff_short(
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
    house = stage.worker(stage.change(webhook_time_scale=1, worker_poll_s=30.0)).house
    for _ in range(10):
        await house.deliverer.run_once()
        if house.deliverer._busy:
            await asyncio.wait(house.deliverer._busy)
    # A second's pause after the first failure, in real time: at most the one in between fits into these ten looks.
    assert len(receiver.deliveries) - seen <= 3


async def test_a_slow_receiver_in_the_parked_lane_still_has_one_request_at_a_time(
    stage: Stage, receiver: Receiver
) -> None:
    """Several parked deliveries in a row take longer than a lease: it must be renewed between them."""
    hook = await stage.register(receiver.url)
    [poison] = await stage.emit(stage.one)
    refuse(receiver, poison)
    await stage.emit(stage.two)
    waiting = await stage.emit_many(stage.one, ["{}"] * 30)
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        await until_only_parked_wait(stage, hook)
    receiver.rule = lambda _: later(0.4)
    receiver.most_at_once = 0
    seen = len(receiver.deliveries)
    short = stage.change(webhook_lease_s=1.0, webhook_timeout_s=0.9)
    async with stage.working(short), stage.working(short):
        await stage.idle()
    assert receiver.most_at_once == 1
    assert [event["event_id"] for d in receiver.deliveries[seen:] for event in d.events] == [poison, *waiting]


@pytest.mark.parametrize("poisoned", [0, 3])
async def test_what_is_refused_once_and_taken_later_is_never_skipped(
    stage: Stage, receiver: Receiver, poisoned: int
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one, stage.two, stage.one)
    refuse(receiver, ids[poisoned])
    async with stage.working():
        account = (stage.one, stage.two)[poisoned % 2]
        await until_parked(stage, hook, account)
        await until_only_parked_wait(stage, hook)
        refuse(receiver)
        await stage.idle()
    acknowledged = {p for a in await stage.attempts(hook) if a["acknowledged"] for p in a["positions"]}
    assert acknowledged == {1, 2, 3, 4, 5}
    assert await stage.fetch("SELECT FROM webhook_skips") == []
