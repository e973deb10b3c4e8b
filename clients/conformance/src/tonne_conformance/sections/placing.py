"""Section 4.3: placing an order from an estimate."""

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect, has
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import completed
from tonne_conformance.sections.orders import FIELDS

REQUIRED = "estimate_id (string, required): Emission calculation identifier."
METADATA = "metadata (object, not required): Arbitrary key-value pairs."
RESPONSE = "Response: an Order object (2.1), including `estimate_id`, `requested_value` and `requested_quantity`."
WRONG_ESTIMATES: dict[str, object] = {
    "missing": {},
    "null": {"estimate_id": None},
    "number": {"estimate_id": 17},
    "empty": {"estimate_id": ""},
    "array": {"estimate_id": ["est_1"]},
    "unknown": {"estimate_id": "est_00000000000000000000000000"},
}
WRONG_METADATA: dict[str, object] = {"string": "text", "array": ["a"], "number": 17, "boolean": True}


@check("4.3", "Creates an order from an emission calculation (estimate).")
def an_order_is_created(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).first
    equal(service.find(str(order["idempotency_key"])).object().get("id"), order["id"], order)


@check_each("4.3", dict.fromkeys(WRONG_ESTIMATES, REQUIRED))
def each_wrong_estimate_is_refused(name: str, service: Service) -> None:
    service.post("/orders/by-estimate", WRONG_ESTIMATES[name]).refused()


@check("4.3", REQUIRED)
def a_refused_request_places_no_order(service: Service) -> None:
    body = {"estimate_id": "est_00000000000000000000000000", "idempotency_key": service.key("refused")}
    service.post("/orders/by-estimate", body).refused()
    service.find(service.key("refused")).refused()


@check("4.3", REQUIRED)
def a_refused_request_can_be_repeated_with_the_same_key(service: Service) -> None:
    body = {"estimate_id": "est_00000000000000000000000000", "idempotency_key": service.key("corrected")}
    service.post("/orders/by-estimate", body).refused()
    estimate_id = service.estimate()
    order = service.place("corrected", estimate_id=estimate_id)
    equal(order.get("estimate_id"), estimate_id, order)


@check("4.3", METADATA)
def metadata_may_be_left_out(service: Service) -> None:
    order = service.place("without-metadata")
    expect(not order.get("metadata"), "no metadata", order.get("metadata"), order)


@check_each("4.3", dict.fromkeys(WRONG_METADATA, METADATA))
def metadata_that_is_no_object_is_refused(name: str, service: Service) -> None:
    body = {"estimate_id": service.estimate(), "metadata": WRONG_METADATA[name]}
    service.post("/orders/by-estimate", body).refused()


@check_each("4.3", dict.fromkeys(("estimate_id", "requested_value", "requested_quantity"), RESPONSE))
def the_response_includes(name: str, service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).first
    has(order, name, order)


@check_each("4.3", dict.fromkeys(FIELDS, "Response: an Order object (2.1)."))
def the_response_agrees_with_the_order_read_at_once(name: str, service: Service) -> None:
    """Fields that never change. The others may have changed between the two requests."""
    changing = {"status", "bundles", "projects", "certificate", "public_certificate_url"}

    def make() -> tuple[dict[str, object], dict[str, object]]:
        order = service.place("read-at-once")
        return order, service.find(str(order["idempotency_key"])).object()

    placed, found = service.shared("read-at-once", make)
    if name in changing:
        has(found, name)
    else:
        equal(found.get(name), placed.get(name))
