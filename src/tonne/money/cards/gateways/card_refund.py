"""The result of refunding at a card gateway."""

from enum import StrEnum

from msgspec import Struct


class RefundOutcome(StrEnum):
    REFUNDED = "refunded"
    # Accepted by the gateway. The bank may still reject it.
    PENDING = "pending"
    # This refund will never be made. Another one needs a new id.
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"


class RefundResult(Struct, frozen=True):
    kind: RefundOutcome
    reference: str | None = None
    message: str | None = None
