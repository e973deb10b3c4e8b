"""Webhooks and events in the dashboard."""

import re
from collections.abc import Callable

import pytest

from tests.channels.webhooks.parking import refuse, until_parked
from tests.channels.webhooks.stage import Stage
from tests.support.people import Person, add_user
from tests.support.receivers import Receiver, reply
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.users.model import Role

MakePerson = Callable[[], Person]
SECRET = re.compile(r"whsec_[A-Za-z0-9+/=_-]{20,}")


@pytest.fixture
def base(world: World) -> str:
    return f"/dashboard/test/{world.ours_test.scope.organisation_id}"


@pytest.fixture
async def developer(services: Services, world: World, person: MakePerson) -> Person:
    await add_user(services, "dev@ours.test", world.ours_test.scope.organisation_id, Role.DEVELOPER)
    dev = person()
    await dev.sign_in("dev@ours.test")
    return dev


async def page(person: Person, path: str) -> str:
    answer = await person.get(path)
    assert answer.status_code == 200, (path, answer.status_code)
    return " ".join(answer.text.split())


async def actions(stage: Stage) -> list[str]:
    rows = await stage.fetch(
        "SELECT action FROM audit_log WHERE action LIKE 'webhook%' AND actor LIKE 'user:%' ORDER BY id"
    )
    return [row["action"] for row in rows]


async def test_a_webhook_is_added_tested_changed_and_deleted(
    developer: Person, stage: Stage, receiver: Receiver, base: str
) -> None:
    empty = await page(developer, f"{base}/webhooks")
    assert "No webhook yet" in empty
    # The boxes are folded away, and what is ticked is what the hint says.
    ticked = len(re.findall(r'name="event_type_[^>]* checked', empty))
    boxes = len(re.findall(r'name="event_type_', empty))
    assert f"<summary>Events: {ticked} of {boxes} chosen</summary>" in empty
    assert f"Without a choice, the {ticked} events that report the status of an order." in empty
    refused = await developer.submit(f"{base}/webhooks", url="http://example.com", account_ids="acc_1")
    assert refused.status_code == 422
    assert "The url cannot be used" in refused.text
    assert 'value="acc_1"' in refused.text
    foreign = await developer.submit(f"{base}/webhooks", url=receiver.url, account_ids="acc_1")
    assert foreign.status_code == 422
    assert "There is no such account" in foreign.text
    added = await developer.submit(f"{base}/webhooks", url=receiver.url)
    assert added.status_code == 200
    [secret] = set(SECRET.findall(added.text))
    [row] = await stage.fetch("SELECT id FROM webhooks")
    one = f"{base}/webhooks/{row['id']}"
    shown = await page(developer, one)
    assert secret not in shown
    assert "All events are delivered" in shown
    assert "Healthy" in shown
    receiver.next(reply(500, b"<b>broken</b>"), reply(204, b""))
    result = (await developer.submit(f"{one}/test")).headers["location"]
    for _ in range(3):
        failed = await page(developer, result)
        assert "The test event was not accepted" in failed
        assert "&lt;b&gt;broken&lt;/b&gt;" in failed
    assert len(receiver.deliveries) == 1, "reloading the result sends nothing"
    assert "test event was" not in await page(developer, f"{one}?tested=made-up")
    assert "accepted with status 204" in await page(
        developer, (await developer.submit(f"{one}/test")).headers["location"]
    )
    assert (await developer.submit(f"{one}/state")).headers["location"] == f"{one}?done=webhook_disabled"
    assert "Deliveries are off" in await page(developer, one)
    await developer.submit(f"{one}/state", enabled="1")
    await developer.submit(one, url=receiver.url, account_ids=stage.one.account_id)
    assert stage.one.account_id in await page(developer, one)
    assert (await developer.submit(f"{one}/rotate", overlap="9")).status_code == 422
    rotated = await developer.submit(f"{one}/rotate", overlap="24")
    [fresh] = set(SECRET.findall(rotated.text))
    assert fresh != secret
    assert "The old secret signs as well for 1 day" in rotated.text
    assert (await developer.submit(f"{one}/rotate", overlap="1")).status_code == 200
    refused = await developer.submit(f"{one}/rotate", overlap="1")
    assert refused.status_code == 422
    assert "one of the older ones was promised to sign until" in refused.text
    assert "This cannot be undone" in await page(developer, f"{one}/delete")
    await developer.submit(f"{one}/delete")
    assert (await developer.get(one)).status_code == 404
    assert "No webhook yet" in await page(developer, f"{base}/webhooks?done=webhook_deleted")
    changed = ["webhook.changed"] * 3
    expected = ["webhook.registered", *changed, *["webhook.secret_rotated"] * 2, "webhook.deleted"]
    assert await actions(stage) == expected


