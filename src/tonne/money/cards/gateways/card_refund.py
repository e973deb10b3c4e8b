"""The result of refunding at a card gateway."""

from dataclasses import dataclass
from enum import StrEnum


class RefundOutcome(StrEnum):
    REFUNDED = "refunded"
    # Accepted by the gateway. The bank may still reject it.
    PENDING = "pending"
    # This refund will never be made. Another one needs a new id.
    FAILED = "failed"
    UNKNOWN = "unknown"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class RefundResult:
    kind: RefundOutcome
    reference: str | None = None
    message: str | None = None
