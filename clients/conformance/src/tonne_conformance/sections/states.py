"""Sections 3 and 6.2: statuses, what is set in each, and the event of each."""

from collections.abc import Callable

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect, fail
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver, order_of
from tonne_conformance.scenes import (
    Journey,
    by_value,
    cancelled,
    client_order,
    completed,
    failed,
    healthy,
    linked,
)
from tonne_conformance.sections.orders import STATUSES

EMITS = "The service emits an event each time an order moves from one status to another (section 6)."
TYPES = {
    "order.received": "received",
    "order.placed": "placed",
    "order.paid": "paid",
    "order.retiring": "retiring",
    "order.cancelled": "cancelled",
    "order.failed": "failed",
    "order.completed": "complete",
}
JOURNEYS: dict[str, Callable[[Service, Receiver], Journey]] = {
    "by-estimate": completed,
    "by-value": by_value,
    "by-a-customer": linked,
    "by-a-client-account": client_order,
}
SET = {
    "placed": ("bundles", "placed, paid, retiring, complete: `bundles` is set."),
    "paid": ("bundles", "placed, paid, retiring, complete: `bundles` is set."),
    "retiring": ("projects", "retiring, complete: `projects` is set."),
    "complete": ("certificate", "complete: `certificate` is set."),
}


@check_each("3", {status: sentence for status, (_, sentence) in SET.items()})
def each_status_sets_its_field(name: str, service: Service, receiver: Receiver) -> None:
    for make in (completed, by_value, linked, client_order):
        order = make(service, receiver).order_at(name)
        field = SET[name][0]
        expect(bool(order.get(field)), f"{field} of an order that is {name}", order.get(field))


@check_each("3", dict.fromkeys(JOURNEYS, EMITS))
def each_move_of_a_complete_order_has_one_event(name: str, service: Service, receiver: Receiver) -> None:
    journey = JOURNEYS[name](service, receiver)
    statuses = [order_of(event).get("status") for event in journey.events]
    equal(statuses, ["received", "placed", "paid", "retiring", "complete"], journey.last)


@check("3", EMITS)
def each_move_of_a_cancelled_order_has_one_event(service: Service, receiver: Receiver) -> None:
    journey = cancelled(service, receiver)
    equal([order_of(event).get("status") for event in journey.events], ["received", "placed", "cancelled"])


@check("3", EMITS)
def each_move_of_a_failed_order_has_one_event(service: Service, receiver: Receiver) -> None:
    journey = failed(service, receiver)
    equal([order_of(event).get("status") for event in journey.events], ["received", "placed", "failed"])


@check("3", "Order statuses: `received`, `placed`, `paid`, `retiring`, `cancelled`, `complete`, `failed`.")
def no_order_has_another_status(service: Service, receiver: Receiver) -> None:
    completed(service, receiver)
    for event in healthy(service, receiver).events:
        status = order_of(event).get("status")
        expect(status in STATUSES, f"one of {STATUSES}", status)


@check("3", EMITS)
def the_last_state_is_the_one_of_the_last_event(service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    last = order_of(journey.events[-1])
    for name in ("status", "quantity", "total_cost", "projects", "bundles", "certificate"):
        equal(last.get(name), journey.last.get(name), journey.last)


@check("3", "order.paid: Cleared for fulfilment. `payment_state` says where the money is, which may arrive later.")
def paid_means_cleared_for_fulfilment(service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    order = order_of(journey.event("order.paid"))
    expect(order.get("payment_state") in {"unpaid", "paid"}, "unpaid or paid", order.get("payment_state"), journey.last)
    expect("hold_reason" not in order, "no hold_reason", order.get("hold_reason"), journey.last)
    statuses = [order_of(event).get("status") for event in journey.events]
    equal(statuses[statuses.index("paid") + 1 :][:1], ["retiring"], journey.last)


def _journey_with(event_type: str, service: Service, receiver: Receiver) -> Journey:
    match event_type:
        case "order.cancelled":
            return cancelled(service, receiver)
        case "order.failed":
            return failed(service, receiver)
        case _:
            return completed(service, receiver)


@check_each("6.2", {name: f"{name} matches the order status {status}." for name, status in TYPES.items()})
def each_event_type_matches_its_status(name: str, service: Service, receiver: Receiver) -> None:
    event = _journey_with(name, service, receiver).event(name)
    equal(order_of(event).get("status"), TYPES[name])


@check_each("6.2", {name: f"{name} matches the order status {status}." for name, status in TYPES.items()})
def each_status_has_its_event_type(name: str, service: Service, receiver: Receiver) -> None:
    journey = _journey_with(name, service, receiver)
    for event in journey.events:
        if order_of(event).get("status") == TYPES[name]:
            equal(event.get("event_type"), name)
            return
    fail(f"an event with the status {TYPES[name]}", [event.get("event_type") for event in journey.events])
