"""What the page of an order says about the delivery of its events."""

from datetime import timedelta

from tests.channels.webhooks.stage import Hook, Stage
from tests.support.receivers import Receiver, reply
from tests.support.world import TESTER
from tonne.channels.webhooks.register import rewind
from tonne.channels.webhooks.registration_store import find_webhook
from tonne.channels.webhooks.timeline import EventDelivery, EventDeliveryState, list_deliveries
from tonne.platform.values.context import utc_now


async def deliveries(stage: Stage, order_id: str) -> list[EventDelivery]:
    async with stage.database.connection() as connection:
        return await list_deliveries(connection, stage.one, order_id, created_at=utc_now() - timedelta(days=3650))


async def order_of(stage: Stage, event_id: str) -> str:
    return str(await stage.fetchval("SELECT subject_id FROM events WHERE id = $1", event_id))


async def rewind_to_the_start(stage: Stage, hook: Hook) -> None:
    async with stage.database.transaction() as tx:
        await rewind(tx, await find_webhook(tx, stage.one, hook.id), 0, by=TESTER.now())


async def test_an_event_counts_its_attempts_until_it_was_delivered(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    receiver.next(reply(500), reply(503))
    [event] = await stage.emit()
    await stage.deliver()
    order_id = await order_of(stage, event)
    [refused, _, accepted] = await stage.attempts(hook)
    [delivery] = await deliveries(stage, order_id)
    assert (delivery.state, delivery.attempts) == (EventDeliveryState.DELIVERED, 3)
    assert delivery.attempted_at == accepted["at"]

    # Sent again: the first delivery counts. If that fails, the event waits again.
    await rewind_to_the_start(stage, hook)
    [delivery] = await deliveries(stage, order_id)
    assert (delivery.state, delivery.attempts) == (EventDeliveryState.PENDING, 3)
    await stage.deliver()
    [delivery] = await deliveries(stage, order_id)
    assert (delivery.state, delivery.attempts) == (EventDeliveryState.DELIVERED, 3)
    assert refused["at"] < delivery.attempted_at == accepted["at"] < (await stage.attempts(hook))[-1]["at"]


async def test_an_event_that_is_refused_shows_the_last_attempt(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    receiver.rule = lambda _: reply(500)
    [event] = await stage.emit()
    async with stage.working():
        await receiver.count(2)
    [delivery] = await deliveries(stage, await order_of(stage, event))
    assert (delivery.state, delivery.failure) == (EventDeliveryState.FAILING, "status 500")
    attempts = await stage.attempts(hook)
    assert (delivery.attempts, delivery.attempted_at) == (len(attempts), attempts[-1]["at"])


async def test_an_event_whose_attempts_were_deleted_shows_none(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    [old] = await stage.emit()
    await stage.deliver()
    await stage.execute("DELETE FROM webhook_attempts WHERE webhook_id = $1", hook.id)
    await stage.execute("UPDATE events SET sequence = sequence - interval '40 days' WHERE id = $1", old)
    await stage.execute("UPDATE webhooks SET created_at = created_at - interval '50 days' WHERE id = $1", hook.id)
    await stage.emit()
    await stage.deliver()
    [delivery] = await deliveries(stage, await order_of(stage, old))
    assert (delivery.state, delivery.attempts, delivery.attempted_at) == (EventDeliveryState.DELIVERED, 0, None)


async def test_an_event_from_before_the_webhook_shows_when_it_was_delivered(stage: Stage, receiver: Receiver) -> None:
    [event] = await stage.emit()
    await stage.execute("UPDATE events SET sequence = sequence - interval '3 days' WHERE id = $1", event)
    hook = await stage.register(receiver.url)
    await rewind_to_the_start(stage, hook)
    await stage.execute("UPDATE webhook_scopes SET from_position = 0 WHERE webhook_id = $1", hook.id)
    await stage.deliver()
    [delivery] = await deliveries(stage, await order_of(stage, event))
    [attempt] = await stage.attempts(hook)
    assert (delivery.attempts, delivery.attempted_at) == (1, attempt["at"])
