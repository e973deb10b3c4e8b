"""The rules of refunds and disputes. No I/O."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.money.cards.gateways.card import RecordedDispute
from tonne.platform.values.context import Scope, new_id, replace
from tonne.selling.orders.model import OrderKey
from tonne.selling.users.approvals import ApprovalKind, Subject

MAX_REASON = 500
# Delays before the second, third, … attempt after a failed refund. The last one repeats indefinitely.
RETRY_DELAYS = (timedelta(hours=1), timedelta(hours=6), timedelta(days=1))
# When a refund that the gateway has accepted is looked up, by how long it has been pending.
MIN_PENDING_DELAY = timedelta(minutes=10)
MAX_PENDING_DELAY = timedelta(hours=12)


class RefundState(StrEnum):
    APPROVAL = "approval"
    DUE = "due"
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


# The states in which a refund's amount is not available for another refund.
ACTIVE = frozenset({RefundState.APPROVAL, RefundState.DUE, RefundState.PENDING, RefundState.SUCCEEDED})


class RefundPurpose(StrEnum):
    CANCELLATION = "cancellation"
    # Of what was taken off a paid order. It no longer counts as paid for the order.
    REDUCTION = "reduction"
    GOODWILL = "goodwill"
    SURPLUS = "surplus"
    GATEWAY = "gateway"


class RefundMethod(StrEnum):
    CARD = "card"
    BANK = "bank"


class Refund(Struct, frozen=True, kw_only=True):
    """One attempt to send money back. `charge_id` is None for a refund by bank."""

    scope: Scope
    id: str
    order_id: str
    method: RefundMethod
    charge_id: str | None
    amount_minor: int
    currency: str
    purpose: RefundPurpose
    reason: str
    state: RefundState
    attempt: int = 1
    repeats: str | None = None
    reference: str | None = None
    message: str | None = None
    requested_by: str
    approved_by: str | None = None
    idempotency_key: str | None = None
    request_digest: bytes | None = None
    created_at: datetime
    settled_at: datetime | None = None
    next_attempt_at: datetime | None = None
    # The returns that a refund by bank consists of.
    return_ids: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        return self.state in ACTIVE

    @property
    def order_key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.order_id)

    @property
    def subject(self) -> Subject:
        return Subject(
            kind=ApprovalKind.REFUND,
            id=self.id,
            organisation_id=self.scope.organisation_id,
            mode=self.scope.mode,
            requested_by=self.requested_by,
            terms=(str(self.amount_minor), self.currency, self.charge_id or self.order_id, self.reason),
        )


class Dispute(RecordedDispute, frozen=True, kw_only=True):
    """A payment that the payer disputes at their bank, as the gateway has it on record.

    `order_id` is None if the charge paid for an invoice: it concerns all orders.
    """

    scope: Scope
    id: str
    order_id: str | None
    charge_id: str
    currency: str
    recorded_at: datetime
    closed_at: datetime | None
    # Of one that was lost after delivery: whether the tax was credited or kept.
    tax_decision: str | None = None


def renewed(refund: Refund, now: datetime) -> Refund:
    """A new refund that is due, of the same money."""
    return replace(
        refund,
        id=new_id("rfd"),
        state=RefundState.DUE,
        message=None,
        idempotency_key=None,
        request_digest=None,
        created_at=now,
        settled_at=None,
        next_attempt_at=None,
    )


def retry_delay(attempt: int) -> timedelta:
    """How long to wait after the failure of this attempt."""
    return RETRY_DELAYS[min(attempt, len(RETRY_DELAYS)) - 1]


def next_attempt(failed: Refund, now: datetime) -> Refund:
    next_attempt_at = now + retry_delay(failed.attempt)
    attempt = failed.attempt + 1
    return replace(
        renewed(failed, now), attempt=attempt, repeats=failed.id, reference=None, next_attempt_at=next_attempt_at
    )


def next_look(created_at: datetime, now: datetime) -> datetime:
    """When to look at a pending refund again: after as long as it has been pending so far, within the bounds."""
    return now + min(max(now - created_at, MIN_PENDING_DELAY), MAX_PENDING_DELAY)


def refundable(paid_minor: int, refunds: Iterable[Refund], disputes: Iterable[Dispute]) -> int:
    """What can still be refunded of a payment: never more than was paid, nor what a dispute has taken back."""
    active = sum(refund.amount_minor for refund in refunds if refund.is_active)
    withdrawn = sum(dispute.withdrawn_minor for dispute in disputes)
    return max(0, paid_minor - active - withdrawn)


def refunded(refunds: Iterable[Refund]) -> int:
    """What has gone back."""
    return sum(refund.amount_minor for refund in refunds if refund.state is RefundState.SUCCEEDED)


def exceeding(paid_minor: int, refunds: Sequence[Refund], disputes: Iterable[Dispute]) -> list[Refund]:
    """The refunds, newest first, that no longer fit because money went back another way. Only those not yet accepted.

    The gateway would reject them.
    """
    excess = sum(each.amount_minor for each in refunds if each.is_active) - max(
        0, paid_minor - sum(dispute.withdrawn_minor for dispute in disputes)
    )
    waiting = [each for each in refunds if each.state in {RefundState.APPROVAL, RefundState.DUE}]
    found = []
    for each in sorted(waiting, key=lambda refund: (refund.created_at, refund.id), reverse=True):
        if excess > 0:
            found.append(each)
            excess -= each.amount_minor
    return found
