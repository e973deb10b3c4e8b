"""Section 5.2: signed webhook requests, verified as a client would, over the raw bytes."""

import hashlib
import hmac
import json
import re

from tonne_conformance.checks import check, check_each
from tonne_conformance.expect import equal, expect, fail, matches
from tonne_conformance.installation import Service
from tonne_conformance.receiver import Delivery, Inbox, Receiver
from tonne_conformance.scenes import account, completed, healthy, refusing, second

SIGNED = "Every webhook request is signed over its body."
FORMAT = (
    "Its format is a comma-separated list of `name=value` pairs: "
    "`timestamp=<unix_epoch>,organisation=<organisation_id>,v1=<signature>,...`"
)
TIMESTAMP = "timestamp: Unix epoch of when the payload was signed. It can be used to judge the payload's age."
ORGANISATION = "organisation: Organisation identifier for the request."
V1 = "v1: HMAC with SHA-256 signature. More pairs may follow."
COMPUTE = (
    "Compute the expected signature as HMAC-SHA256 with key = the signing secret returned at registration "
    "(<SIGNING_SECRET>) and message = the timestamp, a dot character, and the raw request body."
)
PROCESS = "When the header signature equals the expected one, process the request. Otherwise discard it."
# By the clocks of two machines.
CLOCKS_DIFFER_S = 30


def pairs_of(service: Service, delivery: Delivery) -> list[tuple[str, str]]:
    header = delivery.header(f"{service.brand}-HMAC")
    if header is None:
        fail(f"the header {service.brand}-HMAC", dict(delivery.headers), delivery)
    return [(name, value) for name, _, value in (part.strip().partition("=") for part in header.split(","))]


