"""Refunds and disputes as Stripe reports them. localstripe has no disputes: a stand-in adds them."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest
import stripe

from tests.money.cards.gateways.fake_stripe import FakeStripe, Responder, fake_stripe, intent, page, refund, respond
from tests.money.cards.gateways.gateway_under_test import KEY, request, stripe_under_test
from tests.support.stripe_disputes import change_refund_at_stripe, dispute_at_stripe
from tonne.money.cards.gateways.card import DisputeState, PaymentNotRead, RefundOutcome
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.gateways.stripe_payments import (
    DisputeObject,
    EvidenceObject,
    RefundObject,
    recorded_dispute,
    recorded_refund,
)
from tonne.platform.values.context import utc_now

T = TypeVar("T")


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


def test_a_dispute_that_cannot_be_answered_has_no_date() -> None:
    """Stripe says 0 if the bank allows no response."""
    assert recorded_dispute(_dispute(evidence_details=EvidenceObject(due_by=0))).evidence_due is None


async def _at(server: FakeStripe, work: Callable[[StripeCardGateway], Awaitable[T]]) -> T:
    gateway = StripeCardGateway(KEY, server.url)
    try:
        return await work(gateway)
    finally:
        await gateway.close()


async def test_a_dispute_in_another_currency_concerns_the_whole_payment() -> None:
    """Its amount is in the bank's currency, and says nothing in ours."""
    async with fake_stripe() as server:
        made = msgspec.to_builtins(_dispute(amount=2_600, currency="usd", payment_intent="pi_1"))
        server.respond_with(
            respond(200, intent()), page(made, url="/v1/disputes"), page(url="/v1/refunds"), page(url="/v1/refunds")
        )
        payment = await _at(server, lambda gateway: gateway.read_payment("pi_1"))
    [dispute] = payment.disputes
    assert (dispute.amount_minor, dispute.withdrawn_minor) == (1999, 1999)


def _pages(url: str, kind: Callable[[int], dict[str, Any]], count: int) -> list[Responder]:
    objects = [kind(number) for number in range(count)]
    starts = range(0, count, 100)
    return [page(*objects[start : start + 100], url=url, has_more=start + 100 < count) for start in starts]


async def test_polling_reads_all_pages_of_refunds_and_disputes() -> None:
    def made(prefix: str) -> Callable[[int], dict[str, Any]]:
        return lambda number: {"id": f"{prefix}_{number}", "object": prefix, "payment_intent": f"pi_{prefix}_{number}"}

    async with fake_stripe() as server:
        server.respond_with(*_pages("/v1/refunds", made("re"), 250), *_pages("/v1/disputes", made("dp"), 101))
        since = datetime(2026, 3, 1, tzinfo=UTC)
        found = await _at(server, lambda gateway: gateway.list_changed(since))
    assert found == {f"pi_re_{number}" for number in range(250)} | {f"pi_dp_{number}" for number in range(101)}
    asked = [(each.path, each.fields.get("starting_after")) for each in server.requests]
    assert asked == [
        ("/v1/refunds", None),
        ("/v1/refunds", "re_99"),
        ("/v1/refunds", "re_199"),
        ("/v1/disputes", None),
        ("/v1/disputes", "dp_99"),
    ]
    assert {each.fields["created[gte]"] for each in server.requests} == {str(int(since.timestamp()))}


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
