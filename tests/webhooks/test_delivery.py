"""What arrives at a receiver: which events, in which batches, signed how, and what counts as taken."""

from tests.webhooks.receiver import Receiver
from tests.webhooks.stage import Stage, verify


async def test_events_arrive_in_order_in_one_signed_request(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one)
    await stage.deliver()
    [delivery] = receiver.deliveries
    assert delivery.event_ids == ids
    assert delivery.request_line == "POST /hook HTTP/1.1"
    assert verify(delivery, hook.secret, stage.one.organisation_id)
