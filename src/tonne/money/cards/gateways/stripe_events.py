"""Verify events from Stripe. An event only names a charge; its result is always read from the gateway."""

import hashlib
import hmac
import time
from typing import Any

import msgspec

from tonne.platform.values.context import Mode

TOLERANCE_S = 300
# While a secret is replaced, Stripe signs with both.
_MAX_SIGNATURES = 5


class SignatureInvalid(Exception):
    """The payload was not signed by Stripe with our secret within the tolerance."""


class StripeEvent(msgspec.Struct, frozen=True):
    """`charge_id` is our id, from the metadata; `reference` is the payment intent. Unrelated events have neither."""

    id: str
    type: str
    charge_id: str | None
    reference: str | None
    mode: Mode


class _Body(msgspec.Struct, frozen=True):
    id: str
    type: str
    livemode: bool
    data: dict[str, Any]


def verify_event(payload: bytes, signature_header: str, secret: str) -> StripeEvent:
    """Raises SignatureInvalid unless signed within five minutes. Stripe repeats events: handling must be idempotent."""
    if not is_signed(payload, signature_header, secret):
        raise SignatureInvalid(
            "The event is not signed with the secret of this webhook, or the signature is older than five minutes."
        )
    try:
        body = msgspec.json.decode(payload, type=_Body)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise SignatureInvalid("The event is not one of Stripe.") from error
    subject, mode = body.data.get("object"), Mode.LIVE if body.livemode else Mode.TEST
    if not isinstance(subject, dict):
        return StripeEvent(body.id, body.type, None, None, mode)
    metadata = subject.get("metadata")
    charge_id = metadata.get("charge_id") if isinstance(metadata, dict) else None
    reference = subject.get("id" if subject.get("object") == "payment_intent" else "payment_intent")
    return StripeEvent(body.id, body.type, _text(charge_id), _text(reference), mode)


def is_signed(payload: bytes, signature_header: str, secret: str) -> bool:
    """Without Stripe's library, which takes time and memory: any stranger could make a process import it.

    Nothing is signed if the secret is empty: everybody knows that one.
    """
    if not secret.strip():
        return False
    parts = [part.strip().partition("=") for part in signature_header.split(",", _MAX_SIGNATURES + 2)]
    stamp = next((value for name, _, value in parts if name == "t"), "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12 and int(stamp) >= time.time() - TOLERANCE_S):
        return False
    expected = hmac.new(secret.encode(), f"{stamp}.".encode() + payload, hashlib.sha256).hexdigest().encode()
    return any(name == "v1" and hmac.compare_digest(expected, value.encode()) for name, _, value in parts)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
