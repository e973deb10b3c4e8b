"""Sections 2.6, 4.5 and 8: registering a webhook."""

from collections.abc import Callable
from typing import Any

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import Source, date_time, equal, expect, has, one_of, text
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Receiver
from tonne_conformance.scenes import completed, healthy, registration, second
from tonne_conformance.sections.signatures import is_signed_with

FIELDS = {
    "id": "id: string",
    "url": "url: string, HTTPS URL of the receiver",
    "enabled": "enabled: boolean",
    "account_type": "account_type: string; `live` in the sample (test and live modes exist)",
    "account_ids": "account_ids: array; empty in the sample",
    "created_at": "created_at: timestamp string (ISO 8601)",
    "secret": "secret: string, the signing secret (<SIGNING_SECRET>)",
}
HTTPS = "Only HTTPS receivers are accepted, including in test mode."
REQUIRED = "Body: `url` (string, required, an HTTPS URL)."
SCHEME = "Webhook URL scheme: HTTPS only (POST /webhooks)."
# The port and the path of the receiver follow.
WRONG_SCHEMES = ("http", "ftp", "ws", "file", "HTTP")


def _boolean(value: Any, source: Source) -> None:
    expect(isinstance(value, bool), "true or false", value, source)


def _array(value: Any, source: Source) -> None:
    expect(isinstance(value, list), "an array", value, source)


RULES: dict[str, Callable[[Any, Source], Any]] = {
    "id": text,
    "url": text,
    "enabled": _boolean,
    "account_type": lambda value, source: one_of(value, ("test", "live"), source),
    "account_ids": _array,
    "created_at": date_time,
    "secret": text,
}


@check_each("2.6", FIELDS)
def each_field_of_a_webhook_is_there(name: str, service: Service, receiver: Receiver) -> None:
    webhook = registration(service, receiver).object()
    has(webhook, name, webhook)


@check_each("2.6", FIELDS)
def each_field_of_a_webhook_has_its_type(name: str, service: Service, receiver: Receiver) -> None:
    webhook = registration(service, receiver).object()
    RULES[name](webhook.get(name), webhook)


@check("4.5", "Registers a webhook receiver.")
def the_url_is_the_registered_one(service: Service, receiver: Receiver) -> None:
    webhook = registration(service, receiver).object()
    equal(webhook.get("url"), receiver.inbox("healthy").url, webhook)


@check("4.5", "Registers a webhook receiver.")
def a_new_webhook_is_enabled(service: Service, receiver: Receiver) -> None:
    webhook = registration(service, receiver).object()
    equal(webhook.get("enabled"), True, webhook)


@check("4.5", "Registers a webhook receiver.")
def a_registered_receiver_gets_events(service: Service, receiver: Receiver) -> None:
    inbox = healthy(service, receiver)
    order = completed(service, receiver).last
    expect(bool(inbox.events_of(str(order["id"]))), "events of the order", inbox.events, order)


@check("4.5", "An endpoint registered this way is tied to the mode of the API key used: test keys give test events.")
def a_test_key_registers_in_test_mode(service: Service, receiver: Receiver) -> None:
    webhook = registration(service, receiver).object()
    equal(webhook.get("account_type"), "test", webhook)


@check("4.5", "Response: a Webhook record (2.6), including the signing secret.")
def two_webhooks_have_two_secrets(service: Service, receiver: Receiver) -> None:
    one, other = healthy(service, receiver).secret, second(service, receiver).secret
    expect(one != other, "two different secrets", "the same secret")


@check("4.5", "Response: a Webhook record (2.6), including the signing secret.")
def the_secret_in_the_response_signs_the_requests(service: Service, receiver: Receiver) -> None:
    completed(service, receiver)
    inbox = healthy(service, receiver)
    for delivery in inbox.deliveries:
        signed = is_signed_with(inbox.secret, service, delivery)
        expect(signed, "a signature with the secret of the response", "another signature", delivery)


@check("2.6", FIELDS["id"])
def two_webhooks_have_two_ids(service: Service, receiver: Receiver) -> None:
    webhook = registration(service, receiver).object()
    other = service.register({"url": receiver.inbox("third").url}).object()
    expect(webhook["id"] != other["id"], "two different ids", webhook["id"], other)


@check_each("4.5", {"missing": REQUIRED, "null": REQUIRED, "number": REQUIRED, "empty": REQUIRED, "no-url": REQUIRED})
def each_wrong_url_is_refused(name: str, service: Service) -> None:
    bodies: dict[str, object] = {
        "missing": {},
        "null": {"url": None},
        "number": {"url": 17},
        "empty": {"url": ""},
        "no-url": {"url": "hooks.example.com"},
    }
    service.register(bodies[name]).refused()


@check_each("6.1", dict.fromkeys(WRONG_SCHEMES, HTTPS))
def each_other_scheme_is_refused(name: str, service: Service, receiver: Receiver) -> None:
    url = receiver.inbox("healthy").url.replace("https", name, 1)
    service.register({"url": url}).refused()


@check("6.4", "HTTPS: Only https is supported.")
def a_plain_receiver_is_refused(service: Service, receiver: Receiver) -> None:
    """At an address that is accepted with https."""
    service.register({"url": receiver.inbox("plain").url.replace("https", "http", 1)}).refused()


@check("8", SCHEME)
def an_https_receiver_is_accepted(service: Service, receiver: Receiver) -> None:
    answer = registration(service, receiver)
    expect(answer.ok, "a 2xx status", answer.shown, answer)


@check("4.5", "All endpoints except the webhook receiver use the Authentication in section 5.")
def a_registration_needs_a_key(service: Service) -> None:
    service.send_without_key("POST", "/webhooks").refused()
