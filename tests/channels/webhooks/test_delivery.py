"""What arrives at a receiver: events, batches, signatures and retries."""

import itertools
import json
import time
from dataclasses import replace

import pytest

from tests.channels.webhooks.stage import Hook, Stage, in_order_per_account, verify
from tests.support.events import stored_events
from tests.support.orders import place
from tests.support.receivers import OK, Receiver, receiving, reply
from tests.support.tls import Authority
from tests.support.world import World
from tonne.channels.webhooks.delivery.schedule import MAX_BATCH, MAX_BATCH_BYTES
from tonne.platform.values.context import utc_now


async def test_events_arrive_in_order_in_one_request_with_the_bytes_of_the_log(
    stage: Stage, receiver: Receiver
) -> None:
    await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two, stage.one, document='{"b":1.10,"a":[ ],"é":"\\u00e9"}')
    await stage.deliver()
    [delivery] = receiver.deliveries
    assert delivery.request_line == "POST /hook HTTP/1.1"
    assert delivery.headers["content-type"] == "application/json"
    assert delivery.headers["user-agent"].startswith("Tonne/")
    assert delivery.event_ids == ids
    async with stage.database.connection() as connection:
        payloads = [event.payload for event in await stored_events(connection)]
    assert delivery.body == b'{"events":[' + b",".join(payloads) + b"]}"


