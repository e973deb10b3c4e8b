"""Verify the webhook requests of the service, before anything of them is used."""

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping, Sequence

from tonne_client.base_model import converter
from tonne_client.errors import TonneError
from tonne_client.models import WebhookDelivery, WebhookEvent

MAX_AGE_S = 300.0
_PREFIX = "whsec_"


class WebhookInvalid(TonneError):
    """The request is not genuine, or too old. Respond with 401 and do not read its body."""


def verify_webhook(
    body: bytes,
    headers: Mapping[str, str],
    secrets: str | Sequence[str],
    *,
    max_age_s: float = MAX_AGE_S,
    brand: str = "Service",
    now: float | None = None,
) -> list[WebhookEvent]:
    """The events of a genuine request. Raises `WebhookInvalid` for any other.

    `body` is the raw body, before JSON parsing. Give the new and the old secret while you rotate them. Both signatures
    of the service are accepted: `Service-HMAC` and those of Standard Webhooks. `max_age_s` limits how far the time of
    the signature may be from now: every attempt is signed anew, so late retries pass.
    """
    if not isinstance(body, bytes | bytearray | memoryview):
        raise TypeError("body must be the raw bytes of the request: a parsed body cannot be verified.")
    known = [secret for secret in ([secrets] if isinstance(secrets, str) else secrets) if secret]
    if not known:
        raise ValueError("No signing secret is given.")
    by_name = {name.lower(): value for name, value in headers.items()}
    time_s = time.time() if now is None else now
    raw = bytes(body)
    own = by_name.get(f"{brand.lower()}-hmac")
    if own is not None:
        timestamp, genuine = _matches_own(own, raw, known)
    elif "webhook-signature" in by_name:
        timestamp, genuine = _matches_standard(by_name, raw, known)
    else:
        raise WebhookInvalid(f"The request has neither {brand}-HMAC nor webhook-signature.")
    if not genuine:
        raise WebhookInvalid("No signature fits: the secret is wrong, or the request is not from the service.")
    if abs(time_s - int(timestamp)) > max_age_s:
        raise WebhookInvalid("The signature is too old, or this clock is wrong.")
    return parse_events(raw)


def parse_events(body: bytes) -> list[WebhookEvent]:
    """The events of a body that was verified before. Events of unknown types are `UnknownModel`s: ignore them."""
    try:
        delivery: WebhookDelivery = converter(WebhookDelivery)(json.loads(body))
        events = delivery.events
    except (ValueError, AttributeError, TypeError) as error:
        raise WebhookInvalid("The body has no events.") from error
    return events


def _matches_own(header: str, body: bytes, secrets: Iterable[str]) -> tuple[str, bool]:
    """`timestamp=…,organisation=…,v1=…`, with one `v1` for each valid secret."""
    pairs = [part.strip().partition("=")[::2] for part in header.split(",")]
    timestamp = next((value for name, value in pairs if name == "timestamp"), "")
    _check_timestamp(timestamp)
    given = [value for name, value in pairs if name == "v1"]
    message = timestamp.encode() + b"." + body
    expected = [hmac.new(secret.encode(), message, hashlib.sha256).hexdigest() for secret in secrets]
    return timestamp, _any_equal(given, expected)


def _matches_standard(headers: Mapping[str, str], body: bytes, secrets: Iterable[str]) -> tuple[str, bool]:
    """`v1,…` for each valid secret, separated by spaces. Secrets of before 2026-11 have no key for it."""
    timestamp = headers.get("webhook-timestamp", "")
    _check_timestamp(timestamp)
    parts = [part.partition(",")[::2] for part in headers["webhook-signature"].split()]
    given = [value for version, value in parts if version == "v1"]
    message = f"{headers.get('webhook-id', '')}.{timestamp}.".encode() + body
    keys = [key for key in map(_standard_key, secrets) if key is not None]
    expected = [base64.b64encode(hmac.new(key, message, hashlib.sha256).digest()).decode() for key in keys]
    return timestamp, _any_equal(given, expected)


def _standard_key(secret: str) -> bytes | None:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True) if secret.startswith(_PREFIX) else None
    except binascii.Error:
        return None


def _check_timestamp(timestamp: str) -> None:
    if not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= 12):
        raise WebhookInvalid("The signature has no timestamp.")


def _any_equal(given: Iterable[str], expected: Sequence[str]) -> bool:
    """In constant time, so that nobody can guess a signature character by character."""
    found = False
    for signature in given:
        for right in expected:
            found |= hmac.compare_digest(signature.encode(), right.encode())
    return found
