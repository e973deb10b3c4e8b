"""Refunds at a card gateway, and what it has on record about a captured payment, also what began at the gateway."""

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.context import Mode


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


class DisputeState(StrEnum):
    OPENED = "opened"
    WON = "won"
    LOST = "lost"


class RecordedRefund(Struct, frozen=True, kw_only=True):
    """`refund_id` is our id, None if somebody refunded at the gateway. `kind` is refunded, pending or failed."""

    reference: str
    refund_id: str | None
    amount_minor: int
    kind: RefundOutcome
    message: str | None = None


class RecordedDispute(Struct, frozen=True, kw_only=True):
    """`withdrawn_minor` is what the gateway has taken back from the seller: nothing during an inquiry or once won."""

    reference: str
    state: DisputeState
    amount_minor: int
    withdrawn_minor: int
    reason: str
    opened_at: datetime
    evidence_due: datetime | None = None


class RecordedPayment(Struct, frozen=True, kw_only=True):
    reference: str
    captured_minor: int
    currency: str
    mode: Mode
    refunds: tuple[RecordedRefund, ...] = ()
    disputes: tuple[RecordedDispute, ...] = ()


class PaymentNotRead(Exception):
    """The gateway could not be reached or understood; the message says why."""
