"""Section 2.1: every field of an order is there, and has its type and format."""

from collections.abc import Callable
from typing import Any

from tonne_conformance.checks import check_each
from tonne_conformance.expect import Source, date_time, decimal_string, equal, expect, has, one_of, text
from tonne_conformance.installation import Document, Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import by_value, cancelled, completed, failed, linked

Rule = Callable[[Any, Source], object]
STATUSES = ("received", "placed", "paid", "retiring", "cancelled", "complete", "failed")
REQUIRED = "Every field is documented as required."
# The row of each field in the table of the interface.
FIELDS = {
    "id": "id (string): Unique order identifier.",
    "idempotency_key": "idempotency_key (string): Account-unique, client-provided.",
    "type": "type (enum): `quantity` or `value`.",
    "status": "status (enum): `received`, `placed`, `paid`, `retiring`, `cancelled`, `complete`, `failed`.",
    "currency": "currency (string): Order currency code.",
    "offset_cost": "offset_cost (decimal string, pattern `^[0-9]+(\\.[0-9]+)?$`): Net offset cost being purchased.",
    "total_cost": "total_cost (decimal string, same pattern): Total cost including fees. Unit: order currency.",
    "commission": "commission (decimal string, same pattern): The service's fee.",
    "quantity": "quantity (decimal string, same pattern): Quantity of CO2 offsets purchased, in tonnes.",
    "payment_method": "payment_method (enum): `invoice` or `card`.",
    "created_at": "created_at (string, date-time): Creation timestamp.",
    "bundles": "bundles (array of bundle items): Holds each bundle with its quantity and cost breakdown.",
    "projects": "projects (array of project items): Set when status is `retiring` or `complete`.",
    "certificate": "certificate (string, URL): PDF certificate URL.",
    "public_certificate_url": "public_certificate_url (string, URL): Public certificate link.",
    "metadata": "metadata (object): Arbitrary key-value pairs stored and returned as given.",
    "offset_link_id": "offset_link_id (string): Identifier of the offset link, if the order was placed through one.",
    "email": "email (string): End-user e-mail. Currently populated only on orders placed through offset links.",
    "estimate_id": "estimate_id (string): Emission calculation identifier.",
    "requested_value": "requested_value: Requested offset value in the account's currency.",
    "requested_quantity": "requested_quantity (decimal string, pattern `^[0-9]+(\\.[0-9]+)?$`): "
    "Requested offset quantity in tonnes.",
}
DECIMALS = ("offset_cost", "total_cost", "commission", "quantity")


def _array_of_objects(value: Any, source: Source) -> None:
    good = isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)
    expect(good, "an array of objects that is not empty", value, source)


def _url(value: Any, source: Source) -> None:
    good = isinstance(value, str) and value.startswith(("http://", "https://"))
    expect(good, "an absolute URL", value, source)


def _currency(value: Any, source: Source) -> None:
    good = isinstance(value, str) and len(value) == 3 and value.isalpha() and value.isupper()
    expect(good, "a currency code of three letters", value, source)


def _object(value: Any, source: Source) -> None:
    expect(isinstance(value, dict), "an object", value, source)


RULES: dict[str, Rule] = {
    "id": text,
    "idempotency_key": text,
    "type": lambda value, source: one_of(value, ("quantity", "value"), source),
    "status": lambda value, source: one_of(value, STATUSES, source),
    "currency": _currency,
    **dict.fromkeys(DECIMALS, decimal_string),
    "payment_method": lambda value, source: one_of(value, ("invoice", "card"), source),
    "created_at": date_time,
    "bundles": _array_of_objects,
    "projects": _array_of_objects,
    "certificate": _url,
    "public_certificate_url": _url,
    "metadata": _object,
    "offset_link_id": text,
    "email": text,
    "estimate_id": text,
    "requested_value": text,
    "requested_quantity": decimal_string,
}


def _order_with(name: str, service: Service, receiver: Receiver) -> Document:
    """An order for which this field is set."""
    if name in {"offset_link_id", "email"}:
        return linked(service, receiver).last
    if name == "requested_value":
        return by_value(service, receiver).last
    return completed(service, receiver).last


@check_each("2.1", {name: f"{REQUIRED} {row}" for name, row in FIELDS.items()})
def each_field_is_in_the_response_to_placing(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).first
    has(order, name, order)


@check_each("2.1", {name: f"{REQUIRED} {row}" for name, row in FIELDS.items()})
def each_field_is_in_every_order_of_the_list(name: str, service: Service, receiver: Receiver) -> None:
    completed(service, receiver)
    page = service.shared("first_page", lambda: service.get("/orders", {"limit": "20"}).object())
    for order in page["data"]:
        has(order, name, page)


@check_each("2.1", {name: f"{REQUIRED} {row}" for name, row in FIELDS.items()})
def each_field_is_in_a_cancelled_order(name: str, service: Service, receiver: Receiver) -> None:
    order = cancelled(service, receiver).last
    has(order, name, order)


@check_each("2.1", FIELDS)
def each_field_has_its_type(name: str, service: Service, receiver: Receiver) -> None:
    order = _order_with(name, service, receiver)
    RULES[name](order.get(name), order)


@check_each("2.1", {name: FIELDS[name] for name in DECIMALS})
def each_amount_of_every_event_is_a_decimal_string(name: str, service: Service, receiver: Receiver) -> None:
    """Also those of orders that failed or were cancelled, which had a price before."""
    for make in (completed, cancelled, failed, by_value, linked):
        journey = make(service, receiver)
        for status in {str(event["data"]["order"]["status"]) for event in journey.events} - {"received"}:
            decimal_string(journey.order_at(status).get(name), journey.last)


UNSET = "Where a value is unset, … The webhook samples show JSON `null` for unset values."


@check_each("2.1", {"requested_value": UNSET, "offset_link_id": UNSET, "email": UNSET})
def an_unset_value_is_null_in_events(name: str, service: Service, receiver: Receiver) -> None:
    for event in completed(service, receiver).events:
        equal(event["data"]["order"].get(name), None)
