"""Webhook signatures as a receiver verifies them, written independently of the service."""

import hashlib
import hmac
import re
from typing import NamedTuple

_HEADER = re.compile(r"timestamp=(\d+),organisation=(org_\w+)((?:,v1=[0-9a-f]{64})+)", re.ASCII)


class Signature(NamedTuple):
    timestamp: int
    organisation_id: str
    # One, and up to three while rotations overlap.
    values: list[str]


def read_signature(header: str) -> Signature | None:
    """The parts of a `Service-HMAC` header, or None if it is malformed."""
    match = _HEADER.fullmatch(header)
    return match and Signature(int(match[1]), match[2], match[3].removeprefix(",v1=").split(",v1="))


def sign(secret: str, timestamp: int, body: bytes) -> str:
    return hmac.new(secret.encode(), b"%d." % timestamp + body, hashlib.sha256).hexdigest()
