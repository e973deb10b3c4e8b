"""Sections 4.6, 6.1 and 7: requests to the receiver, and what its responses mean."""

import json

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect, fail
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Delivery, Receiver, is_acknowledged, order_of
from tonne_conformance.scenes import (
    REFUSALS,
    SUCCESSES,
    accepting,
    cancelled,
    completed,
    failed,
    healthy,
    linked,
    refused_with,
    second,
)

HEADER = (
    "Method POST to the client's HTTPS URL, with header `Content-Type: application/json` and the signature header of "
    "section 5."
)
BODY = "Body: `events`, a required array of WebhookEvent objects (section 6)."
ANY_2XX = "Expected response: any 2xx status within 30 seconds, which acknowledges the events."
REDELIVERED = (
    "Webhook receiver returns a non-2xx status or times out (30 s): Events stay unacknowledged and are redelivered."
)
AT_LEAST_ONCE = "At-least-once: Events are redelivered until a 2xx response. Duplicates are possible."
BATCH = "Each request to the receiver carries a batch of events in `events`."


def _deliveries(service: Service, receiver: Receiver) -> list[Delivery]:
    """Every request of the run so far, at least those of a complete order."""
    completed(service, receiver)
    return receiver.all_deliveries


@check("4.6", HEADER)
def every_request_is_a_post(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        equal(delivery.method, "POST", delivery)


@check("4.6", HEADER)
def every_request_says_that_it_is_json(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        equal(delivery.header("Content-Type"), "application/json", delivery)


@check("4.6", HEADER)
def every_request_has_the_signature_header(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        name = f"{service.brand}-HMAC"
        expect(delivery.header(name) is not None, f"the header {name}", dict(delivery.headers), delivery)


@check("4.6", HEADER)
def every_request_goes_to_the_registered_path(service: Service, receiver: Receiver) -> None:
    inbox = healthy(service, receiver)
    completed(service, receiver)
    for delivery in inbox.deliveries:
        expect(inbox.url.endswith(delivery.path), f"a path of {inbox.url}", delivery.path, delivery)


@check("4.6", BODY)
def every_body_is_a_json_object(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        expect(isinstance(delivery.document, dict), "a JSON object", delivery.body.decode(errors="replace"), delivery)


@check("4.6", BODY)
def every_body_has_an_array_of_events(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        events = delivery.document.get("events")
        good = isinstance(events, list) and all(isinstance(event, dict) for event in events)
        expect(good, "an array of objects", events, delivery)


@check("6.1", BATCH)
def every_request_carries_at_least_one_event(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        expect(len(delivery.events) > 0, "at least one event", delivery.document, delivery)


@check("6.1", "An event is emitted every time an order moves from one status to another.")
def every_event_is_about_another_move(service: Service, receiver: Receiver) -> None:
    inbox = healthy(service, receiver)
    for make in (completed, cancelled, failed, linked):
        make(service, receiver)
    moves = [(order_of(event).get("id"), event.get("event_type")) for event in inbox.new_events]
    doubled = {move for move in moves if moves.count(move) > 1}
    expect(not doubled, "one event for each status of each order", sorted(map(str, doubled)))


@check("6.1", "Receivers process the event types they need and ignore the rest.")
def every_receiver_gets_all_events(service: Service, receiver: Receiver) -> None:
    inbox = second(service, receiver)
    order = service.wait_for(str(service.place("two-receivers")["idempotency_key"]), "complete")
    for each in (inbox, healthy(service, receiver)):
        each.wait_for_event(str(order["id"]), "order.completed")
        types = [event.get("event_type") for event in each.events_of(str(order["id"]))]
        equal(types, ["order.received", "order.placed", "order.paid", "order.retiring", "order.completed"])


@check_each("4.6", {str(status): f"{ANY_2XX} ({status})" for status in SUCCESSES})
def each_2xx_acknowledges_the_events(name: str, service: Service, receiver: Receiver) -> None:
    """The scene waited for a later event, so that a redelivery would have come before it."""
    deliveries = accepting(service, receiver).deliveries
    for number, delivery in enumerate(deliveries):
        if delivery.reply.status == int(name):
            later = {event_id for each in deliveries[number + 1 :] for event_id in each.event_ids}
            again = later & set(delivery.event_ids)
            expect(not again, "no redelivery of acknowledged events", sorted(again), delivery)
            if int(name) != 200:
                return
    if int(name) != 200:
        fail(f"a delivery that was answered with {name}", len(deliveries))


@check_each("7", {name: f"{REDELIVERED} ({name})" for name in REFUSALS})
def each_other_response_leads_to_a_redelivery(name: str, service: Service, receiver: Receiver) -> None:
    inbox, number = refused_with(service, receiver, name)
    refused, later = inbox.deliveries[number], inbox.deliveries[number + 1 :]
    missing = set(refused.event_ids) - {event_id for each in later for event_id in each.event_ids}
    expect(not missing, "all events again", sorted(missing), refused)


@check_each("6.4", {name: f"{AT_LEAST_ONCE} ({name})" for name in REFUSALS})
def each_refused_event_is_acknowledged_in_the_end(name: str, service: Service, receiver: Receiver) -> None:
    inbox, number = refused_with(service, receiver, name)
    refused = inbox.deliveries[number]
    accepted = {str(event.get("event_id")) for event in inbox.acknowledged_events()}
    missing = set(refused.event_ids) - accepted
    expect(not missing, "all events acknowledged", sorted(missing), refused)


@check("6.4", AT_LEAST_ONCE)
def a_redelivered_event_is_the_same(service: Service, receiver: Receiver) -> None:
    for name in REFUSALS:
        inbox, number = refused_with(service, receiver, name)
        for event in inbox.deliveries[number].events:
            for each in inbox.deliveries[number + 1 :]:
                for again in each.events:
                    if again.get("event_id") == event.get("event_id"):
                        equal(json.dumps(again, sort_keys=True), json.dumps(event, sort_keys=True), each)


@check("6.4", AT_LEAST_ONCE)
def nothing_is_lost_by_a_receiver_that_refuses(service: Service, receiver: Receiver) -> None:
    inbox, _ = refused_with(service, receiver, "500")
    seen = {event_id for delivery in inbox.deliveries for event_id in delivery.event_ids}
    accepted = {event_id for each in inbox.deliveries if is_acknowledged(each) for event_id in each.event_ids}
    newest = {event_id for delivery in inbox.deliveries[-3:] for event_id in delivery.event_ids}
    missing = seen - accepted - newest
    expect(not missing, "every event acknowledged", sorted(missing))