def expected_signature(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def is_signed_with(secret: str, service: Service, delivery: Delivery, body: bytes | None = None) -> bool:
    pairs = pairs_of(service, delivery)
    timestamp = dict(pairs).get("timestamp", "")
    expected = expected_signature(secret, timestamp, delivery.body if body is None else body)
    return any(name == "v1" and hmac.compare_digest(expected.encode(), value.encode()) for name, value in pairs)


def _deliveries(service: Service, receiver: Receiver) -> list[Delivery]:
    completed(service, receiver)
    return healthy(service, receiver).deliveries


@check("5.2", "The signature header is named `Service-HMAC` here. … this name carries the service brand.")
def the_header_carries_the_brand(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        names = [name for name, _ in delivery.headers if name.lower() == f"{service.brand.lower()}-hmac"]
        equal(len(names), 1, delivery)


@check("5.2", FORMAT)
def the_header_has_its_format(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        header = delivery.header(f"{service.brand}-HMAC")
        matches(header, r"timestamp=[0-9]+,organisation=[^,=]+,v1=[^,]+(,[^,=]+=[^,]*)*", delivery)


@check_each("5.2", {"timestamp": TIMESTAMP, "organisation": ORGANISATION, "v1": V1})
def each_part_of_the_header_is_there(name: str, service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        values = [value for key, value in pairs_of(service, delivery) if key == name]
        expect(len(values) >= 1 and all(values), f"a value of {name}", pairs_of(service, delivery), delivery)


@check("5.2", TIMESTAMP)
def the_timestamp_is_in_seconds(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        matches(dict(pairs_of(service, delivery)).get("timestamp"), r"[0-9]{10}", delivery)


@check("5.2", TIMESTAMP)
def the_timestamp_is_when_the_request_was_sent(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        timestamp = int(dict(pairs_of(service, delivery))["timestamp"])
        close = abs(timestamp - delivery.at_epoch_s) <= CLOCKS_DIFFER_S
        expect(close, f"about {delivery.at_epoch_s:.0f}", timestamp, delivery)


@check("5.2", TIMESTAMP)
def a_redelivery_is_signed_anew(service: Service, receiver: Receiver) -> None:
    """The timestamps of a receiver's requests never go back, and follow the time of their arrival."""
    for inbox in refusing(service, receiver):
        for delivery in inbox.deliveries:
            timestamp = int(dict(pairs_of(service, delivery))["timestamp"])
            close = abs(timestamp - delivery.at_epoch_s) <= CLOCKS_DIFFER_S
            expect(close, f"about {delivery.at_epoch_s:.0f}", timestamp, delivery)


@check("5.2", ORGANISATION)
def the_organisation_is_the_one_of_the_account(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        equal(dict(pairs_of(service, delivery)).get("organisation"), account(service).get("organisation_id"), delivery)


@check("5.2", ORGANISATION)
def the_organisation_is_the_same_in_every_request(service: Service, receiver: Receiver) -> None:
    completed(service, receiver)
    second(service, receiver)
    names = {dict(pairs_of(service, delivery)).get("organisation") for delivery in receiver.all_deliveries}
    equal(len(names), 1)


@check("5.2", V1)
def the_signature_has_256_bits(service: Service, receiver: Receiver) -> None:
    """In hexadecimal, or in base64 with or without padding: the encoding is not shown."""
    for delivery in _deliveries(service, receiver):
        value = dict(pairs_of(service, delivery)).get("v1", "")
        known = re.fullmatch(r"[0-9a-fA-F]{64}|[A-Za-z0-9+/_-]{43}=?", value) is not None
        expect(known, "a SHA-256 signature", value, delivery)


def _expect_signed(service: Service, inbox: Inbox) -> None:
    for delivery in inbox.deliveries:
        signed = is_signed_with(inbox.secret, service, delivery)
        header = delivery.header(f"{service.brand}-HMAC")
        timestamp = dict(pairs_of(service, delivery)).get("timestamp", "")
        expect(signed, f"v1={expected_signature(inbox.secret, timestamp, delivery.body)}", header, delivery)


@check("5.2", COMPUTE)
def every_signature_is_the_expected_one(service: Service, receiver: Receiver) -> None:
    completed(service, receiver)
    _expect_signed(service, healthy(service, receiver))


@check("5.2", COMPUTE)
def every_redelivery_has_the_expected_signature(service: Service, receiver: Receiver) -> None:
    for inbox in refusing(service, receiver):
        _expect_signed(service, inbox)


@check("6.4", "Signing: All requests are signed (section 5.2).")
def every_request_of_another_receiver_is_signed_with_its_secret(service: Service, receiver: Receiver) -> None:
    inbox = second(service, receiver)
    order = service.place("signed-for-another")
    inbox.wait_for_event(str(order["id"]), "order.placed")
    _expect_signed(service, inbox)


@check("5.2", PROCESS)
def the_secret_of_another_webhook_does_not_match(service: Service, receiver: Receiver) -> None:
    other = second(service, receiver).secret
    for delivery in _deliveries(service, receiver):
        expect(not is_signed_with(other, service, delivery), "another signature", "the same", delivery)


@check("7", "Webhook signature does not match: The receiver discards the request.")
def a_changed_body_does_not_match(service: Service, receiver: Receiver) -> None:
    inbox = healthy(service, receiver)
    for delivery in _deliveries(service, receiver):
        changed = delivery.body.replace(b"order.", b"ordex.", 1)
        matching = is_signed_with(inbox.secret, service, delivery, changed)
        expect(not matching, "another signature for another body", "the same", delivery)


@check("5.2", SIGNED)
def the_signature_is_over_the_raw_bytes(service: Service, receiver: Receiver) -> None:
    """The same JSON with other white space has another signature."""
    inbox = healthy(service, receiver)
    for delivery in _deliveries(service, receiver):
        spaced = json.dumps(delivery.document, indent=3).encode()
        matching = is_signed_with(inbox.secret, service, delivery, spaced)
        signed = is_signed_with(inbox.secret, service, delivery)
        expect(signed and not matching, "a signature over the bytes that were sent", "another one", delivery)


@check("9", "The signature header carries its scheme as the pair name `v1`.")
def the_scheme_of_the_signature_is_v1(service: Service, receiver: Receiver) -> None:
    for delivery in _deliveries(service, receiver):
        names = [name for name, _ in pairs_of(service, delivery)]
        expect("v1" in names, "a pair named v1", names, delivery)
