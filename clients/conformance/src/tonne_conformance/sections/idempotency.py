"""Sections 4.1, 4.3 and 8: idempotency keys."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import cancelled, client_account, completed, healthy
from tonne_conformance.sections.orders import FIELDS

REPLAY = (
    "Repeating a request with the same key returns the current state of the original order and does not place a "
    "second one."
)
RETRY = "Lets clients retry safely (the original order's current state is returned)."
RECONCILE = "Lets clients … reconcile orders with their own records."
UNIQUE = "Path parameter: `idempotency_key` (string, required). It is unique per account."
LIMIT = "idempotency_key: unique per account (Orders)."
# Characters that have a meaning in addresses.
KEYS = {
    "plain": "plain",
    "slash": "a/b",
    "question-mark": "a?b=c",
    "hash": "a#b",
    "percent": "100%",
    "percent-escape": "a%2Fb",
    "plus-and-space": "a+b c",
    "unicode": "Größe-世界",
    "quotes": "'a\"b",
    "upper-case": "UPPER",
}


def _count(service: Service, estimate_id: str) -> int:
    """The orders of this estimate, among the latest ones."""
    page = service.get("/orders", {"limit": "100"}).object()
    return sum(order.get("estimate_id") == estimate_id for order in page["data"])


@check("4.1", "Response: an Order object (2.1).")
def an_order_is_found_by_its_key(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    found = service.find(str(order["idempotency_key"])).object()
    equal(found.get("id"), order["id"], found)


@check_each("4.1", dict.fromkeys(FIELDS, "Response: an Order object (2.1)."))
def each_field_of_the_found_order_is_there(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    expect(name in order, f"the field {name}", sorted(order), order)


@check("4.1", UNIQUE)
def an_unknown_key_finds_nothing(service: Service) -> None:
    service.find(service.key("unknown")).refused()


@check_each("4.1", dict.fromkeys(KEYS, RECONCILE))
def each_kind_of_key_is_kept_and_found(name: str, service: Service) -> None:
    order = service.place(f"kinds-{KEYS[name]}")
    key = service.key(f"kinds-{KEYS[name]}")
    equal(order.get("idempotency_key"), key, order)
    found = service.find(key).object()
    equal(found.get("id"), order["id"], found)


@check("4.1", UNIQUE)
def the_same_key_of_another_account_is_another_order(service: Service) -> None:
    client = client_account(service)
    ours = service.place("two-accounts")
    theirs = service.place("two-accounts", account=client)
    expect(ours["id"] != theirs["id"], "two different orders", [ours["id"], theirs["id"]], theirs)
    found = service.find(service.key("two-accounts")).object()
    equal(found.get("id"), ours["id"], found)


@check("8", LIMIT)
def a_key_finds_the_order_of_its_own_account(service: Service) -> None:
    client = client_account(service)
    service.place("own-account")
    theirs = service.place("own-account", account=client)
    found = service.find(service.key("own-account"), client).object()
    equal(found.get("id"), theirs["id"], found)


@check("4.3", REPLAY)
def a_repeated_request_returns_the_same_order(service: Service) -> None:
    estimate_id = service.estimate()
    first = service.place("repeated", estimate_id=estimate_id)
    again = service.place("repeated", estimate_id=estimate_id)
    equal(again.get("id"), first["id"], again)


@check("4.3", REPLAY)
def a_repeated_request_places_no_second_order(service: Service) -> None:
    estimate_id = service.estimate()
    for _ in range(3):
        service.place("no-second", estimate_id=estimate_id)
    equal(_count(service, estimate_id), 1)


@check("4.3", REPLAY)
def a_repeated_request_with_another_amount_places_no_second_order(service: Service) -> None:
    first = service.place("another-amount", estimate_id=service.estimate("1500"))
    other = service.estimate("9000")
    body = {"estimate_id": other, "idempotency_key": service.key("another-amount")}
    again = service.post("/orders/by-estimate", body)
    if again.ok:
        equal(again.object().get("id"), first["id"], again)
    equal(_count(service, other), 0, again)


@check("2.1", f"idempotency_key: {RETRY}")
def a_retry_returns_the_current_state_of_a_complete_order(service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    again = service.place("completed", estimate_id=str(journey.last["estimate_id"]))
    equal([again.get("id"), again.get("status")], [journey.last["id"], "complete"], again)


@check("2.1", f"idempotency_key: {RETRY}")
def a_retry_returns_the_current_state_of_a_cancelled_order(service: Service, receiver: Receiver) -> None:
    journey = cancelled(service, receiver)
    order = journey.last
    body = {"estimate_id": order["estimate_id"], "idempotency_key": order["idempotency_key"]}
    again = service.post("/orders/by-estimate", body, headers=service.acting_as(journey.account)).object()
    equal([again.get("id"), again.get("status")], [order["id"], "cancelled"], again)


@check("2.1", f"idempotency_key: {RETRY}")
def a_retry_charges_nothing(service: Service, receiver: Receiver) -> None:
    """A second charge would move the order again, which its events would show."""
    inbox = healthy(service, receiver)
    estimate_id = service.estimate()
    order = service.place("charged-once", estimate_id=estimate_id)
    for _ in range(3):
        service.place("charged-once", estimate_id=estimate_id)
    service.wait_for(str(order["idempotency_key"]), "complete")
    service.place("charged-once", estimate_id=estimate_id)
    inbox.wait_for_event(str(order["id"]), "order.completed")
    paid = [event for event in inbox.events_of(str(order["id"])) if event.get("event_type") == "order.paid"]
    equal(len(paid), 1)


@check("2.1", "idempotency_key: Account-unique, client-provided.")
def ten_requests_at_once_place_one_order(service: Service) -> None:
    estimate_id = service.estimate()

    def place(_: int) -> Any:
        return service.place("at-once", estimate_id=estimate_id)["id"]

    with ThreadPoolExecutor(10) as threads:
        ids = set(threads.map(place, range(10)))
    equal(len(ids), 1)
    equal(_count(service, estimate_id), 1)


@check("4.3", "idempotency_key (string): not required.")
def orders_without_a_key_are_two_orders(service: Service) -> None:
    body = {"estimate_id": service.estimate()}
    first, again = (service.post("/orders/by-estimate", body).object() for _ in range(2))
    expect(first["id"] != again["id"], "two different orders", [first["id"], again["id"]], again)


@check("4.3", "idempotency_key (string): not required.")
def a_key_that_is_no_string_is_refused(service: Service) -> None:
    service.post("/orders/by-estimate", {"estimate_id": service.estimate(), "idempotency_key": 17}).refused()
