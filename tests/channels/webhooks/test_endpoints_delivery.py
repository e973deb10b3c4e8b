"""Deliveries over HTTP: test event, attempts, rewind, skip and delivery state."""

import json
from typing import Any

import msgspec

from tests.channels.webhooks.stage import Stage, verify
from tests.channels.webhooks.test_endpoints import MOMENT, put, register
from tests.support.api_client import ApiClient, codes, fields
from tests.support.processes import free_port
from tests.support.receivers import OK, Receiver, cut, reply
from tests.support.world import World
from tonne.selling.orders.schemas import OrderOut


async def test_a_test_event_is_marked_signed_and_sent_and_its_response_returned(
    api: ApiClient, stage: Stage, world: World, receiver: Receiver
) -> None:
    webhook = await register(api, receiver.url)
    receiver.next(reply(202, b"seen"))
    answer = await api.post(f"/v1/webhooks/{webhook['id']}/test", {})
    assert answer.status_code == 200
    result = answer.json()
    assert list(result) == ["event_id", "acknowledged", "status", "error", "duration_ms", "answer"]
    assert (result["acknowledged"], result["status"], result["error"], result["answer"]) == (True, 202, None, "seen")
    [delivery] = receiver.deliveries
    [event] = delivery.events
    assert verify(delivery, webhook["secret"], world.ours_test.scope.organisation_id)
    assert set(event) == {"api_version", "event_id", "account_id", "event_type", "sequence", "data"}
    assert (event["event_type"], event["event_id"]) == ("webhook.test", result["event_id"])
    assert MOMENT.fullmatch(event["sequence"])
    sample = msgspec.json.decode(json.dumps(event["data"]["order"]), type=OrderOut)
    assert (await api.get(f"/v1/orders/{sample.id}")).status_code == 404
    # It is not stored.
    assert await stage.fetch("SELECT FROM events") == []
    assert (await api.get(f"/v1/events/{result['event_id']}")).status_code == 404


async def test_a_test_event_is_signed_with_both_secrets_during_an_overlap(
    api: ApiClient, world: World, receiver: Receiver
) -> None:
    webhook = await register(api, receiver.url)
    path = f"/v1/webhooks/{webhook['id']}"
    fresh = (await api.post(f"{path}/rotate-secret", {"overlap_s": 60})).json()["secret"]
    await api.post(f"{path}/test", {})
    for secret in (webhook["secret"], fresh):
        assert verify(receiver.deliveries[0], secret, world.ours_test.scope.organisation_id)


async def test_a_test_event_reports_the_failure_of_the_receiver(api: ApiClient, receiver: Receiver) -> None:
    webhook = await register(api, receiver.url)
    path = f"/v1/webhooks/{webhook['id']}"
    receiver.next(reply(500, b"broken"), cut())
    refused = (await api.post(f"{path}/test", {})).json()
    assert (refused["acknowledged"], refused["status"], refused["answer"]) == (False, 500, "broken")
    lost = (await api.post(f"{path}/test", {})).json()
    assert (lost["acknowledged"], lost["status"], lost["error"]) == (False, None, "connection_lost")
    await put(api, webhook["id"], {"url": f"https://127.0.0.1:{free_port()}/"})
    assert (await api.post(f"{path}/test", {})).json()["error"] == "connection_refused"


async def test_attempts_are_listed_newest_first_with_events_and_response(
    api: ApiClient, stage: Stage, receiver: Receiver
) -> None:
    webhook = await register(api, receiver.url)
    receiver.next(reply(500, "böse".encode()), cut(), OK)
    ids = await stage.emit(stage.one, stage.two)
    await stage.deliver()
    page = (await api.get(f"/v1/webhooks/{webhook['id']}/attempts")).json()
    assert (page["has_more"], page["next_cursor"]) == (False, None)
    attempts = page["data"]
    assert [list(attempt) for attempt in attempts] == [
        ["id", "at", "event_ids", "acknowledged", "status", "error", "duration_ms", "answer"]
    ] * 4
    shown = [(a["event_ids"], a["acknowledged"], a["status"], a["error"], a["answer"]) for a in reversed(attempts)]
    assert shown == [
        (ids, False, 500, "status_refused", "böse"),
        (ids[:1], False, None, "connection_lost", ""),
        (ids[:1], True, 200, None, "thank you"),
        (ids[1:], True, 200, None, "thank you"),
    ]
    assert all(MOMENT.fullmatch(attempt["at"]) and attempt["duration_ms"] >= 0 for attempt in attempts)


