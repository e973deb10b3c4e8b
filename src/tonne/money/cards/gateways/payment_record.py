"""What a card gateway has on record about a captured payment: refunds and disputes, also those begun at the gateway."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tonne.money.cards.gateways.card_refund import RefundOutcome
from tonne.platform.values.scope import Mode


class DisputeState(StrEnum):
    OPENED = "opened"
    WON = "won"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRefund:
    """`refund_id` is our id, None if somebody refunded at the gateway. `kind` is refunded, pending or failed."""

    reference: str
    refund_id: str | None
    amount_minor: int
    kind: RefundOutcome
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDispute:
    """`withdrawn_minor` is what the gateway has taken back from the seller: nothing during an inquiry or once won."""

    reference: str
    state: DisputeState
    amount_minor: int
    withdrawn_minor: int
    reason: str
    opened_at: datetime
    evidence_due: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPayment:
    reference: str
    captured_minor: int
    currency: str
    mode: Mode
    refunds: tuple[RecordedRefund, ...] = ()
    disputes: tuple[RecordedDispute, ...] = ()


class PaymentNotRead(Exception):
    """The gateway could not be reached or understood; the message says why."""
