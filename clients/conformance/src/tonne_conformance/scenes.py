"""What many checks look at: orders that were placed once, with all their events, and receivers that misbehave."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from tonne_conformance.checkout import create_checkout, create_link, pay, temporary_id_after
from tonne_conformance.checks import Skip
from tonne_conformance.expect import Failed, fail
from tonne_conformance.installation import POLL_S, WITHIN_S, Answer, Document, Service
from tonne_conformance.receiver import Delivery, Event, Inbox, Receiver, Reply, is_acknowledged, order_of

Parameters = ParamSpec("Parameters")
Scene = TypeVar("Scene")
METADATA = {"invoice": "A-17", "nested": {"list": [1, 2.5, True, None], "text": "Grüße, 世界 🌍"}}
# How often a step is tried that races the worker, which charges the card of an order at once.
ATTEMPTS = 25
# Responses that acknowledge nothing, and the name of each in the checks.
REFUSALS = {
    "300": Reply(300),
    "301": Reply(301, headers=(("Location", "https://127.0.0.1:1/elsewhere"),)),
    "302": Reply(302, headers=(("Location", "https://127.0.0.1:1/elsewhere"),)),
    "304": Reply(304),
    "400": Reply(400),
    "401": Reply(401),
    "404": Reply(404),
    "409": Reply(409),
    "410": Reply(410),
    "429": Reply(429),
    "500": Reply(500),
    "503": Reply(503),
    "closed-connection": Reply(close=True),
}
REFUSING_RECEIVERS = 3
SUCCESSES = (200, 201, 202, 203, 204, 206, 226, 299)


@dataclass(frozen=True)
class Journey:
    """An order from its placing to its end."""

    # The response to the request that placed it; the first reading if a customer placed it.
    first: Document
    # As the API returned it at the end.
    last: Document
    # As they arrived at the healthy receiver.
    events: list[Event]
    # The client account that it belongs to. None: the account of the key.
    account: str | None = None

    def event(self, event_type: str) -> Event:
        found = [event for event in self.events if event.get("event_type") == event_type]
        if not found:
            fail(f"an event {event_type}", [event.get("event_type") for event in self.events], self.last)
        return found[0]

    def order_at(self, status: str) -> dict[str, Any]:
        """The order in the event that reported this status."""
        found = [order_of(event) for event in self.events if order_of(event).get("status") == status]
        if not found:
            fail(f"an event whose order is {status}", [event.get("event_type") for event in self.events], self.last)
        return found[0]


def scene(make: Callable[Parameters, Scene]) -> Callable[Parameters, Scene]:
    """Made once for each service, whose first parameter it is."""

    @wraps(make)
    def once(*given: Parameters.args, **named: Parameters.kwargs) -> Scene:
        service = given[0]
        assert isinstance(service, Service)  # noqa: S101 - for the type checker
        return service.shared(make.__qualname__, lambda: make(*given, **named))

    return once


def register(service: Service, receiver: Receiver, name: str) -> Inbox:
    """An inbox whose address is registered as a webhook."""
    inbox = receiver.inbox(name)
    inbox.secret = str(service.register({"url": inbox.url}).object().get("secret"))
    return inbox


@scene
def registration(service: Service, receiver: Receiver) -> Answer:
    """The response to the registration of the healthy receiver."""
    return service.register({"url": receiver.inbox("healthy").url})


@scene
def healthy(service: Service, receiver: Receiver) -> Inbox:
    """A receiver that acknowledges everything."""
    inbox = receiver.inbox("healthy")
    inbox.secret = str(registration(service, receiver).object().get("secret"))
    return inbox


@scene
def second(service: Service, receiver: Receiver) -> Inbox:
    """Another receiver that acknowledges everything, with a secret of its own."""
    return register(service, receiver, "second")


@scene
def account(service: Service) -> Document:
    """The account of the key."""
    return service.get("/accounts/me").object()


@scene
def client_account(service: Service) -> str:
    """A client account of the suite's own, the same in every run."""
    body = {
        "name": "Conformance client",
        "currency": account(service).get("currency"),
        "idempotency_key": "tonne-conformance",
    }
    return str(service.post("/accounts/client", body).object()["id"])


@scene
def completed(service: Service, receiver: Receiver) -> Journey:
    """An order by estimate that completed."""
    inbox = healthy(service, receiver)
    first = service.place("completed", metadata=METADATA)
    return _end(service, inbox, first, "complete")


@scene
def cancelled(service: Service, receiver: Receiver) -> Journey:
    """An order of the client account, whose invoice is settled so late that it can be cancelled before."""
    inbox = healthy(service, receiver)
    client = client_account(service)
    for attempt in range(ATTEMPTS):
        first = service.place(f"cancelled-{attempt}", account=client)
        if service.post(f"/orders/{first['id']}/cancel", headers=service.acting_as(client)).ok:
            return _end(service, inbox, first, "cancelled", client)
    raise Skip("Every order was paid before it could be cancelled.")


@scene
def failed(service: Service, receiver: Receiver) -> Journey:
    """An order whose card was declined until there were no retries left."""
    inbox = healthy(service, receiver)
    for attempt in range(ATTEMPTS):
        first = service.place(f"failed-{attempt}")
        for _ in range(10):
            answer = service.post(f"/test-helpers/orders/{first['id']}/decline")
            if answer.status == 404 or "invoice" in answer.shown:
                raise Skip("The card of an order cannot be declined here: the account pays by invoice.")
            if not answer.ok:
                break
            if answer.object().get("status") == "failed":
                return _end(service, inbox, first, "failed")
    raise Skip("Every order was paid before its card could be declined.")


