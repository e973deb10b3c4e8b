"""Section 1: what the service does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tonne_conformance.checks import Skip, check, check_each
from tonne_conformance.expect import equal, expect, one_of
from tonne_conformance.installation import Answer, Service
from tonne_conformance.receiver import Receiver, order_of
from tonne_conformance.scenes import (
    METADATA,
    account,
    by_value,
    client_account,
    client_order,
    completed,
    healthy,
    linked,
)

BY_QUANTITY_OR_VALUE = "An order is placed either by quantity or by monetary value (field `type`)."
PAID_BY = "An order is paid either by card or by invoice (field `payment_method`)."
PROJECTS_LATER = "Projects are attached to the order later, once supply is guaranteed."
METADATA_FREE = "Clients may attach free-form metadata to an order."
METADATA_UNUSED = "Clients may attach free-form metadata to an order. The service does not use it for processing."
PUBLIC_URL = (
    "A public certificate URL works only if the account's public Sustainability page is enabled and configured to "
    "include the certificate section."
)


@check("1", BY_QUANTITY_OR_VALUE)
def an_order_by_estimate_is_by_quantity(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    equal(order.get("type"), "quantity", order)


@check("1", BY_QUANTITY_OR_VALUE)
def an_order_by_value_is_by_value(service: Service, receiver: Receiver) -> None:
    order = by_value(service, receiver).last
    equal(order.get("type"), "value", order)


@check("1", "An order is placed against bundles of offset projects.")
def a_placed_order_has_bundles(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at("placed")
    expect(bool(order.get("bundles")), "at least one bundle", order.get("bundles"))


@check("1", PROJECTS_LATER)
def a_placed_order_has_no_projects_yet(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at("placed")
    expect(not order.get("projects"), "no projects yet", order.get("projects"))


@check("1", PROJECTS_LATER)
def a_complete_order_has_projects(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    expect(bool(order.get("projects")), "at least one project", order.get("projects"), order)


@check("1", PAID_BY)
def the_payment_method_is_one_of_two(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    one_of(order.get("payment_method"), ("card", "invoice"), order)


@check("1", "With `card`, the service attempts to charge the card.")
def an_order_by_card_is_charged_without_another_request(service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    if journey.first.get("payment_method") != "card":
        raise Skip("The account of the test key does not pay by card.")
    paid = journey.event("order.paid")
    equal(order_of(paid).get("payment_method"), "card")


@check("1", PAID_BY)
def an_order_by_invoice_is_paid(service: Service, receiver: Receiver) -> None:
    journey = client_order(service, receiver)
    if journey.first.get("payment_method") != "invoice":
        raise Skip("The client account does not pay by invoice.")
    equal(order_of(journey.event("order.paid")).get("payment_method"), "invoice")


@check("1", "When an order completes, a certificate is available.")
def the_certificate_of_a_complete_order_is_a_pdf(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    answer = service.get(str(order.get("certificate")))
    expect(answer.ok and answer.content.startswith(b"%PDF-"), "a PDF file", answer.shown[:80], answer)


@check("1", "Its PDF URL needs API authentication.")
def the_certificate_needs_a_key(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    service.send_without_key("GET", str(order.get("certificate"))).refused()


VISIBLE = {"enabled": True, "sections": ["bundles_breakdown", "certificates"]}


@contextmanager
def _page(service: Service) -> Iterator[Callable[..., None]]:
    """Sets the Sustainability page of the client account. It is disabled afterwards."""
    client = service.acting_as(client_account(service))
    before = service.get("/sustainability-page", headers=client)
    slug = f"conformance-{service.run_id}"
    if before.ok and before.object().get("slug"):
        slug = str(before.object()["slug"])
    base = {"slug": slug, "title": "Conformance", "description": ""}

    def change(**settings: object) -> None:
        service.put("/sustainability-page", base | settings, headers=client).object()

    try:
        yield change
    finally:
        change(**VISIBLE | {"enabled": False})


def _public(service: Service, receiver: Receiver) -> Answer:
    """The public certificate, as anybody sees it."""
    order = client_order(service, receiver).last
    url = order.get("public_certificate_url")
    expect(isinstance(url, str), "a public_certificate_url", url, order)
    return service.send_without_key("GET", str(url))


def _public_answers(service: Service, receiver: Receiver) -> dict[str, Answer]:
    def make() -> dict[str, Answer]:
        with _page(service) as change:
            answers = {}
            change(**VISIBLE)
            answers["enabled-with-the-section"] = _public(service, receiver)
            change(**VISIBLE | {"sections": ["bundles_breakdown"]})
            answers["enabled-without-the-section"] = _public(service, receiver)
            change(**VISIBLE | {"enabled": False})
            answers["disabled"] = _public(service, receiver)
        return answers

    return service.shared("public_answers", make)


@check("1", PUBLIC_URL)
def the_public_certificate_works_if_the_page_includes_it(service: Service, receiver: Receiver) -> None:
    answer = _public_answers(service, receiver)["enabled-with-the-section"]
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check_each("1", {"enabled-without-the-section": PUBLIC_URL, "disabled": PUBLIC_URL})
def the_public_certificate_does_not_work_otherwise(name: str, service: Service, receiver: Receiver) -> None:
    answer = _public_answers(service, receiver)[name]
    expect(answer.status == 404, "HTTP 404", answer.shown, answer)


METADATA_SAMPLES: dict[str, object] = {
    "empty": {},
    "strings": {"a": "", "b": " spaced ", "c": "line\nbreak"},
    "numbers": {"int": 12345678901234567, "float": 0.1, "negative": -3, "zero": 0},
    "booleans-and-null": {"yes": True, "no": False, "nothing": None},
    "nested": METADATA,
    "unicode": {"ключ": "значение", "emoji": "🌳", "combining": "e\u0301"},
    "keys-that-orders-have": {"status": "complete", "id": "x", "quantity": "9", "type": "value", "email": "a@b.cd"},
    "keys-that-shops-use": {"external_id": "A-1", "reference": "B-2", "order_id": "C-3", "order_number": "D-4"},
}


@check_each("1", dict.fromkeys(METADATA_SAMPLES, METADATA_FREE))
def each_kind_of_metadata_is_returned_as_given(name: str, service: Service) -> None:
    order = service.place(f"metadata-{name}", metadata=METADATA_SAMPLES[name])
    equal(order.get("metadata"), METADATA_SAMPLES[name], order)
    found = service.find(str(order["idempotency_key"])).object()
    equal(found.get("metadata"), METADATA_SAMPLES[name], found)


@check_each("1", dict.fromkeys(("keys-that-orders-have", "keys-that-shops-use"), METADATA_UNUSED))
def metadata_changes_nothing_else_in_the_order(name: str, service: Service) -> None:
    estimate_id = service.estimate()
    plain = service.place(f"without-{name}", estimate_id=estimate_id)
    order = service.place(f"with-{name}", estimate_id=estimate_id, metadata=METADATA_SAMPLES[name])
    for field in ("type", "currency", "quantity", "offset_cost", "total_cost", "commission", "payment_method", "email"):
        equal(order.get(field), plain.get(field), order)


@check("1", "The service notifies clients of order status changes by signed webhook requests.")
def the_completion_of_an_order_is_notified(service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    equal(order_of(journey.event("order.completed")).get("id"), journey.last.get("id"), journey.last)


@check("1", "Accounts, Client Accounts and an organisation exist.")
def an_order_of_a_client_account_is_its_own(service: Service, receiver: Receiver) -> None:
    order = client_order(service, receiver).last
    answer = service.find(str(order["idempotency_key"]))
    expect(answer.status == 404, "no such order of the account itself", answer.shown, answer)


@check("1", "Events belong to an account.")
def an_event_names_the_account_of_its_order(service: Service, receiver: Receiver) -> None:
    for event in completed(service, receiver).events:
        equal(event.get("account_id"), account(service).get("id"))


@check("1", "Events belong to an account.")
def an_event_of_a_client_account_names_the_client_account(service: Service, receiver: Receiver) -> None:
    healthy(service, receiver)
    for event in client_order(service, receiver).events:
        equal(event.get("account_id"), client_account(service))


@check("1", METADATA_FREE)
def metadata_of_a_checkout_is_returned_as_given(service: Service, receiver: Receiver) -> None:
    order = linked(service, receiver).last
    equal(order.get("metadata"), METADATA, order)


@check("1", METADATA_UNUSED)
def the_external_id_of_a_checkout_is_a_field_of_its_own(service: Service, receiver: Receiver) -> None:
    order = linked(service, receiver).last
    came = [order.get("external_id"), order.get("external_id_verified"), order.get("metadata")]
    equal(came, [service.key("linked"), True, METADATA], order)
