"""What receivers get once a person was erased."""

import httpx

from tests.apps.privacy.scene import EMAIL, NAME, Persons
from tests.channels.webhooks.stage import Stage, verify
from tests.support.api_client import ApiClient
from tests.support.receivers import Receiver, reply
from tests.support.world import World
from tonne.channels.webhooks.model import STATUS_TYPES


async def test_waiting_and_rewound_events_are_sent_without_the_person(
    stage: Stage, world: World, api: ApiClient, browser: httpx.AsyncClient, receiver: Receiver
) -> None:
    persons = Persons(stage.services, world, api, browser)
    hook = await stage.register(receiver.url, event_types=[*STATUS_TYPES, "order.person_erased", "allocation.new"])
    await persons.buys()
    receiver.next(reply(200, f"thanks, {EMAIL}".encode()))
    await stage.deliver()
    assert EMAIL.encode() in receiver.deliveries[0].body
    await persons.buys()
    made = await persons.erase()
    assert made.counts["webhook_answers"] == 1
    assert [attempt["answer"] for attempt in await stage.attempts(hook)] == ["erased"]

    # The second order was not delivered yet. Both are reported.
    await stage.deliver()
    types = [event["event_type"] for event in receiver.events]
    assert types[-2:] == ["order.person_erased"] * 2
    await api.post(f"/v1/webhooks/{hook.id}/rewind", {"sequence": "2000-01-01T00:00:00.000Z"})
    await stage.deliver()
    for delivery in receiver.deliveries[1:]:
        assert EMAIL.encode() not in delivery.body
        assert NAME.encode() not in delivery.body
        assert verify(delivery, hook.secret, world.ours_test.scope.organisation_id), "signed when it is sent"
    first = receiver.deliveries[0]
    assert "allocation.new" in {event["event_type"] for event in first.events}, "it has the order, too"
    again = receiver.deliveries[-1].event_ids
    assert again[: len(first.events)] == first.event_ids