@scene
def by_value(service: Service, receiver: Receiver) -> Journey:
    """An order that was placed by monetary value."""
    inbox = healthy(service, receiver)
    body = {"value": "25.00", "idempotency_key": service.key("by-value")}
    first = service.post("/orders/by-value", body).object()
    return _end(service, inbox, first, "complete")


@scene
def client_order(service: Service, receiver: Receiver) -> Journey:
    """An order of a client account, paid by invoice. Test mode settles it; the helper only makes that faster."""
    inbox = healthy(service, receiver)
    client = client_account(service)
    first = service.place("client", account=client)
    service.post(f"/test-helpers/orders/{first['id']}/settle-invoice", headers=service.acting_as(client))
    return _end(service, inbox, first, "complete", client)


@scene
def linked(service: Service, receiver: Receiver) -> Journey:
    """An order of a customer who paid on the page of an offset link."""
    inbox = healthy(service, receiver)
    link = create_link(service)
    checkout = create_checkout(service, str(link["id"]), metadata=METADATA, external_id=service.key("linked"))
    pay(str(checkout["url"]))
    first = orders_of_link(service, str(link["id"]), 1)[0]
    return _end(service, inbox, first, "complete")


def orders_of_link(service: Service, link_id: str, count: int) -> list[Document]:
    deadline = time.monotonic() + WITHIN_S
    while True:
        page = service.get("/orders", {"offset_link_id": link_id, "limit": "100"}).object()
        if len(page.get("data") or ()) >= count:
            return [_found_in(page, order) for order in page["data"]]
        if time.monotonic() > deadline:
            fail(f"{count} orders of the offset link {link_id}", page, page)
        time.sleep(POLL_S)


def _found_in(page: Document, order: dict[str, Any]) -> Document:
    found = Document(order)
    found.request_id = page.request_id
    return found


@dataclass(frozen=True)
class Payment:
    temporary_id: str
    checkout: Document


@scene
def payment(service: Service) -> Payment:
    """A payment of a customer whom the page leads back to a shop, with the temporary id."""
    link = create_link(service)
    checkout = create_checkout(service, str(link["id"]), redirect_url=service.redirect_url)
    pay(str(checkout["url"]))
    return Payment(temporary_id_after(str(checkout["url"])), checkout)


def _end(service: Service, inbox: Inbox, first: Document, status: str, account: str | None = None) -> Journey:
    """The journey of an order that ends in this status."""
    last = service.wait_for(str(first["idempotency_key"]), status, account=account)
    order_id = str(first["id"])
    inbox.wait_for_event(order_id, "order.completed" if status == "complete" else f"order.{status}")
    return Journey(first, last, inbox.events_of(order_id), account)


class Alternating:
    """Refuses a request, accepts the next one, refuses again, until every refusal was used."""

    def __init__(self, refusals: dict[str, Reply]) -> None:
        self._waiting = dict(refusals)
        self._refused = False

    def __call__(self, delivery: Delivery) -> Reply:
        if self._refused or not self._waiting or not delivery.events:
            self._refused = False
            return Reply()
        self._refused = True
        return self._waiting.pop(next(iter(self._waiting)))

    @property
    def is_done(self) -> bool:
        return not self._waiting and not self._refused


@scene
def refusing(service: Service, receiver: Receiver) -> list[Inbox]:
    """Receivers that refuse every second request, each time in another way. Each got all events in the end."""
    names = list(REFUSALS)
    inboxes = []
    for number in range(REFUSING_RECEIVERS):
        rule = Alternating({name: REFUSALS[name] for name in names[number::REFUSING_RECEIVERS]})
        receiver.inbox(f"refusing-{number}").rule = rule
        inboxes.append((register(service, receiver, f"refusing-{number}"), rule))
    order = _orders_until(service, "refusing", lambda: all(rule.is_done for _, rule in inboxes))
    for inbox, _ in inboxes:
        inbox.wait_for_event(str(order["id"]), "order.completed")
    return [inbox for inbox, _ in inboxes]


def refused_with(service: Service, receiver: Receiver, name: str) -> tuple[Inbox, int]:
    """The inbox that gave this reply, and the number of the delivery that got it."""
    for inbox in refusing(service, receiver):
        for number, delivery in enumerate(inbox.deliveries):
            if delivery.reply == REFUSALS[name] and not is_acknowledged(delivery):
                return inbox, number
    raise Failed(f"a delivery that was refused with {name}", "none")


@scene
def accepting(service: Service, receiver: Receiver) -> Inbox:
    """A receiver that uses every 2xx status in turn."""
    waiting = list(SUCCESSES)
    lock = threading.Lock()

    def rule(_: Delivery) -> Reply:
        with lock:
            return Reply(waiting.pop(0)) if waiting else Reply()

    receiver.inbox("accepting").rule = rule
    inbox = register(service, receiver, "accepting")
    order = _orders_until(service, "accepting", lambda: not waiting)
    inbox.wait_for_event(str(order["id"]), "order.completed")
    return inbox


def _orders_until(service: Service, name: str, condition: Callable[[], bool]) -> Document:
    """Place orders until the condition holds, and one more, whose events come after everything else."""
    deadline = time.monotonic() + WITHIN_S
    number = 0
    while not condition():
        if time.monotonic() > deadline:
            fail("deliveries to a receiver that refuses some of them", f"too few after {number} orders")
        service.place(f"{name}-{number}")
        number += 1
        time.sleep(0.5)
    return service.wait_for(str(service.place(f"{name}-last")["idempotency_key"]), "complete")