async def test_attempts_are_paged_without_gaps_while_new_ones_arrive(
    api: ApiClient, stage: Stage, receiver: Receiver
) -> None:
    webhook = await register(api, receiver.url)
    receiver.next(*[reply(500)] * 6)
    await stage.emit()
    await stage.deliver()
    path = f"/v1/webhooks/{webhook['id']}/attempts"
    everything = [attempt["id"] for attempt in (await api.get(f"{path}?limit=100")).json()["data"]]
    assert len(everything) == 7
    seen: list[str] = []
    after = ""
    while True:
        page = (await api.get(f"{path}?limit=3{after}")).json()
        seen += [attempt["id"] for attempt in page["data"]]
        await stage.emit()
        await stage.deliver()
        if not page["has_more"]:
            break
        after = f"&after={page['next_cursor']}"
    assert seen == everything
    assert codes(await api.get(f"{path}?limit=101")) == ["pagination_limit_invalid"]
    assert codes(await api.get(f"{path}?after=%00")) in (["pagination_cursor_invalid"], ["validation_error"])
    other = await register(api, receiver.url)
    strange = await api.get(f"/v1/webhooks/{other['id']}/attempts?after={after.removeprefix('&after=')}")
    assert codes(strange) == ["pagination_cursor_invalid"]


REWINDS: list[tuple[Any, str, str | None]] = [
    ({}, "webhook_rewind_invalid", None),
    ({"sequence": "2026-11-15T10:00:00.000Z", "event_id": "evt_1"}, "webhook_rewind_invalid", None),
    ({"event_id": "evt_unknown"}, "webhook_rewind_invalid", "event_id"),
    ({"sequence": "yesterday"}, "event_sequence_invalid", "sequence"),
    ({"sequence": "2026-11-15T10:00:00+01:00"}, "event_sequence_invalid", "sequence"),
    ({"sequence": "2026-13-15T10:00:00.000Z"}, "event_sequence_invalid", "sequence"),
    ({"sequence": "2026-11-15 10:00:00.000Z"}, "event_sequence_invalid", "sequence"),
    ({"sequence": 5}, "validation_error", "sequence"),
    ({"position": 5}, "validation_error", "position"),
]


async def test_an_invalid_rewind_is_refused(api: ApiClient) -> None:
    webhook = await register(api)
    for body, code, field in REWINDS:
        answer = await api.post(f"/v1/webhooks/{webhook['id']}/rewind", body)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), body


async def test_a_rewind_to_an_event_of_another_tenant_is_refused_as_unknown(
    api: ApiClient, stage: Stage, world: World
) -> None:
    webhook = await register(api)
    foreign = await stage.emit(world.theirs_test.scope, world.ours_live.scope)
    answers = [
        await api.post(f"/v1/webhooks/{webhook['id']}/rewind", {"event_id": event_id})
        for event_id in (*foreign, "evt_unknown")
    ]
    assert {answer.status_code for answer in answers} == {400}
    assert len({json.dumps(answer.json()["error"]) for answer in answers}) == 1


async def test_an_event_that_is_not_parked_cannot_be_skipped(api: ApiClient, stage: Stage) -> None:
    webhook = await register(api)
    [event_id] = await stage.emit()
    answer = await api.post(f"/v1/webhooks/{webhook['id']}/skip", {"event_id": event_id})
    assert (answer.status_code, codes(answer), fields(answer)) == (409, ["event_not_parked"], ["event_id"])
    assert codes(await api.post(f"/v1/webhooks/{webhook['id']}/skip", {})) == ["validation_error"]


async def test_the_delivery_state_shows_why_an_event_has_not_arrived(
    api: ApiClient, stage: Stage, receiver: Receiver
) -> None:
    webhook = await register(api, receiver.url)
    path = f"/v1/webhooks/{webhook['id']}"
    await stage.emit(stage.one, stage.two)
    waiting = (await api.get(path)).json()["delivery"]
    assert (waiting["state"], waiting["waiting_events"], waiting["failures"]) == ("delivering", 2, 0)
    assert MOMENT.fullmatch(waiting["oldest_waiting_at"])
    assert MOMENT.fullmatch(waiting["next_attempt_at"])
    receiver.rule = lambda _: reply(503)
    async with stage.working(stage.change(webhook_time_scale=1)):

        async def failed() -> bool:
            return bool((await api.get(path)).json()["delivery"]["failures"])

        await stage.until(failed)
    failing = (await api.get(path)).json()["delivery"]
    assert (failing["state"], failing["waiting_events"]) == ("failing", 2)
    assert failing["failures"] >= 1
    assert failing["next_attempt_at"] > failing["failing_since"]
    receiver.rule = lambda _: OK
    await stage.deliver()
    assert (await api.get(path)).json()["delivery"] == {
        "state": "idle",
        "waiting_events": 0,
        "oldest_waiting_at": None,
        "failures": 0,
        "failing_since": None,
        "next_attempt_at": None,
        "parked": [],
    }


async def test_an_event_read_over_http_has_the_bytes_that_were_delivered(
    api: ApiClient, receiver: Receiver, stage: Stage
) -> None:
    await register(api, receiver.url)
    await api.order(metadata={"b": 1, "a": "Zürich 🌍"})
    await stage.deliver()
    [delivery] = receiver.deliveries
    read = [(await api.get(f"/v1/events/{event_id}")).content for event_id in delivery.event_ids]
    assert delivery.body == b'{"events":[' + b",".join(read) + b"]}"
    listed = (await api.get("/v1/events?order=asc")).content
    assert listed == b'{"has_more":false,"next_cursor":null,"data":[' + b",".join(read) + b"]}"
