"""The preamble and section 4: addresses, and bodies in JSON."""

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import expect
from tonne_conformance.installation import Answer, Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import completed, payment, registration

ADDRESSES = {
    "order-by-idempotency-key": "GET /orders/by-idempotency-key/{idempotency_key}",
    "orders": "GET /orders",
    "order-by-estimate": "POST /orders/by-estimate",
    "payment-by-temporary-id": "GET /payments/by-temporary-id/{temporary_id}",
    "webhooks": "POST /webhooks",
}
ALL_JSON = "All request and response bodies are JSON."


def success_of(name: str, service: Service, receiver: Receiver) -> Answer:
    """The response to a good request to this endpoint."""
    match name:
        case "order-by-idempotency-key":
            return service.find(str(completed(service, receiver).last["idempotency_key"]))
        case "orders":
            return service.get("/orders")
        case "order-by-estimate":
            body = {"estimate_id": service.estimate(), "idempotency_key": service.key("preamble")}
            return service.post("/orders/by-estimate", body)
        case "payment-by-temporary-id":
            return service.get(f"/payments/by-temporary-id/{payment(service).temporary_id}")
        case _:
            return registration(service, receiver)


def error_of(name: str, service: Service) -> Answer:
    """The response to a request that cannot succeed."""
    match name:
        case "order-by-idempotency-key":
            return service.find(service.key("nobody-used-it"))
        case "orders":
            return service.get("/orders", {"limit": "101"})
        case "order-by-estimate":
            return service.post("/orders/by-estimate", {})
        case "payment-by-temporary-id":
            return service.get("/payments/by-temporary-id/00000000-0000-4000-8000-000000000000")
        case _:
            return service.register({})


def _expect_json(answer: Answer) -> None:
    kind = answer.headers.get("content-type", "")
    is_json = kind.partition(";")[0].strip() == "application/json" and isinstance(answer.document, dict)
    expect(is_json, "a JSON object with Content-Type: application/json", f"{kind}: {answer.shown}", answer)


@check_each("4", {name: f"All paths are relative to {{base_url}}: {path}" for name, path in ADDRESSES.items()})
def each_address_answers_below_the_base(name: str, service: Service, receiver: Receiver) -> None:
    answer = success_of(name, service, receiver)
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check_each("0", {name: f"{ALL_JSON} ({path})" for name, path in ADDRESSES.items()})
def each_response_is_json(name: str, service: Service, receiver: Receiver) -> None:
    answer = success_of(name, service, receiver)
    expect(answer.ok, "a 2xx status", answer.shown, answer)
    _expect_json(answer)


@check_each("0", {name: f"{ALL_JSON} (an error of {path})" for name, path in ADDRESSES.items()})
def each_error_is_json(name: str, service: Service) -> None:
    answer = error_of(name, service)
    answer.refused()
    _expect_json(answer)


@check("0", ALL_JSON)
def an_order_in_another_format_is_refused(service: Service) -> None:
    form = f"estimate_id={service.estimate()}".encode()
    service.post_raw("/orders/by-estimate", form, "application/x-www-form-urlencoded").refused()


@check("0", ALL_JSON)
def a_broken_body_is_refused(service: Service) -> None:
    service.post_raw("/orders/by-estimate", b'{"estimate_id": ', "application/json").refused()


@check("0", ALL_JSON)
def a_body_that_is_no_object_is_refused(service: Service) -> None:
    service.post_raw("/orders/by-estimate", b'["estimate_id"]', "application/json").refused()
