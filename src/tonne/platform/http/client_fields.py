"""The optional fields that name what a client creates: idempotency key, metadata, external id and reference."""

import hashlib
import re
from typing import Annotated, Any

import msgspec

from tonne.platform.db.idempotency import Idempotency
from tonne.platform.http.json_body import Document, JsonNumber
from tonne.platform.http.route import JSON, Response
from tonne.platform.values.errors import Fault, Invalid

MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_KEYS = 50
MAX_REFERENCE = 200
_KEY = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]{1,255}")


def read_idempotency_key(value: Any) -> str:
    """Any text that can be part of a URL. HTTP clients remove the path segments `.` and `..`."""
    if not isinstance(value, str) or isinstance(value, JsonNumber) or not _KEY.fullmatch(value) or value in {".", ".."}:
        raise ValueError("expected 1 to 255 printable characters, and not . or ..")
    return value


def read_metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict) or len(value) > MAX_METADATA_KEYS:
        raise ValueError(f"expected an object with at most {MAX_METADATA_KEYS} keys")
    return value


IdempotencyKey = Annotated[
    str,
    read_idempotency_key,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        description="Unique per account. A repeat returns the original, in its current state.",
        examples=["flight-2026-11-15-0042"],
    ),
]


def read_reference(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, JsonNumber):
        text = value.strip()
        if 1 <= len(text) <= MAX_REFERENCE and text.isprintable():
            return text
    raise ValueError(f"expected 1 to {MAX_REFERENCE} printable characters on one line")


REFERENCE = msgspec.Meta(description="Printed on invoices, such as a purchase order number.", examples=["PO 20817"])
ExternalId = Annotated[
    str,
    read_idempotency_key,
    msgspec.Meta(
        min_length=1,
        max_length=255,
        description="What your records call the sale. Orders can be listed and found by it.",
        examples=["A-4711"],
    ),
]
Reference = Annotated[str, read_reference, msgspec.Meta(min_length=1, max_length=MAX_REFERENCE), REFERENCE]
Metadata = Annotated[
    dict[str, Any],
    read_metadata,
    msgspec.Meta(
        description="Stored and returned exactly as given. At most 50 keys and 16 KiB.",
        examples=[{"invoice": "A-17", "cost_centre": 4711}],
        extra_json_schema={"maxProperties": MAX_METADATA_KEYS, "additionalProperties": True},
    ),
]


def idempotency_of(kind: str, document: Document) -> Idempotency:
    """Reads the key before the rest of the body is validated: a used key is replayed whatever else the body says."""
    try:
        key = read_idempotency_key(document.members.get("idempotency_key"))
    except ValueError:
        key = None
    return Idempotency(key, _request_digest(kind, document))


def metadata_text(document: Document) -> str:
    """The metadata exactly as it was sent."""
    text = document.raw_member("metadata") or "{}"
    if len(text.encode()) > MAX_METADATA_BYTES:
        raise Invalid([Fault("validation_error", "metadata is larger than 16 KiB.", "metadata")])
    return text


def _request_digest(kind: str, document: Document) -> bytes:
    """A hash that is equal for requests with equal bodies, whatever the order of their members."""
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(document.raw), order="sorted")
    except msgspec.DecodeError:  # a number is too large for it: then only identical bytes count as equal
        canonical = document.raw
    return hashlib.sha256(kind.encode() + b" " + canonical).digest()


def replay(body: bytes, original_digest: bytes, digest: bytes) -> Response:
    """The original in its current state. The headers mark it as a replay, and say if the two requests differ."""
    response = Response(body, 200, JSON, {"Idempotent-Replayed": "true"})
    if original_digest != digest:
        response.headers["Idempotency-Mismatch"] = "true"
    return response
