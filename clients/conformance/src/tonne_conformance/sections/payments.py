"""Sections 2.4, 4.4 and 7: payments by their temporary id."""

import time
import uuid

from tonne_conformance.checks import Skip, check, check_each
from tonne_conformance.expect import date_time, equal, expect, has
from tonne_conformance.installation import Document, Service
from tonne_conformance.options import Options
from tonne_conformance.scenes import payment
from tonne_conformance.sections.orders import FIELDS

PATH = "/payments/by-temporary-id"
VALID = "The temporary id is valid for 15 minutes from the payment's creation."
EXPIRED = f"{VALID} After that the endpoint returns HTTP 404."
CONDITION = "Payment looked up by a temporary id more than 15 minutes after the payment's creation: HTTP 404."
UUID = "Path parameter: `temporary_id` (string, UUID format, required)."
LIFE_S = 15 * 60
MALFORMED = {"word": "thanks", "number": "123", "short": "3f0e4c1a-0000", "braces": f"{{{uuid.UUID(int=1)}}}"}


def _found(service: Service) -> Document:
    temporary_id = payment(service).temporary_id
    return service.shared("found_payment", lambda: service.get(f"{PATH}/{temporary_id}").object())


@check("2.4", "order: Order object (2.1).")
def a_payment_has_its_order(service: Service) -> None:
    found = _found(service)
    expect(isinstance(found.get("order"), dict), "an order", found.get("order"), found)


@check("2.4", "type: string, value `order` in the sample.")
def the_type_of_a_payment_is_order(service: Service) -> None:
    found = _found(service)
    equal(found.get("type"), "order", found)


@check_each("2.4", {name: f"order: Order object (2.1). {row}" for name, row in FIELDS.items()})
def each_field_of_the_order_of_a_payment_is_there(name: str, service: Service) -> None:
    found = _found(service)
    has(found.get("order"), name, found)


@check("2.4", "A payment for an order placed through the service's payment product.")
def the_order_of_a_payment_is_what_the_customer_paid(service: Service) -> None:
    found, checkout = _found(service), payment(service).checkout
    order = found["order"]
    came = [order.get("offset_link_id"), order.get("quantity"), order.get("total_cost")]
    equal(came, [checkout["offset_link_id"], checkout["quantity"], checkout["total_cost"]], found)


@check("4.4", "Response: a Payment object (2.4).")
def a_payment_is_found_by_its_temporary_id(service: Service) -> None:
    answer = service.get(f"{PATH}/{payment(service).temporary_id}")
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check("4.4", UUID)
def the_temporary_id_is_a_uuid(service: Service) -> None:
    temporary_id = payment(service).temporary_id
    equal(str(uuid.UUID(temporary_id)), temporary_id.lower())


@check_each("4.4", dict.fromkeys(MALFORMED, UUID))
def an_id_that_is_no_uuid_finds_nothing(name: str, service: Service) -> None:
    service.get(f"{PATH}/{MALFORMED[name]}").refused()


@check("4.4", "Response: a Payment object (2.4).")
def an_unknown_id_finds_nothing(service: Service) -> None:
    answer = service.get(f"{PATH}/{uuid.uuid4()}")
    expect(answer.status == 404, "HTTP 404", answer.shown, answer)


@check("4.4", VALID)
def a_temporary_id_is_valid_more_than_once(service: Service) -> None:
    temporary_id = payment(service).temporary_id
    statuses = [service.get(f"{PATH}/{temporary_id}").status for _ in range(3)]
    equal(statuses, [200, 200, 200])


@check("4.4", "All endpoints except the webhook receiver use the Authentication in section 5.")
def a_payment_is_not_shown_without_a_key(service: Service) -> None:
    service.send_without_key("GET", f"{PATH}/{payment(service).temporary_id}").refused()


@check("3", "A payment found by temporary id carries its order (2.4).")
def the_order_of_a_payment_is_in_its_current_state(service: Service) -> None:
    found = _found(service)
    key = str(found["order"]["idempotency_key"])
    last = service.wait_for(key, "complete")
    again = service.get(f"{PATH}/{payment(service).temporary_id}").object()
    equal([again["order"].get("id"), again["order"].get("status")], [last["id"], "complete"], again)


@check("8", "Temporary payment id validity: 15 minutes from payment creation.", slow=True)
def a_temporary_id_is_valid_before_15_minutes(service: Service, options: Options) -> None:
    _wait_until(service, options, LIFE_S - 30)
    answer = service.get(f"{PATH}/{payment(service).temporary_id}")
    expect(answer.ok, "a 2xx status 30 seconds before the end", answer.shown, answer)


@check_each("4.4", {"endpoint": EXPIRED}, slow=True)
def a_temporary_id_is_not_valid_after_15_minutes(name: str, service: Service, options: Options) -> None:
    _expect_expired(service, options, name)


@check_each("7", {"condition": CONDITION}, slow=True)
def the_look_up_after_15_minutes_is_an_error(name: str, service: Service, options: Options) -> None:
    _expect_expired(service, options, name)


def _expect_expired(service: Service, options: Options, name: str) -> None:
    _wait_until(service, options, LIFE_S + 30)
    answer = service.get(f"{PATH}/{payment(service).temporary_id}")
    expect(answer.status == 404, f"HTTP 404 ({name})", answer.shown, answer)


def _wait_until(service: Service, options: Options, seconds: float) -> None:
    """The payment is at most as old as its order, so that the wait is long enough."""
    if not options.patient:
        raise Skip("The service has no test clock. --patient waits for the real 15 minutes.")
    order = _found(service)["order"]
    age = time.time() - date_time(order["created_at"]).timestamp()
    time.sleep(max(0.0, seconds - age))
