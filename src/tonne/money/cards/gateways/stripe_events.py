"""Verify events from Stripe. An event only names a charge; its result is always read from the gateway."""

from typing import Any

import msgspec

from tonne.platform.values.context import Mode

TOLERANCE_S = 300


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
    # Imported only if it is used: the library takes time and memory.
    import stripe  # noqa: PLC0415

    try:
        stripe.WebhookSignature.verify_header(payload, signature_header, secret, TOLERANCE_S)
        body = msgspec.json.decode(payload, type=_Body)
    # On malformed input the SDK raises UnicodeDecodeError (payload) or TypeError (signature).
    except (stripe.SignatureVerificationError, msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
        raise SignatureInvalid(
            "The event is not signed with the secret of this webhook, or the signature is older than five minutes."
        ) from error
    subject, mode = body.data.get("object"), Mode.LIVE if body.livemode else Mode.TEST
    if not isinstance(subject, dict):
        return StripeEvent(body.id, body.type, None, None, mode)
    metadata = subject.get("metadata")
    charge_id = metadata.get("charge_id") if isinstance(metadata, dict) else None
    reference = subject.get("id" if subject.get("object") == "payment_intent" else "payment_intent")
    return StripeEvent(body.id, body.type, _text(charge_id), _text(reference), mode)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
