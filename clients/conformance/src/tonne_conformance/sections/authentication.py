"""Section 5.1: API keys."""

import uuid

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect
from tonne_conformance.installation import Service
from tonne_conformance.options import Options
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import completed

EVERY = "Every request carries the header `Authorization: Bearer <API_KEY>`."
ALL_ENDPOINTS = "All endpoints except the webhook receiver use the Authentication in section 5."
ENDPOINTS = {
    "order-by-idempotency-key": ("GET", "/orders/by-idempotency-key/{key}"),
    "orders": ("GET", "/orders"),
    "order-by-estimate": ("POST", "/orders/by-estimate"),
    "payment-by-temporary-id": ("GET", f"/payments/by-temporary-id/{uuid.UUID(int=1, version=4)}"),
    "webhooks": ("POST", "/webhooks"),
}
WRONG = {
    "basic": "Basic {key}",
    "no-scheme": "{key}",
    "cut-off": "Bearer {shorter}",
    "with-more": "Bearer {key}x",
    "empty": "Bearer",
}


@check_each("5.1", dict.fromkeys(ENDPOINTS, ALL_ENDPOINTS))
def each_endpoint_refuses_a_request_without_a_key(name: str, service: Service, receiver: Receiver) -> None:
    method, path = ENDPOINTS[name]
    key = completed(service, receiver).last["idempotency_key"]
    service.send_without_key(method, path.format(key=key)).refused()


@check_each("5.1", dict.fromkeys(ENDPOINTS, ALL_ENDPOINTS))
def each_endpoint_refuses_a_wrong_key(name: str, service: Service, receiver: Receiver) -> None:
    method, path = ENDPOINTS[name]
    key = completed(service, receiver).last["idempotency_key"]
    service.send_without_key(method, path.format(key=key), "Bearer not-a-key").refused()


@check_each("5.1", dict.fromkeys(WRONG, EVERY))
def each_wrong_header_is_refused(name: str, service: Service, options: Options) -> None:
    header = WRONG[name].format(key=options.key, shorter=options.key[:-1])
    service.send_without_key("GET", "/orders", header).refused()


@check("5.1", EVERY)
def the_key_in_the_header_is_accepted(service: Service, options: Options) -> None:
    answer = service.send_without_key("GET", "/orders", f"Bearer {options.key}")
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check("5.1", EVERY)
def a_key_in_the_address_is_not_enough(service: Service, options: Options) -> None:
    service.send_without_key("GET", f"/orders?api_key={options.key}").refused()


@check("5.1", "Certificate URLs (`certificate`) need the same API authentication.")
def a_certificate_is_given_to_the_key(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    answer = service.get(str(order.get("certificate")))
    equal(answer.status, 200, answer)


@check("5.1", "Certificate URLs (`certificate`) need the same API authentication.")
def a_certificate_is_not_given_to_a_wrong_key(service: Service, receiver: Receiver) -> None:
    order = completed(service, receiver).last
    service.send_without_key("GET", str(order.get("certificate")), "Bearer not-a-key").refused()
