"""Sections 6.3, 6.5 and 9: the fields of an event, and how receivers recognise duplicates."""

from collections.abc import Callable
from typing import Any

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import date_time, decimal_string, equal, expect, has, matches, one_of, text
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Event, Receiver, order_of
from tonne_conformance.scenes import cancelled, client_order, completed, failed, healthy, linked, refusing
from tonne_conformance.sections.orders import FIELDS as ORDER_FIELDS
from tonne_conformance.sections.states import TYPES

FIELDS = {
    "api_version": "api_version: string, `v1` in the samples",
    "event_id": "event_id: string, unique per event",
    "account_id": "account_id: string, account the event belongs to (present in the delivery sample)",
    "event_type": "event_type: string, one of 6.2",
    "sequence": "sequence: string, a timestamp in ISO 8601 form with milliseconds. Ordered lexicographically.",
    "data": "data: object containing `order`, an Order-shaped object (2.1)",
}
BY_ID = "Remember processed `event_id` values and ignore repeats."
BY_SEQUENCE = "Per account, ignore events whose `sequence` is lexicographically lower than one already handled."
MILLISECONDS = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}(Z|[+-]\d\d:?\d\d)"


def _events(service: Service, receiver: Receiver) -> list[Event]:
    """Those of a complete order, and of all others of the run so far."""
    completed(service, receiver)
    return healthy(service, receiver).events


RULES: dict[str, Callable[[Any], Any]] = {
    "api_version": text,
    "event_id": text,
    "account_id": text,
    "event_type": lambda value: one_of(value, tuple(TYPES)),
    "sequence": lambda value: matches(value, MILLISECONDS),
    "data": lambda value: expect(isinstance(value, dict), "an object", value),
}


@check_each("6.3", FIELDS)
def each_field_of_an_event_is_there(name: str, service: Service, receiver: Receiver) -> None:
    for event in _events(service, receiver):
        has(event, name)


@check_each("6.3", FIELDS)
def each_field_of_an_event_has_its_type(name: str, service: Service, receiver: Receiver) -> None:
    for event in _events(service, receiver):
        RULES[name](event.get(name))


@check("9", "Each event carries `api_version`, with the value `v1` in the samples.")
def the_version_of_every_event_is_v1(service: Service, receiver: Receiver) -> None:
    for event in _events(service, receiver):
        equal(event.get("api_version"), "v1")


@check("6.3", FIELDS["event_id"])
def the_id_of_every_event_is_unique(service: Service, receiver: Receiver) -> None:
    facts: dict[str, tuple[object, object]] = {}
    for event in _events(service, receiver):
        fact = (event.get("sequence"), order_of(event).get("id"))
        known = facts.setdefault(str(event.get("event_id")), fact)
        equal(list(fact), list(known))


@check("6.3", FIELDS["sequence"])
def the_sequence_is_a_time(service: Service, receiver: Receiver) -> None:
    for event in _events(service, receiver):
        date_time(event.get("sequence"))


@check("6.3", FIELDS["sequence"])
def later_events_of_an_order_have_a_greater_sequence(service: Service, receiver: Receiver) -> None:
    for make in (completed, cancelled, failed, linked, client_order):
        sequences = [str(event.get("sequence")) for event in make(service, receiver).events]
        expect(sequences == sorted(set(sequences)), "a rising sequence", sequences)


@check("6.3", FIELDS["data"])
def the_data_of_every_event_has_an_order(service: Service, receiver: Receiver) -> None:
    for event in _events(service, receiver):
        expect(bool(order_of(event).get("id")), "data with an order", event.get("data"))


NEVER_CHANGING = (
    "id",
    "idempotency_key",
    "type",
    "currency",
    "payment_method",
    "created_at",
    "metadata",
    "offset_link_id",
    "email",
    "estimate_id",
    "requested_value",
    "requested_quantity",
)


@check_each("6.3", {name: f"{FIELDS['data']}. {ORDER_FIELDS[name]}" for name in NEVER_CHANGING})
def each_field_of_the_order_in_an_event_is_the_one_of_the_order(
    name: str, service: Service, receiver: Receiver
) -> None:
    for make in (completed, linked, client_order):
        journey = make(service, receiver)
        for event in journey.events:
            equal(order_of(event).get(name), journey.last.get(name), journey.last)


@check_each("6.3", {name: f"{FIELDS['data']}. {ORDER_FIELDS[name]}" for name in ("offset_cost", "total_cost")})
def the_price_in_an_event_is_the_one_of_the_order(name: str, service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    for status in ("placed", "paid", "retiring", "complete"):
        decimal_string(journey.order_at(status).get(name))
        equal(journey.order_at(status).get(name), journey.last.get(name), journey.last)


@check("6.5", BY_ID)
def ignoring_known_ids_leaves_every_event_once(service: Service, receiver: Receiver) -> None:
    """Also for a receiver that handles an event and then fails to acknowledge it."""
    for inbox in refusing(service, receiver):
        handled: dict[str, Event] = {}
        for event in inbox.events:
            handled.setdefault(str(event.get("event_id")), event)
        moves = [(order_of(event).get("id"), event.get("event_type")) for event in handled.values()]
        expect(len(moves) == len(set(moves)), "every move once", len(moves) - len(set(moves)))


@check("6.5", BY_SEQUENCE)
def ignoring_lower_sequences_loses_no_event(service: Service, receiver: Receiver) -> None:
    """A receiver that follows this rule handles every event that it acknowledged."""
    for inbox in refusing(service, receiver):
        last: dict[str, str] = {}
        handled = set()
        events = inbox.acknowledged_events()
        for event in events:
            account, sequence = str(event.get("account_id")), str(event.get("sequence"))
            if sequence >= last.get(account, ""):
                last[account] = sequence
                handled.add(event.get("event_id"))
        lost = {event.get("event_id") for event in events} - handled
        expect(not lost, "no event lost", sorted(map(str, lost)))
