"""Base64 that accepts only the one spelling that encoding gives."""

import base64
import binascii

from tonne_verify.errors import NotProven


def encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def decode_base64(text: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotProven(f"`{text[:80]}` is not Base64.") from None
    if encode_base64(value) != text:
        raise NotProven(f"`{text[:80]}` is not Base64 in its only spelling.")
    return value