async def test_a_broken_receiver_is_explained_and_its_events_are_sent_again(
    developer: Person, stage: Stage, receiver: Receiver, base: str
) -> None:
    hook = await stage.register(receiver.url)
    one = f"{base}/webhooks/{hook.id}"
    receiver.rule = lambda _: reply(500, b"no database")
    [event_id] = await stage.emit()
    async with stage.working():
        await receiver.count(2)
        shown = await page(developer, one)
        assert "Failing" in shown
        assert "1 event waits; none is lost" in shown
        assert "Retry now" in shown
        receiver.rule = lambda _: reply(200, b"thanks")
        assert (await developer.submit(f"{one}/retry")).headers["location"] == f"{one}?done=webhook_retried"
        await stage.idle()
    attempts = await stage.attempts(hook)
    failed = await page(developer, f"{one}/attempts/{attempts[0]['id']}")
    assert "no database" in failed
    assert "a status that is not 2xx" in failed
    assert event_id in failed
    assert "Not accepted" not in await page(developer, f"{one}/attempts/{attempts[-1]['id']}")
    event = await page(developer, f"{base}/events/{event_id}")
    assert re.search(
        r'/webhooks/[^"]+">[^<]*</a></td> <td[^>]*><div class="cell"><span><span class="badge ">Delivered<', event
    )
    assert "&#34;status&#34;: &#34;received&#34;" in event
    assert event_id in await page(developer, f"{base}/events?type=order.received&account={stage.one.account_id}")
    assert "No event matches" in await page(developer, f"{base}/events?type=order.paid")
    found = await developer.get(f"{base}/events?event=%20{event_id}")
    assert found.headers["location"] == f"{base}/events/{event_id}"
    for fields in ({}, {"event_id": event_id, "day": "2026-11-15"}, {"day": "soon"}, {"event_id": "evt_1"}):
        assert (await developer.submit(f"{one}/rewind", **fields)).status_code == 422, fields
    assert event_id in await page(developer, f"{one}?event_id={event_id}")
    before = len(receiver.deliveries)
    assert (await developer.submit(f"{one}/rewind", event_id=event_id)).status_code == 303
    async with stage.working():
        await receiver.count(before + 1)
        await stage.idle()
    assert await actions(stage) == ["webhook.rewound"]


async def test_a_refused_event_is_skipped_after_a_confirmation(
    developer: Person, stage: Stage, receiver: Receiver, base: str
) -> None:
    hook = await stage.register(receiver.url)
    one = f"{base}/webhooks/{hook.id}"
    poison, _ = await stage.emit(stage.one, stage.two)
    refuse(receiver, poison)
    async with stage.working():
        await until_parked(stage, hook, stage.one)
        shown = await page(developer, one)
        assert "Refused events" in shown
        assert "Refuses events" in await page(developer, f"{base}/webhooks")
        assert "never delivers it" in await page(developer, f"{one}/skip?event_id={poison}")
        assert (await developer.get(f"{one}/skip?event_id=evt_1")).status_code == 404
        assert (await developer.submit(f"{one}/skip", event_id="evt_1")).status_code == 422
        assert (await developer.submit(f"{one}/skip", event_id=poison)).status_code == 303
        await stage.idle()
    assert ">Skipped<" in await page(developer, f"{base}/events/{poison}")
    assert await actions(stage) == ["webhook.event_skipped"]


async def test_lists_are_paged_and_other_roles_only_look(
    world: World, person: MakePerson, stage: Stage, receiver: Receiver, base: str
) -> None:
    hook = await stage.register(receiver.url)
    one = f"{base}/webhooks/{hook.id}"
    await stage.emit_many(stage.one, ["{}"] * 61)
    await stage.fetch(_ATTEMPTS, hook.id)
    await add_user(stage.services, "reader@ours.test", world.ours_test.scope.organisation_id, Role.FINANCE)
    reader = person()
    await reader.sign_in("reader@ours.test")
    shown, pages = await page(reader, one), 1
    assert "Send a test event" not in shown
    assert "Delete the webhook" not in shown
    while link := re.search(r'href="([^"]+)">Older attempts', shown):
        shown, pages = await page(reader, link[1]), pages + 1
    assert pages == 3
    shown, events = await page(reader, f"{base}/events"), set[str]()
    events.update(re.findall(r"/events/(evt_\w+)", shown))
    while link := re.search(r'href="([^"]+)">Older events', shown):
        shown = await page(reader, link[1].replace("&amp;", "&"))
        events.update(re.findall(r"/events/(evt_\w+)", shown))
    assert len(events) == 61
    assert (await reader.submit(f"{one}/state")).status_code == 403
    # Nothing of test mode shows in live mode.
    live = base.replace("/test/", "/live/")
    assert (await reader.get(f"{live}/webhooks/{hook.id}")).status_code == 404
    assert (await reader.get(f"{live}/events/{events.pop()}")).status_code == 404
    assert "No event yet" in await page(reader, f"{live}/events")
    assert "No webhook yet" in await page(reader, f"{live}/webhooks")


# Acknowledged attempts at the events of the stream.
_ATTEMPTS = """
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, acknowledged, duration_ms)
SELECT organisation_id, id, 'att_' || number, now() - number * interval '1 s', ARRAY[number], 200, true, 1
FROM webhooks CROSS JOIN generate_series(1, 51) AS number WHERE id = $1
"""
