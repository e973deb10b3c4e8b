"""Properties of the rules of refunds."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from tests.support.clock import START
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.refunds.model import (
    MAX_PENDING_DELAY,
    MIN_PENDING_DELAY,
    RETRY_DELAYS,
    Dispute,
    Refund,
    RefundMethod,
    RefundPurpose,
    RefundState,
    exceeding,
    next_look,
    refundable,
    refunded,
    retry_delay,
)
from tonne.platform.values.context import Mode, Scope

SCOPE = Scope("org_1", "acc_1", Mode.TEST)
AMOUNTS = st.integers(1, 10**12)


@st.composite
def refunds(draw: st.DrawFn) -> Refund:
    return Refund(
        scope=SCOPE,
        id=f"rfd_{draw(st.integers(0, 10**9))}",
        order_id="ord_1",
        method=RefundMethod.CARD,
        charge_id="chg_1",
        amount_minor=draw(AMOUNTS),
        currency="EUR",
        purpose=RefundPurpose.GOODWILL,
        reason="A gesture",
        state=draw(st.sampled_from(RefundState)),
        requested_by="cli:ada",
        created_at=START + timedelta(seconds=draw(st.integers(0, 1000))),
    )


@st.composite
def disputes(draw: st.DrawFn) -> Dispute:
    amount = draw(AMOUNTS)
    state = draw(st.sampled_from(DisputeState))
    return Dispute(
        scope=SCOPE,
        id="dsp_1",
        order_id="ord_1",
        charge_id="chg_1",
        reference="dp_1",
        amount_minor=amount,
        withdrawn_minor=0 if state is DisputeState.WON else amount,
        currency="EUR",
        reason="fraudulent",
        state=state,
        evidence_due=None,
        opened_at=START,
        recorded_at=START,
        closed_at=None,
    )


@given(AMOUNTS, st.lists(AMOUNTS, max_size=20), st.lists(disputes(), max_size=3))
def test_refunds_planned_one_after_the_other_never_exceed_what_is_left(
    paid: int, requested: list[int], lost: list[Dispute]
) -> None:
    planned: list[Refund] = []
    for amount in requested:
        if amount <= refundable(paid, planned, lost):
            planned.append(_due(amount))
    assert sum(each.amount_minor for each in planned) <= max(0, paid - sum(each.withdrawn_minor for each in lost))


@given(AMOUNTS, st.lists(refunds(), max_size=10), st.lists(disputes(), max_size=3))
def test_what_is_left_is_what_was_paid_without_what_is_on_its_way(
    paid: int, planned: list[Refund], lost: list[Dispute]
) -> None:
    left = refundable(paid, planned, lost)
    assert 0 <= left <= paid
    assert refunded(planned) <= sum(each.amount_minor for each in planned if each.is_active)


@given(AMOUNTS, st.lists(refunds(), max_size=10, unique_by=lambda each: each.id), st.lists(disputes(), max_size=3))
def test_cancelling_what_exceeds_makes_the_rest_fit_unless_it_is_at_the_gateway_already(
    paid: int, planned: list[Refund], lost: list[Dispute]
) -> None:
    surplus = exceeding(paid, planned, lost)
    assert all(each.state in {RefundState.APPROVAL, RefundState.DUE} for each in surplus)
    kept = [each for each in planned if each not in surplus]
    available = max(0, paid - sum(each.withdrawn_minor for each in lost))
    active = sum(each.amount_minor for each in kept if each.is_active)
    waiting = any(each.state in {RefundState.APPROVAL, RefundState.DUE} for each in kept)
    assert active <= available or not waiting
    if surplus:
        # None is cancelled without need: with the last one, the rest did not fit.
        assert active + surplus[-1].amount_minor > available


@given(st.integers(1, 10_000))
def test_attempts_become_rarer_and_never_end(attempt: int) -> None:
    assert RETRY_DELAYS[0] <= retry_delay(attempt) <= retry_delay(attempt + 1) <= RETRY_DELAYS[-1]


@given(st.integers(-100, 10_000))
def test_a_pending_refund_is_looked_at_within_the_bounds(minutes: int) -> None:
    now = START + timedelta(minutes=minutes)
    assert MIN_PENDING_DELAY <= next_look(START, now) - now <= MAX_PENDING_DELAY


def _due(amount_minor: int) -> Refund:
    return Refund(
        scope=SCOPE,
        id="rfd_1",
        order_id="ord_1",
        method=RefundMethod.CARD,
        charge_id="chg_1",
        amount_minor=amount_minor,
        currency="EUR",
        purpose=RefundPurpose.GOODWILL,
        reason="A gesture",
        state=RefundState.DUE,
        requested_by="cli:ada",
        created_at=START,
    )
