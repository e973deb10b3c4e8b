"""Section 2.1: what the fields of an order mean, and how they belong together."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import date_time, equal, expect
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver
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

BUNDLES_SET = "bundles: Set when status is `placed`, `paid`, `retiring` or `complete`."
PROJECTS_SET = "projects: Set when status is `retiring` or `complete`, as soon as project supply is guaranteed."
CERTIFICATE_SET = "certificate: Set when status is `complete`, regardless of the Sustainability page configuration."
NOT_ANONYMOUS = "certificate: Needs API authentication and is not accessible anonymously."
ONLY_LINKS = "email: Currently populated only on orders placed through offset links."
LINK_ID = "offset_link_id: Identifier of the offset link, if the order was placed through one."


@check("2.1", "id: Unique order identifier.")
def ids_are_unique(service: Service, receiver: Receiver) -> None:
    orders = [make(service, receiver).last for make in (completed, by_value, linked)]
    ids = [order.get("id") for order in orders]
    expect(len(set(ids)) == len(ids), "three different ids", ids)


@check("2.1", "idempotency_key: Account-unique, client-provided.")
def the_key_is_the_one_of_the_client(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).first
    equal(order.get("idempotency_key"), service.key("completed"), order)


@check("2.1", "offset_cost: May be lower than requested_value.")
def the_offset_cost_is_not_above_the_requested_value(service: Service, receiver: Receiver) -> None:
    order = by_value(service, receiver).last
    lower = Decimal(order["offset_cost"]) <= Decimal(order["requested_value"])
    expect(lower, f"at most {order['requested_value']}", order["offset_cost"], order)


@check("2.1", "offset_cost: Set when bundles are assigned. Unit: order currency.")
def the_offset_cost_is_set_with_the_bundles(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at("placed")
    expect(Decimal(str(order.get("offset_cost"))) > 0, "an offset_cost above 0", order.get("offset_cost"))


@check("2.1", "commission: The service's fee. Set when bundles are assigned. Unit: order currency.")
def the_commission_is_set_with_the_bundles(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at("placed")
    expect(Decimal(str(order.get("commission"))) >= 0, "a commission", order.get("commission"))


@check("2.1", "total_cost: Total cost including fees.")
def the_total_is_the_offset_cost_with_the_fee(service: Service, receiver: Receiver) -> None:
    for make in (completed, by_value, linked, client_order):
        order = make(service, receiver).last
        total = Decimal(order["offset_cost"]) + Decimal(order["commission"])
        expect(Decimal(order["total_cost"]) == total, f"the total cost {total}", order["total_cost"], order)


@check("2.1", "total_cost: Total cost including fees.")
def an_order_by_value_costs_at_most_that_value(service: Service, receiver: Receiver) -> None:
    order = by_value(service, receiver).last
    expect(Decimal(order["total_cost"]) <= Decimal("25.00"), "at most 25.00", order["total_cost"], order)


@check(
    "2.1", "amount_due: total_cost, billing_adjustment and tax, all null until billed; the adjustment is never above 0."
)
def what_is_due_is_the_total_with_adjustment_and_tax(service: Service, receiver: Receiver) -> None:
    for make in (completed, by_value, linked, client_order):
        order = make(service, receiver).last
        parts = [order.get(name) for name in ("billing_adjustment", "tax", "amount_due")]
        if parts == [None, None, None]:
            continue
        adjustment, tax, due = (Decimal(str(part)) for part in parts)
        expect(adjustment <= 0, "a billing_adjustment of 0 or less", parts[0], order)
        expect(
            due == Decimal(order["total_cost"]) + adjustment + tax, "total_cost + billing_adjustment + tax", due, order
        )


MASSES = {"kg": ("1500", "1.5"), "t": ("2.25", "2.25"), "g": ("1000001", "1.000001")}


@check_each("2.1", dict.fromkeys(MASSES, "quantity: Quantity of CO2 offsets purchased, in tonnes."))
def the_quantity_is_in_tonnes(name: str, service: Service) -> None:
    amount, tonnes = MASSES[name]
    order = service.place(f"tonnes-{name}", estimate_id=service.estimate(amount, name))
    expect(Decimal(order["quantity"]) == Decimal(tonnes), f"the quantity {tonnes}", order["quantity"], order)


@check_each("2.1", dict.fromkeys(MASSES, "requested_quantity: Requested offset quantity in tonnes."))
def the_requested_quantity_is_in_tonnes(name: str, service: Service) -> None:
    amount, tonnes = MASSES[name]
    order = service.place(f"requested-{name}", estimate_id=service.estimate(amount, name))
    requested = Decimal(str(order["requested_quantity"]))
    expect(requested == Decimal(tonnes), f"the requested_quantity {tonnes}", order["requested_quantity"], order)


@check("2.1", "currency: Order currency code.")
def the_currency_is_the_one_of_the_account(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    equal(order.get("currency"), account(service).get("currency"), order)


@check("2.1", "created_at: Creation timestamp.")
def the_creation_is_when_it_was_placed(service: Service) -> None:
    order = service.place("created-at")
    distance = abs(date_time(order.get("created_at"), order) - datetime.now(UTC))
    expect(distance < timedelta(minutes=5), "a time within five minutes of now", order.get("created_at"), order)


@check("2.1", "created_at: Creation timestamp.")
def the_creation_never_changes(service: Service, receiver: Receiver) -> None:
    journey = completed(service, receiver)
    equal(journey.last.get("created_at"), journey.first.get("created_at"), journey.last)


@check_each("2.1", dict.fromkeys(("placed", "paid", "retiring", "complete"), BUNDLES_SET))
def bundles_are_set(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at(name)
    expect(bool(order.get("bundles")), "at least one bundle", order.get("bundles"))


@check("2.1", "bundles: Holds each bundle with its quantity and cost breakdown.")
def the_quantities_of_the_bundles_add_up(service: Service, receiver: Receiver) -> None:
    for make in (completed, by_value, linked):
        order = make(service, receiver).last
        total = sum(Decimal(bundle["quantity"]) for bundle in order["bundles"])
        expect(Decimal(order["quantity"]) == total, f"the sum {total}", order["quantity"], order)


@check("2.1", "bundles: Holds each bundle with its quantity and cost breakdown.")
def the_costs_of_the_bundles_add_up(service: Service, receiver: Receiver) -> None:
    for make in (completed, by_value, linked):
        order = make(service, receiver).last
        total = sum(Decimal(bundle["offset_cost"]) for bundle in order["bundles"])
        expect(Decimal(order["offset_cost"]) == total, f"the sum {total}", order["offset_cost"], order)


@check_each("2.1", dict.fromkeys(("retiring", "complete"), PROJECTS_SET))
def projects_are_set(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at(name)
    expect(bool(order.get("projects")), "at least one project", order.get("projects"))


@check_each("2.1", dict.fromkeys(("placed", "paid"), PROJECTS_SET))
def projects_are_not_set_before(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at(name)
    expect(not order.get("projects"), "no projects", order.get("projects"))


@check("2.1", CERTIFICATE_SET)
def the_certificate_is_set_when_complete(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    expect(bool(order.get("certificate")), "a URL", order.get("certificate"), order)


@check_each("2.1", dict.fromkeys(("placed", "paid", "retiring"), CERTIFICATE_SET))
def the_certificate_is_not_set_before(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).order_at(name)
    equal(order.get("certificate"), None)


@check("2.1", CERTIFICATE_SET)
def an_account_without_a_page_has_a_certificate(service: Service, receiver: Receiver) -> None:
    order = client_order(service, receiver).last
    answer = service.get(str(order.get("certificate")), headers=service.acting_as(client_account(service)))
    expect(answer.content.startswith(b"%PDF-"), "a PDF file", answer.shown[:80], answer)


CREDENTIALS = {"no-key": None, "wrong-key": "Bearer not-a-key", "empty-key": "Bearer"}


@check_each("2.1", dict.fromkeys(CREDENTIALS, NOT_ANONYMOUS))
def the_certificate_is_refused_without_a_valid_key(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    service.send_without_key("GET", str(order.get("certificate")), CREDENTIALS[name]).refused()


@check("2.1", "metadata: Arbitrary key-value pairs stored and returned as given.")
def metadata_is_the_same_to_the_end(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    equal(order.get("metadata"), METADATA, order)


@check("2.1", "metadata: Arbitrary key-value pairs stored and returned as given.")
def metadata_is_the_same_in_events(service: Service, receiver: Receiver) -> None:
    for event in completed(service, receiver).events:
        equal(event["data"]["order"].get("metadata"), METADATA)


@check("2.1", LINK_ID)
def an_order_of_a_link_names_it(service: Service, receiver: Receiver) -> None:
    order = linked(service, receiver).last
    page = service.get("/orders", {"offset_link_id": str(order.get("offset_link_id"))}).object()
    equal([found.get("id") for found in page["data"]], [order.get("id")], page)


@check("2.1", LINK_ID)
def another_order_names_no_link(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    equal(order.get("offset_link_id"), None, order)


@check("2.1", ONLY_LINKS)
def an_order_of_a_link_has_the_address_of_the_customer(service: Service, receiver: Receiver) -> None:
    order = linked(service, receiver).last
    equal(order.get("email"), "conformance@example.com", order)


@check("2.1", ONLY_LINKS)
def another_order_has_no_address(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    equal(order.get("email"), None, order)


@check("2.1", "estimate_id: Present in responses for orders created by estimate.")
def an_order_by_estimate_names_it(service: Service) -> None:
    estimate_id = service.estimate()
    order = service.place("names-its-estimate", estimate_id=estimate_id)
    equal(order.get("estimate_id"), estimate_id, order)


@check("2.1", "requested_value: Requested offset value in the account's currency.")
def an_order_by_value_has_the_requested_value(service: Service, receiver: Receiver) -> None:
    order = by_value(service, receiver).last
    expect(Decimal(str(order["requested_value"])) == 25, "the requested value 25.00", order["requested_value"], order)


@check("2.1", "public_certificate_url: Works once … the order is `complete`.")
def an_order_that_is_not_complete_has_no_working_public_certificate(service: Service, receiver: Receiver) -> None:
    healthy(service, receiver)
    url = completed(service, receiver).order_at("placed").get("public_certificate_url")
    if url is not None:
        service.send_without_key("GET", str(url)).refused()
