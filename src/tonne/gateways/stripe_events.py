"""Events that Stripe sends. They only tell which charge to ask about: what came of it the gateway says."""

from dataclasses import dataclass
from typing import Any

import msgspec
import stripe

TOLERANCE_S = 300


class SignatureInvalid(Exception):
    """Not an event that Stripe has signed with our secret a moment ago."""


@dataclass(frozen=True, slots=True)
class StripeEvent:
    """`charge_id` is ours, from the metadata; `reference` is the payment intent. Other events have neither."""

    id: str
    type: str
    charge_id: str | None
    reference: str | None


class _Body(msgspec.Struct, frozen=True):
    id: str
    type: str
    data: dict[str, Any]


def verify_event(payload: bytes, signature_header: str, secret: str) -> StripeEvent:
    """Takes only what was signed in the last five minutes. Reading an event twice must do no harm: Stripe repeats."""
    try:
        stripe.WebhookSignature.verify_header(payload, signature_header, secret, TOLERANCE_S)
        body = msgspec.json.decode(payload, type=_Body)
    # Hostile bytes make the SDK stumble over their encoding, and letters in the signature over its comparison.
    except (stripe.SignatureVerificationError, msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise SignatureInvalid("This is not an event that Stripe has just signed with the webhook's secret.") from error
    about = body.data.get("object")
    if not isinstance(about, dict):
        return StripeEvent(body.id, body.type, None, None)
    metadata = about.get("metadata")
    charge_id = metadata.get("charge_id") if isinstance(metadata, dict) else None
    reference = about.get("id" if about.get("object") == "payment_intent" else "payment_intent")
    return StripeEvent(body.id, body.type, _text(charge_id), _text(reference))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
