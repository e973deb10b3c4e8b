"""Keys that encrypt secrets in the database: their text form and their ids."""

import base64
import hashlib
import hmac

KEY_BYTES = 32
KEY_ID_BYTES = 8


def parse_key(text: str) -> bytes:
    """32 bytes in base64, as printed by `openssl rand -base64 32`. Raises ValueError."""
    plain = text.strip().rstrip("=").replace("-", "+").replace("_", "/")
    # Strict: by default, Python skips characters that are not base64, and a mistyped key would be another valid one.
    key = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    if len(key) != KEY_BYTES:
        raise ValueError(f"expected {KEY_BYTES} bytes, got {len(key)}")
    return key


def parse_keys(text: str) -> tuple[bytes, ...]:
    """Several keys, separated by commas. Raises ValueError."""
    return tuple(parse_key(part) for part in text.split(",") if part.strip())


def key_id_of(key: bytes) -> str:
    """Names a key without revealing it: 16 hexadecimal digits."""
    return hmac.digest(key, b"tonne secret key id", hashlib.sha256)[:KEY_ID_BYTES].hex()
