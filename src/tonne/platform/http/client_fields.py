"""The optional fields that name what a client creates: idempotency key, metadata, external id and reference."""

import hashlib
import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec

from tonne.platform.db.idempotency import Idempotency
from tonne.platform.http.json_body import Document, JsonNumber
from tonne.platform.http.route import JSON, Request, Response
from tonne.platform.values.errors import Fault, Invalid

MAX_METADATA_BYTES = 16 * 1024
MAX_METADATA_KEYS = 50
MAX_REFERENCE = 200
# With a slash and the number of an item appended, it is still a valid key.
MAX_ITEMS_KEY = 250
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
        description="Returned exactly as given. At most 50 keys and 16 KiB.",
        examples=[{"invoice": "A-17", "cost_centre": 4711}],
        extra_json_schema={"maxProperties": MAX_METADATA_KEYS, "additionalProperties": True},
    ),
]


def read_items_key(value: Any) -> str:
    """A key for a request that creates several things."""
    key = read_idempotency_key(value)
    if len(key) > MAX_ITEMS_KEY:
        raise ValueError(f"expected at most {MAX_ITEMS_KEY} characters")
    return key


def header_key(text: str, reading: Callable[[Any], str] = read_idempotency_key) -> str:
    """The Idempotency-Key header. Raises Invalid."""
    try:
        return reading(text)
    except ValueError as error:
        name = "Idempotency-Key"
        raise Invalid([Fault("validation_error", f"{name} is not valid: {error}.", name)]) from error


def keys_of_items(request: Request, count: int) -> list[str | None]:
    """The keys of items without one of their own, from the header of the request."""
    if request.idempotency_key is None:
        return [None] * count
    key = header_key(request.idempotency_key, read_items_key)
    return [f"{key}/{number}" for number in range(count)]


def idempotency_of(kind: str, document: Document) -> Idempotency:
    """Reads the key before the rest of the body is validated: a used key is replayed whatever else the body says."""
    try:
        key = read_idempotency_key(document.members.get("idempotency_key"))
    except ValueError:
        key = None
    return Idempotency(key, request_digest(kind, document.raw))


def metadata_text(document: Document) -> str:
    """The metadata exactly as it was sent."""
    text = document.raw_member("metadata") or "{}"
    if len(text.encode()) > MAX_METADATA_BYTES:
        raise Invalid([Fault("validation_error", "metadata is larger than 16 KiB.", "metadata")])
    return text


def request_digest(kind: str, body: bytes) -> bytes:
    """A hash that is equal for requests with equal bodies, whatever the order of their members."""
    try:
        canonical = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    # No JSON, or a number is too large for it: then only identical bytes count as equal.
    except (msgspec.DecodeError, RecursionError):
        canonical = body
    return hashlib.sha256(kind.encode() + b" " + canonical).digest()


def replay(body: bytes, original_digest: bytes, digest: bytes) -> Response:
    """The original in its current state. The headers mark it as a replay, and say if the two requests differ."""
    response = Response(body, 200, JSON, {"Idempotent-Replayed": "true"})
    if original_digest != digest:
        response.headers["Idempotency-Mismatch"] = "true"
    return response
