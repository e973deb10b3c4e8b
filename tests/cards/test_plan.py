"""The plan of retries and the judgement of answers, without a database."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.world import START
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.cards.model import (
    DECLINES,
    LOOK_AFTER_AT_MOST,
    RETRY_PLAN,
    Attempt,
    ChargeStatus,
    DeclineCode,
    Pace,
    Tries,
    judge,
    refund_id_of,
)
from tonne.gateways.card import Card, Charged, ChargeOutcome, ChargeRequest
from tonne.gateways.payment_page import PAGE_TO_COME

PACE = Pace(Settings())
REQUEST = ChargeRequest(
    id="chg_1",
    order_id="ord_1",
    account_id="acc_1",
    mode=Mode.TEST,
    amount_minor=2778,
    currency="EUR",
    card=Card("cus_1", "4242424242424242"),
    description="Order ord_1",
)
FIRST = Attempt("org_1", "simulated", REQUEST, START, is_new=True)
LATER = replace(FIRST, is_new=False)
TAKEN = Charged(ChargeOutcome.CAPTURED, "ref_1", 2778, "EUR")


def test_the_plan_in_words() -> None:
    hours = {outcome: [int(pause / timedelta(hours=1)) for pause in pauses] for outcome, pauses in RETRY_PLAN.items()}
    assert hours == {
        ChargeOutcome.DECLINED: [1, 24, 72],
        ChargeOutcome.AUTHENTICATION_REQUIRED: [24, 72],
        ChargeOutcome.REFUSED: [],
        ChargeOutcome.NOT_FOUND: [],
    }


@pytest.mark.parametrize("outcome", RETRY_PLAN)
def test_every_plan_comes_to_its_end(outcome: ChargeOutcome) -> None:
    pauses = [PACE.before_next_try(outcome, Tries(tries, 0)) for tries in range(1, 8)]
    assert pauses[: len(RETRY_PLAN[outcome])] == list(RETRY_PLAN[outcome])
    assert set(pauses[len(RETRY_PLAN[outcome]) :]) == {None}


def test_an_outage_has_no_end() -> None:
    minutes = [
        (PACE.before_next_try(ChargeOutcome.UNAVAILABLE, Tries(3, count)) or timedelta()) // timedelta(minutes=1)
        for count in (1, 2, 3, 4, 5, 1000)
    ]
    assert minutes == [1, 5, 15, 60, 60, 60]


def test_all_pauses_are_scaled_but_a_lease_stays_long_enough_to_work_in() -> None:
    fast = Pace(Settings(payment_time_scale=0.01))
    assert fast.before_next_try(ChargeOutcome.DECLINED, Tries(1, 0)) == timedelta(seconds=36)
    assert fast.before_next_try(ChargeOutcome.UNAVAILABLE, Tries(0, 1)) == timedelta(seconds=0.6)
    assert fast.resend_at(START) == START + timedelta(seconds=6)
    assert fast.lease() == timedelta(seconds=5)
    assert PACE.lease() == timedelta(minutes=2)


def test_what_is_unclear_is_looked_at_less_and_less_often() -> None:
    looks, now = [], START
    for _ in range(14):
        following = PACE.next_look(START, now)
        looks.append((following - now).total_seconds())
        now = following
    assert looks[:4] == [10, 10, 20, 40]
    assert looks == sorted(looks)
    assert looks[-1] == LOOK_AFTER_AT_MOST.total_seconds()
    assert PACE.next_look(START, START - timedelta(days=1)) > START - timedelta(days=1), "clocks jump"


def test_money_for_an_order_that_waits_and_for_one_that_does_not() -> None:
    wanted = judge(FIRST, TAKEN, is_wanted=True, now=START, pace=PACE)
    assert (wanted.status, wanted.reference, wanted.next_attempt_at) == (ChargeStatus.CAPTURED, "ref_1", None)
    unwanted = judge(LATER, TAKEN, is_wanted=False, now=START, pace=PACE)
    assert (unwanted.status, unwanted.next_attempt_at) == (ChargeStatus.REFUND_DUE, START)


@pytest.mark.parametrize(
    "answer",
    [
        replace(TAKEN, amount_minor=2779),
        replace(TAKEN, amount_minor=None),
        replace(TAKEN, currency="USD"),
        replace(TAKEN, currency=None),
    ],
)
def test_any_other_amount_is_a_mismatch(answer: Charged) -> None:
    for is_wanted in (True, False):
        change = judge(FIRST, answer, is_wanted=is_wanted, now=START, pace=PACE)
        assert (change.status, change.reference) == (ChargeStatus.MISMATCHED, "ref_1")


def test_money_that_has_no_name_at_the_gateway_is_asked_about() -> None:
    change = judge(FIRST, replace(TAKEN, reference=None), is_wanted=True, now=START, pace=PACE)
    assert change.status is ChargeStatus.PENDING
    assert change.next_attempt_at is not None


def test_unavailable_closes_a_charge_only_when_nothing_was_sent_before() -> None:
    answer = Charged(ChargeOutcome.UNAVAILABLE)
    assert judge(FIRST, answer, is_wanted=True, now=START, pace=PACE).status is ChargeStatus.FAILED
    assert judge(LATER, answer, is_wanted=True, now=START, pace=PACE).status is ChargeStatus.PENDING


def test_a_decline_names_no_money_and_hostile_words_are_cut() -> None:
    answer = Charged(ChargeOutcome.DECLINED, "pi_1", code="no\x00", message="x" * 10_000)
    change = judge(FIRST, answer, is_wanted=True, now=START, pace=PACE)
    assert (change.status, change.reference, change.code) == (ChargeStatus.FAILED, None, "no")
    assert len(change.message or "") == 500


def test_not_knowing_does_not_begin_the_wait_for_sending_again_anew() -> None:
    missing = replace(LATER, missing_since=START)
    unknown = judge(missing, Charged(ChargeOutcome.UNKNOWN), is_wanted=True, now=START, pace=PACE)
    assert unknown.missing_since == START
    not_found = judge(
        missing, Charged(ChargeOutcome.NOT_FOUND), is_wanted=True, now=START + timedelta(minutes=9), pace=PACE
    )
    assert (not_found.missing_since, not_found.next_attempt_at) == (START, START + timedelta(minutes=10))


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("card", [PAGE_TO_COME, Card("", "cs_1")])
def test_a_charge_whose_page_does_not_turn_up_is_given_up_when_another_would_be_sent_again(
    card: Card, is_wanted: bool
) -> None:
    attempt = replace(LATER, request=replace(REQUEST, card=card), missing_since=START)
    missing = Charged(ChargeOutcome.NOT_FOUND)
    just_before, then = START + timedelta(minutes=10, milliseconds=-1), START + timedelta(minutes=10)
    waiting = judge(attempt, missing, is_wanted=is_wanted, now=just_before, pace=PACE)
    assert (waiting.status, waiting.next_attempt_at, waiting.method) == (ChargeStatus.PENDING, then, card.method)
    over = judge(attempt, missing, is_wanted=is_wanted, now=then, pace=PACE)
    assert (over.status, over.outcome, over.next_attempt_at) == (ChargeStatus.FAILED, ChargeOutcome.NOT_FOUND, None)
    assert judge(LATER, missing, is_wanted=True, now=START + timedelta(days=9), pace=PACE).status == "pending"


def test_the_helper_knows_what_every_code_means_and_a_refund_has_one_name() -> None:
    assert set(DECLINES) == set(DeclineCode)
    assert refund_id_of("chg_1") == refund_id_of("chg_1") != refund_id_of("chg_2")
