"""A receiver that refuses many accounts, or hangs on them: the other accounts get their events all the same."""

import pytest

from tests.channels.webhooks.parking import open_third, until_only_parked_wait
from tests.channels.webhooks.stage import Stage, in_order_per_account
from tests.support.receivers import OK, Delivery, Receiver, Reply, hang, reply
from tonne.platform.values.context import Scope


def _refuse_accounts(receiver: Receiver, accounts: list[Scope], how: Reply) -> None:
    refused = {account.account_id for account in accounts}

    def rule(delivery: Delivery) -> Reply:
        return how if refused & delivery.account_ids else OK

    receiver.rule = rule


def _has(receiver: Receiver, event_ids: list[str]) -> bool:
    return set(event_ids) <= {event["event_id"] for event in receiver.events}


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("bad_accounts", [3, 10, 50])
async def test_operations_8_healthy_accounts_get_their_events_however_many_accounts_are_refused(
    stage: Stage, receiver: Receiver, bad_accounts: int, interleaved: bool
) -> None:
    """With pauses a fiftieth as long, the back-off between a few more failures would exceed the time limit."""
    hook = await stage.register(receiver.url)
    bad = [await open_third(stage) for _ in range(bad_accounts)]
    _refuse_accounts(receiver, bad, reply(422))
    healthy: list[str] = []
    for account in bad:
        await stage.emit(account)
        if interleaved:
            healthy += await stage.emit(stage.two)
    await stage.emit(*bad[:2])
    healthy += await stage.emit(stage.one, stage.two, stage.one)
    async with stage.working(stage.change(webhook_time_scale=0.02)):
        await receiver.arrived(lambda: _has(receiver, healthy))
        await until_only_parked_wait(stage, hook)
    assert {row["account_id"] for row in await stage.parked(hook)} == {account.account_id for account in bad}
    receiver.rule = lambda _: OK
    await stage.deliver()
    assert in_order_per_account(receiver.events)
    assert len({event["event_id"] for event in receiver.events}) == (await stage.row(hook))["cursor_position"]


async def test_operations_8_a_receiver_that_refuses_everything_is_not_probed_again_and_again(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    accounts = [await open_third(stage) for _ in range(50)]
    receiver.rule = lambda _: reply(503)
    await stage.emit(*accounts)
    # A back-off of about two seconds after the fifth refusal, and four after the probes.
    async with stage.working(stage.change(webhook_time_scale=0.06)):
        await receiver.count(26)

        async def failed() -> bool:
            return bool((await stage.row(hook))["failures"] == 7)

        await stage.until(failed)
    assert 26 <= len(receiver.deliveries) <= 2 * 21 + 5
    assert await stage.parked(hook) == []


async def test_operations_9_parked_accounts_on_which_the_receiver_hangs_do_not_delay_the_others(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    bad = [await open_third(stage) for _ in range(5)]
    _refuse_accounts(receiver, bad, reply(422))
    await stage.emit(*bad, stage.one)
    async with stage.working():
        await until_only_parked_wait(stage, hook)
    assert len(await stage.parked(hook)) == 5
    _refuse_accounts(receiver, bad, hang)
    hanging = {account.account_id for account in bad}
    async with stage.working(stage.change(webhook_timeout_s=1.0)):
        for _ in range(3):
            await stage.fetch("UPDATE webhook_parked SET next_attempt_at = now()")
            seen = len(receiver.deliveries)
            await receiver.count(seen + 1)
            seen = len(receiver.deliveries)
            [event_id] = await stage.emit(stage.one)
            await receiver.arrived(lambda event_id=event_id: _has(receiver, [event_id]))  # type: ignore[misc]
            # The request that was in flight ends first; no other account's request is started.
            started = [delivery for delivery in receiver.deliveries[seen:] if delivery.account_ids & hanging]
            assert len(started) <= 1
