"""Read refunds and disputes at Stripe. Raises the errors of the SDK, or PaymentNotRead if an object is unreadable."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import stripe
from stripe._v1_services import V1Services

from tonne.money.cards.gateways.card import (
    DisputeState,
    PaymentNotRead,
    RecordedDispute,
    RecordedPayment,
    RecordedRefund,
    RefundOutcome,
    RefundResult,
)
from tonne.money.cards.gateways.stripe_responses import PaymentIntentObject, from_stripe_amount, mode_of

# An inquiry: the bank asks, and has taken nothing back yet.
_INQUIRY = "warning_"
_CLOSED = {"won": DisputeState.WON, "lost": DisputeState.LOST, "warning_closed": DisputeState.WON}
# Refunded automatically before the dispute was opened: the refund itself is in the list of refunds.
_CLOSED["prevented"] = DisputeState.WON


class RefundObject(msgspec.Struct, frozen=True):
    id: str
    status: str | None
    amount: int = 0
    currency: str = ""
    payment_intent: str | None = None
    metadata: dict[str, str] | None = None
    failure_reason: str | None = None


class EvidenceObject(msgspec.Struct, frozen=True):
    due_by: int | None = None


class DisputeObject(msgspec.Struct, frozen=True):
    id: str
    status: str
    amount: int
    currency: str
    created: int
    reason: str = "general"
    payment_intent: str | None = None
    evidence_details: EvidenceObject | None = None


async def items(page: stripe.ListObject[Any]) -> AsyncIterator[dict[str, Any]]:
    """All items of a list. Not `auto_paging_iter`, which ends at an empty page although there are more."""
    while True:
        for item in page.data:
            yield item.to_dict()
        if not page.has_more:
            return
        page = await page.next_page_async()


async def list_refunds(client: V1Services, reference: str) -> list[RefundObject]:
    first = await client.refunds.list_async({"payment_intent": reference, "limit": 100})
    return [msgspec.convert(item, RefundObject) async for item in items(first)]


async def refunded_minor(client: V1Services, reference: str) -> int:
    """What was refunded of a payment, or will be."""
    found = [recorded_refund(each) for each in await list_refunds(client, reference)]
    return sum(each.amount_minor for each in found if each.kind is not RefundOutcome.FAILED)


async def read_payment(client: V1Services, reference: str) -> RecordedPayment:
    intent = msgspec.convert((await client.payment_intents.retrieve_async(reference)).to_dict(), PaymentIntentObject)
    if intent.status != "succeeded":
        raise PaymentNotRead(f"The payment {reference} is {intent.status} at Stripe, not succeeded.")
    captured = intent.amount if intent.amount_received is None else intent.amount_received
    first = await client.disputes.list_async({"payment_intent": reference, "limit": 100})
    disputes = [_in_currency_of(intent, msgspec.convert(item, DisputeObject)) async for item in items(first)]
    return RecordedPayment(
        reference=reference,
        captured_minor=_minor(captured, intent.currency),
        currency=intent.currency.upper(),
        mode=mode_of(livemode=intent.livemode),
        refunds=tuple(recorded_refund(each) for each in await list_refunds(client, reference)),
        disputes=tuple(recorded_dispute(each) for each in disputes),
    )


def _in_currency_of(intent: PaymentIntentObject, dispute: DisputeObject) -> DisputeObject:
    """The amount of a dispute in another currency cannot be compared with the payment: it then counts as all of it."""
    if dispute.currency == intent.currency:
        return dispute
    captured = intent.amount if intent.amount_received is None else intent.amount_received
    return msgspec.structs.replace(dispute, amount=captured, currency=intent.currency)


async def list_changed(client: V1Services, since: datetime) -> set[str]:
    seconds = int(since.timestamp())
    refunds = await client.refunds.list_async({"created": {"gte": seconds}, "limit": 100})
    found = {refund.get("payment_intent") async for refund in items(refunds)}
    disputes = await client.disputes.list_async({"created": {"gte": seconds}, "limit": 100})
    found |= {dispute.get("payment_intent") async for dispute in items(disputes)}
    return {reference for reference in found if isinstance(reference, str)}


def refund_result_of(refund: RefundObject) -> RefundResult:
    """`pending`, `requires_action` or null: Stripe has accepted it, and the bank may still reject it."""
    if refund.status == "succeeded":
        return RefundResult(RefundOutcome.REFUNDED, refund.id)
    if refund.status in {"pending", "requires_action", None}:
        return RefundResult(RefundOutcome.PENDING, refund.id)
    return RefundResult(
        RefundOutcome.FAILED, refund.id, f"Stripe could not refund: {refund.failure_reason or refund.status}."
    )


def recorded_refund(refund: RefundObject) -> RecordedRefund:
    result = refund_result_of(refund)
    return RecordedRefund(
        reference=refund.id,
        refund_id=(refund.metadata or {}).get("refund_id"),
        amount_minor=_minor(refund.amount, refund.currency),
        kind=result.kind,
        message=result.message,
    )


def recorded_dispute(dispute: DisputeObject) -> RecordedDispute:
    """Any status that is not final counts as open: the order is then held until Stripe says more."""
    state = _CLOSED.get(dispute.status, DisputeState.OPENED)
    amount_minor = _minor(dispute.amount, dispute.currency)
    is_taken = state is not DisputeState.WON and not dispute.status.startswith(_INQUIRY)
    due_by = None if dispute.evidence_details is None else dispute.evidence_details.due_by
    return RecordedDispute(
        reference=dispute.id,
        state=state,
        amount_minor=amount_minor,
        withdrawn_minor=amount_minor if is_taken else 0,
        reason=dispute.reason,
        opened_at=datetime.fromtimestamp(dispute.created, UTC),
        # 0: the bank allows no response.
        evidence_due=datetime.fromtimestamp(due_by, UTC) if due_by else None,
    )


def _minor(amount: int, currency: str) -> int:
    amount_minor = from_stripe_amount(amount, currency.upper())
    if amount_minor is None:
        raise PaymentNotRead(f"Stripe reports {amount} {currency}, which is no whole number of our units.")
    return amount_minor
