"""Refunds and disputes as Stripe reports them. localstripe has no disputes: a stand-in adds them."""

from typing import Any

import msgspec
import pytest
import stripe

from tests.gateways.fake_stripe import refund
from tests.gateways.gateway_under_test import request, stripe_under_test
from tests.support.stripe_disputes import change_refund_at_stripe, dispute_at_stripe
from tonne.base.clock import utc_now
from tonne.gateways.card_refund import RefundOutcome
from tonne.gateways.payment_record import DisputeState, PaymentNotRead
from tonne.gateways.stripe_payments import DisputeObject, RefundObject, recorded_dispute, recorded_refund


def _dispute(**fields: Any) -> DisputeObject:
    made = {"id": "dp_1", "status": "needs_response", "amount": 1999, "currency": "eur", "created": 1, **fields}
    assert set(made) <= set(stripe.Dispute.__annotations__)
    return DisputeObject(**made)


@pytest.mark.parametrize(
    ("status", "state", "withdrawn"),
    [
        ("needs_response", DisputeState.OPENED, 1999),
        ("under_review", DisputeState.OPENED, 1999),
        ("a status of tomorrow", DisputeState.OPENED, 1999),
        ("warning_needs_response", DisputeState.OPENED, 0),
        ("warning_under_review", DisputeState.OPENED, 0),
        ("warning_closed", DisputeState.WON, 0),
        ("prevented", DisputeState.WON, 0),
        ("won", DisputeState.WON, 0),
        ("lost", DisputeState.LOST, 1999),
    ],
)
def test_the_state_of_a_dispute_and_the_money_it_took(status: str, state: DisputeState, withdrawn: int) -> None:
    found = recorded_dispute(_dispute(status=status))
    assert (found.state, found.amount_minor, found.withdrawn_minor) == (state, 1999, withdrawn)


def test_amounts_are_in_our_units() -> None:
    assert recorded_dispute(_dispute(amount=700, currency="isk")).amount_minor == 7
    with pytest.raises(PaymentNotRead, match="no whole number"):
        recorded_dispute(_dispute(amount=701, currency="isk"))
    made = msgspec.convert(refund(amount=500, currency="jpy"), RefundObject)
    assert recorded_refund(made).amount_minor == 500


async def test_disputes_and_later_failures_are_in_the_record(localstripe_url: str) -> None:
    async with stripe_under_test(localstripe_url) as subject:
        charged = await subject.gateway.charge(request(await subject.card()))
        assert charged.reference
        made = await subject.gateway.refund("rfd_1", charged.reference, 500, "EUR")
        await dispute_at_stripe(localstripe_url, charged.reference, "needs_response", 1499)
        payment = await subject.gateway.read_payment(charged.reference)
        [dispute] = payment.disputes
        assert (dispute.state, dispute.withdrawn_minor, dispute.reason) == (DisputeState.OPENED, 1499, "fraudulent")
        assert dispute.evidence_due is not None
        assert dispute.evidence_due > utc_now()
        assert made.reference
        await change_refund_at_stripe(localstripe_url, made.reference, "failed")
        await dispute_at_stripe(localstripe_url, charged.reference, "lost", 1499)
        payment = await subject.gateway.read_payment(charged.reference)
        assert [each.kind for each in payment.refunds] == [RefundOutcome.FAILED]
        assert [each.state for each in payment.disputes] == [DisputeState.LOST]
        assert (await subject.gateway.refund("rfd_1", charged.reference, 500, "EUR")).kind is RefundOutcome.FAILED
