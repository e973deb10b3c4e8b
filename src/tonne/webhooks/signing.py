"""Request signatures: HMAC-SHA256 over timestamp, dot and raw body."""

import hashlib
import hmac
import secrets
from collections.abc import Callable, Sequence

import structlog

from tonne.base.secret_box import SecretUnreadable

_log = structlog.get_logger()


def new_secret() -> str:
    """`whsec_` and 43 URL-safe characters, which are 256 random bits."""
    return f"whsec_{secrets.token_urlsafe(32)}"


def open_secrets(
    unseal: Callable[[bytes, str], str], webhook_id: str, sealed: bytes, old_sealed: bytes | None
) -> list[str]:
    """The secrets that sign. Raises SecretUnreadable if the current one cannot be opened.

    A previous one that cannot be opened is left out: after the loss of a key, rotating the secret must be enough.
    """
    opened = [unseal(sealed, webhook_id)]
    if old_sealed is not None:
        try:
            opened.append(unseal(old_sealed, webhook_id))
        except SecretUnreadable as error:
            _log.warning("old_webhook_secret_unreadable", webhook_id=webhook_id, reason=str(error))
    return opened


def sign(secret: str, timestamp: int, body: bytes) -> str:
    """Lower-case hex. The key is the whole secret, including its `whsec_` prefix."""
    signature = hmac.new(secret.encode(), b"%d." % timestamp, hashlib.sha256)
    signature.update(body)
    return signature.hexdigest()


def signed_headers(
    brand: str, signing_secrets: Sequence[str], organisation_id: str, timestamp: int, body: bytes
) -> dict[str, str]:
    """Headers of a request to a receiver. The signature's name carries the brand."""
    signature = signature_header(signing_secrets, organisation_id, timestamp, body)
    return {"Content-Type": "application/json", f"{brand}-HMAC": signature}


def signature_header(signing_secrets: Sequence[str], organisation_id: str, timestamp: int, body: bytes) -> str:
    """One `v1` pair per valid secret: two while a rotation overlaps."""
    pairs = [f"timestamp={timestamp}", f"organisation={organisation_id}"]
    pairs += [f"v1={sign(secret, timestamp, body)}" for secret in signing_secrets]
    return ",".join(pairs)