async def test_each_event_contains_the_order_as_it_was_at_that_time(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    order = await place(stage.services, stage.one, utc_now())
    await stage.deliver()
    received, placed = receiver.events
    assert [event["event_type"] for event in (received, placed)] == ["order.received", "order.placed"]
    assert [event["data"]["order"]["status"] for event in (received, placed)] == ["received", "placed"]
    assert {event["data"]["order"]["id"] for event in (received, placed)} == {order.id}
    assert set(received) == {"api_version", "event_id", "account_id", "event_type", "sequence", "data"}
    assert received["sequence"] < placed["sequence"]


async def test_every_attempt_is_signed_anew_over_the_same_bytes(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    await stage.emit(document='{"name":"Zürich 🌍"}')
    receiver.next(reply(500), reply(503), OK)
    # A clock that advances a minute per reading: one reading per attempt.
    minutes = itertools.count(1)
    worker = stage.worker(wall_clock=lambda: 1_700_000_000.9 + 60 * next(minutes))
    await stage.idle()
    await worker.stop()
    assert len(receiver.deliveries) == 3
    assert len({delivery.body for delivery in receiver.deliveries}) == 1
    assert "Zürich 🌍".encode() in receiver.deliveries[0].body
    for n, delivery in enumerate(receiver.deliveries, start=1):
        header = delivery.headers["service-hmac"]
        assert header.startswith(f"timestamp={1_700_000_000 + 60 * n},organisation={stage.one.organisation_id},v1=")
        signature = header.rpartition("v1=")[2]
        assert len(signature) == 64
        assert set(signature) <= set("0123456789abcdef")
        assert verify(delivery, hook.secret, stage.one.organisation_id)
        assert not verify(delivery, hook.secret + "x", stage.one.organisation_id)
        assert not verify(replace(delivery, body=delivery.body + b" "), hook.secret, stage.one.organisation_id)


async def test_the_timestamp_is_the_time_of_signing(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    await stage.emit()
    before = int(time.time())
    await stage.deliver()
    timestamp = int(receiver.deliveries[0].headers["service-hmac"].split(",")[0].removeprefix("timestamp="))
    assert before <= timestamp <= time.time()


async def test_the_header_carries_the_brand(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    await stage.emit()
    await stage.deliver(stage.change(brand="Acme"))
    [delivery] = receiver.deliveries
    assert "service-hmac" not in delivery.headers
    renamed = replace(delivery, head=delivery.head.replace(b"Acme-HMAC", b"Service-HMAC"))
    assert verify(renamed, hook.secret, stage.one.organisation_id)


async def test_a_batch_has_at_most_a_hundred_events(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    ids = await stage.emit_many(stage.one, ["{}"] * (2 * MAX_BATCH + 1))
    await stage.deliver()
    assert [len(delivery.events) for delivery in receiver.deliveries] == [MAX_BATCH, MAX_BATCH, 1]
    assert [event["event_id"] for event in receiver.events] == ids


async def test_a_batch_stays_within_512_kib_counted_in_bytes(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    # Two bytes per character: counting characters would allow twice as much.
    ids = await stage.emit_many(stage.one, ['"' + "é" * 40_000 + '"'] * 13)
    await stage.deliver()
    assert [len(delivery.events) for delivery in receiver.deliveries] == [6, 6, 1]
    assert all(len(delivery.body) <= MAX_BATCH_BYTES for delivery in receiver.deliveries)
    assert [event["event_id"] for event in receiver.events] == ids


async def test_a_full_batch_with_its_wrapping_is_not_larger_than_512_kib(stage: Stage, receiver: Receiver) -> None:
    """Commas and the enclosing object count too."""
    await stage.register(receiver.url)
    [first] = await stage.emit_many(stage.one, ['""'])
    async with stage.database.connection() as connection:
        [event] = await stored_events(connection)
    assert event.id == first
    filling = '"' + "x" * (MAX_BATCH_BYTES // 4 - len(event.payload)) + '"'
    await stage.emit_many(stage.one, [filling] * 8)
    await stage.deliver()
    assert max(len(delivery.body) for delivery in receiver.deliveries) <= MAX_BATCH_BYTES


async def test_an_event_larger_than_a_batch_is_sent_alone(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    ids = await stage.emit_many(stage.one, ["1", '"' + "x" * (MAX_BATCH_BYTES + 1) + '"', "2"])
    await stage.deliver()
    assert [delivery.event_ids for delivery in receiver.deliveries] == [[ids[0]], [ids[1]], [ids[2]]]


async def test_only_the_accounts_of_the_filter_are_delivered(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url, stage.two)
    await stage.emit(stage.one, stage.one)
    requested = await stage.emit(stage.two)
    await stage.emit(stage.one)
    requested += await stage.emit(stage.two)
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == requested
    assert (await stage.row(hook))["cursor_position"] == 5


async def test_many_events_out_of_scope_are_passed_over_without_a_request(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url, stage.two)
    await stage.emit_many(stage.one, ["{}"] * 2500)
    requested = await stage.emit(stage.two)
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == requested
    assert len(await stage.attempts(hook)) == 1


async def test_other_modes_and_organisations_have_streams_of_their_own(
    stage: Stage, world: World, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as live, receiving(authority.context()) as theirs:
        await stage.register(receiver.url)
        await stage.register(live.url, scope=world.ours_live.scope)
        await stage.register(theirs.url, scope=world.theirs_test.scope)
        ids = await stage.emit(stage.one, world.ours_live.scope, world.theirs_test.scope)
        await stage.deliver()
        assert [[e["event_id"] for e in each.events] for each in (receiver, live, theirs)] == [[i] for i in ids]
        header = theirs.deliveries[0].headers["service-hmac"]
        assert f"organisation={world.theirs_test.scope.organisation_id}," in header


async def test_every_webhook_of_an_organisation_gets_every_event(
    stage: Stage, receiver: Receiver, authority: Authority
) -> None:
    async with receiving(authority.context()) as second:
        await stage.register(receiver.url)
        await stage.register(second.url)
        ids = await stage.emit(stage.one, stage.two)
        second.next(reply(500))
        await stage.deliver()
        assert [event["event_id"] for event in receiver.events] == ids
        # Each webhook has its own cursor: only the receiver that refused gets the events again.
        assert [delivery.event_ids for delivery in second.deliveries] == [ids, ids[:1], ids[1:]]


async def test_a_new_webhook_starts_with_the_events_after_its_registration(stage: Stage, receiver: Receiver) -> None:
    await stage.emit(stage.one, stage.two)
    await stage.register(receiver.url)
    ids = await stage.emit(stage.one)
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == ids


@pytest.mark.parametrize("answers", [[500], [500, 503, 404], [301], [500] * 8])
async def test_events_are_redelivered_with_equal_bytes_until_a_2xx(
    stage: Stage, receiver: Receiver, answers: list[int]
) -> None:
    hook = await stage.register(receiver.url)
    [event_id] = await stage.emit()
    receiver.next(*[reply(status, b"why not") for status in answers])
    await stage.deliver()
    assert [delivery.event_ids for delivery in receiver.deliveries] == [[event_id]] * (len(answers) + 1)
    assert len({delivery.body for delivery in receiver.deliveries}) == 1
    attempts = await stage.attempts(hook)
    assert [attempt["status"] for attempt in attempts] == [*answers, 200]
    assert [attempt["acknowledged"] for attempt in attempts] == [False] * len(answers) + [True]
    assert [attempt["answer"] for attempt in attempts] == ["why not"] * len(answers) + ["thank you"]


async def test_batches_shrink_to_one_on_failure_and_double_with_every_success(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    ids = await stage.emit_many(stage.one, ["{}"] * 130)
    receiver.next(reply(500))
    await stage.deliver()
    assert [len(delivery.events) for delivery in receiver.deliveries] == [100, 1, 2, 4, 8, 16, 32, 64, 3]
    assert [event["event_id"] for delivery in receiver.deliveries[1:] for event in delivery.events] == ids


async def test_a_failure_on_the_way_up_starts_again_at_one(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    await stage.emit_many(stage.one, ["{}"] * 12)
    receiver.next(reply(500), OK, OK, reply(500), reply(500))
    await stage.deliver()
    assert [len(delivery.events) for delivery in receiver.deliveries] == [12, 1, 2, 4, 1, 1, 2, 4, 2]
    assert in_order_per_account(receiver.events)


async def test_a_backlog_longer_than_one_claim_arrives_complete_and_in_order(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    ids = await stage.emit_many(stage.one, ["{}"] * 1250)
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == ids
    assert len(receiver.deliveries) == 13
    assert len({delivery.connection for delivery in receiver.deliveries}) == 1


async def test_a_response_with_bytes_that_postgresql_rejects_is_recorded(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    await stage.emit()
    receiver.next(reply(500, b"\x00\xff" + b"x" * 50_000))
    await stage.deliver()
    refused = (await stage.attempts(hook))[0]
    assert refused["answer"] == "\ufffd\ufffd" + "x" * 2046


async def test_an_address_that_is_no_longer_allowed_is_not_connected_to(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    await stage.emit()
    async with stage.working(stage.change(webhook_allow_private="")):
        await stage.until(lambda: _failed(stage, hook))
    assert (await stage.attempts(hook))[0]["error"] == "address_refused"
    # The first request arrives only once the address is allowed again.
    await stage.deliver()
    assert len(receiver.deliveries) == 1


async def _failed(stage: Stage, hook: Hook) -> bool:
    return bool((await stage.row(hook))["failures"] > 0)


async def test_all_receivers_get_equal_events(stage: Stage, receiver: Receiver, authority: Authority) -> None:
    async with receiving(authority.context()) as narrow:
        await stage.register(receiver.url)
        await stage.register(narrow.url, stage.two)
        for _ in range(3):
            await stage.emit(stage.one, stage.two)
        await stage.deliver()
        by_id = {event["event_id"]: json.dumps(event) for event in receiver.events}
        assert len(by_id) == 6
        assert {event["event_id"]: json.dumps(event) for event in narrow.events}.items() <= by_id.items()
