"""Request signatures: HMAC-SHA256 over timestamp, dot and raw body, and that of Standard Webhooks for those who ask."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence
from functools import lru_cache

import structlog

from tonne.platform.keys.secret_box import SecretUnreadable

PREFIX = "whsec_"
KEY_BYTES = 32
_CACHED_KEYS = 1000

_log = structlog.get_logger()


def new_secret() -> str:
    """`whsec_` and 256 random bits in standard base64, as libraries of Standard Webhooks expect it."""
    return f"{PREFIX}{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def open_secrets(
    unseal: Callable[[bytes, str], str], webhook_id: str, sealed: bytes, old_sealed: Sequence[bytes | None]
) -> list[str]:
    """The secrets that sign. Raises SecretUnreadable if the current one cannot be opened.

    A replaced one that cannot be opened is left out: after the loss of a key, rotating the secret must be enough.
    """
    opened = [unseal(sealed, webhook_id)]
    for old in old_sealed:
        if old is None:
            continue
        try:
            opened.append(unseal(old, webhook_id))
        except SecretUnreadable as error:
            _log.warning("old_webhook_secret_unreadable", webhook_id=webhook_id, reason=str(error))
    return opened


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Lower-case hex. The key is the whole secret, including its `whsec_` prefix."""
    signature = hmac.new(secret.encode(), b"%d." % timestamp, hashlib.sha256)
    signature.update(body)
    return signature.hexdigest()


def signed_headers(
    brand: str,
    signing_secrets: Sequence[str],
    organisation_id: str,
    body: bytes,
    *,
    timestamp: int,
    message_id: str | None = None,
) -> dict[str, str]:
    """Headers of a request to a receiver. The name of the first signature carries the brand.

    With a `message_id`, the headers of Standard Webhooks follow.
    """
    signature = signature_header(signing_secrets, organisation_id, timestamp, body)
    headers = {"Content-Type": "application/json", f"{brand}-HMAC": signature}
    if message_id is not None:
        standard = standard_signature(signing_secrets, message_id, timestamp, body)
        headers |= {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": standard}
    return headers


def signature_header(signing_secrets: Sequence[str], organisation_id: str, timestamp: int, body: bytes) -> str:
    """One `v1` pair per valid secret: up to three while rotations overlap."""
    pairs = [f"timestamp={timestamp}", f"organisation={organisation_id}"]
    pairs += [f"v1={sign(secret, timestamp, body)}" for secret in signing_secrets]
    return ",".join(pairs)


def standard_signature(signing_secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one signature per secret."""
    keys = map(standard_key, signing_secrets)
    message = b"%b.%d.%b" % (message_id.encode(), timestamp, body)
    return " ".join(f"v1,{base64.b64encode(hmac.digest(key, message, 'sha256')).decode()}" for key in keys)


@lru_cache(_CACHED_KEYS)
def standard_key(secret: str) -> bytes:
    return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
