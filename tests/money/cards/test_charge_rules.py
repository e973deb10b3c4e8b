"""The retry schedule and the rules for results, without a database."""

from datetime import timedelta

import pytest

from tests.support.clock import START
from tonne.money.cards.gateways.card import ChargeOutcome, ChargeRequest, ChargeResult, HostedPage, StoredCard
from tonne.money.cards.model import (
    DECLINES,
    MAX_CHECK_DELAY,
    RETRY_DELAYS,
    ChargeAttempt,
    ChargeStatus,
    DeclineCode,
    RetrySchedule,
    TryCounts,
    decide_charge,
)
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, replace

SCHEDULE = RetrySchedule(Settings())
REQUEST = ChargeRequest(
    id="chg_1",
    order_id="ord_1",
    account_id="acc_1",
    mode=Mode.TEST,
    amount_minor=2778,
    currency="EUR",
    source=StoredCard("cus_1", "4242424242424242"),
)
FIRST = ChargeAttempt("org_1", "simulated", REQUEST, START, is_new=True)
LATER = replace(FIRST, is_new=False)
TAKEN = ChargeResult(ChargeOutcome.CAPTURED, "ref_1", 2778, "EUR", mode=Mode.TEST)


def test_the_retry_delays() -> None:
    hours = {outcome: [int(pause / timedelta(hours=1)) for pause in pauses] for outcome, pauses in RETRY_DELAYS.items()}
    assert hours == {
        ChargeOutcome.DECLINED: [1, 24, 72],
        ChargeOutcome.AUTHENTICATION_REQUIRED: [],
        ChargeOutcome.REFUSED: [],
        ChargeOutcome.NOT_FOUND: [],
    }


@pytest.mark.parametrize("outcome", RETRY_DELAYS)
def test_every_list_of_delays_ends(outcome: ChargeOutcome) -> None:
    pauses = [SCHEDULE.retry_delay(outcome, TryCounts(tries, 0)) for tries in range(1, 8)]
    assert pauses[: len(RETRY_DELAYS[outcome])] == list(RETRY_DELAYS[outcome])
    assert set(pauses[len(RETRY_DELAYS[outcome]) :]) == {None}


def test_an_unavailable_gateway_is_retried_without_limit() -> None:
    minutes = [
        (SCHEDULE.retry_delay(ChargeOutcome.UNAVAILABLE, TryCounts(3, count)) or timedelta()) // timedelta(minutes=1)
        for count in (1, 2, 3, 4, 5, 1000)
    ]
    assert minutes == [1, 5, 15, 60, 60, 60]


def test_all_delays_are_scaled_and_a_lease_has_a_minimum() -> None:
    fast = RetrySchedule(Settings(payment_time_scale=0.01))
    assert fast.retry_delay(ChargeOutcome.DECLINED, TryCounts(1, 0)) == timedelta(seconds=36)
    assert fast.retry_delay(ChargeOutcome.UNAVAILABLE, TryCounts(0, 1)) == timedelta(seconds=0.6)
    assert fast.resend_at(START) == START + timedelta(seconds=6)
    assert fast.lease() == timedelta(seconds=5)
    assert SCHEDULE.lease() == timedelta(minutes=2)


def test_an_unclear_charge_is_looked_up_less_and_less_often() -> None:
    looks, now = [], START
    for _ in range(14):
        following = SCHEDULE.next_check(START, now)
        looks.append((following - now).total_seconds())
        now = following
    assert looks[:4] == [10, 10, 20, 40]
    assert looks == sorted(looks)
    assert looks[-1] == MAX_CHECK_DELAY.total_seconds()
    assert SCHEDULE.next_check(START, START - timedelta(days=1)) > START - timedelta(days=1), "clocks jump"


def test_a_capture_pays_a_placed_order_and_is_refunded_otherwise() -> None:
    requested = decide_charge(FIRST, TAKEN, is_wanted=True, now=START, schedule=SCHEDULE)
    assert (requested.status, requested.reference, requested.next_attempt_at) == (ChargeStatus.CAPTURED, "ref_1", None)
    unwanted = decide_charge(LATER, TAKEN, is_wanted=False, now=START, schedule=SCHEDULE)
    assert (unwanted.status, unwanted.check_at, unwanted.is_surplus) == (ChargeStatus.REFUND_DUE, START, True)
    assert (requested.check_at, requested.is_surplus, requested.captured_minor) == (None, False, TAKEN.amount_minor)


def test_a_capture_that_was_refunded_at_the_gateway_meanwhile_pays_only_with_what_is_left() -> None:
    assert TAKEN.amount_minor is not None
    partly = replace(TAKEN, refunded_minor=TAKEN.amount_minor - 1)
    kept = decide_charge(LATER, partly, is_wanted=True, now=START, schedule=SCHEDULE)
    assert (kept.status, kept.check_at) == (ChargeStatus.CAPTURED, START)
    wholly = replace(TAKEN, refunded_minor=TAKEN.amount_minor)
    gone = decide_charge(LATER, wholly, is_wanted=True, now=START, schedule=SCHEDULE)
    assert (gone.status, gone.check_at, gone.is_surplus) == (ChargeStatus.REFUND_DUE, START, True)


@pytest.mark.parametrize(
    "answer",
    [
        replace(TAKEN, amount_minor=2779),
        replace(TAKEN, amount_minor=None),
        replace(TAKEN, currency="USD"),
        replace(TAKEN, currency=None),
    ],
)
def test_any_other_amount_is_a_mismatch(answer: ChargeResult) -> None:
    for is_wanted in (True, False):
        change = decide_charge(FIRST, answer, is_wanted=is_wanted, now=START, schedule=SCHEDULE)
        assert (change.status, change.reference) == (ChargeStatus.MISMATCHED, "ref_1")


def test_a_capture_without_a_reference_is_looked_up_again() -> None:
    change = decide_charge(FIRST, replace(TAKEN, reference=None), is_wanted=True, now=START, schedule=SCHEDULE)
    assert change.status is ChargeStatus.PENDING
    assert change.next_attempt_at is not None


def test_unavailable_fails_a_charge_only_if_nothing_was_sent_before() -> None:
    answer = ChargeResult(ChargeOutcome.UNAVAILABLE)
    assert decide_charge(FIRST, answer, is_wanted=True, now=START, schedule=SCHEDULE).status is ChargeStatus.FAILED
    assert decide_charge(LATER, answer, is_wanted=True, now=START, schedule=SCHEDULE).status is ChargeStatus.PENDING


def test_a_decline_has_no_reference_and_its_message_is_truncated() -> None:
    answer = ChargeResult(ChargeOutcome.DECLINED, "pi_1", code="no\x00", message="x" * 10_000)
    change = decide_charge(FIRST, answer, is_wanted=True, now=START, schedule=SCHEDULE)
    assert (change.status, change.reference, change.code) == (ChargeStatus.FAILED, None, "no")
    assert len(change.message or "") == 500


def test_unknown_does_not_restart_the_wait_before_a_resend() -> None:
    missing = replace(LATER, missing_since=START)
    unknown = decide_charge(missing, ChargeResult(ChargeOutcome.UNKNOWN), is_wanted=True, now=START, schedule=SCHEDULE)
    assert unknown.missing_since == START
    not_found = decide_charge(
        missing,
        ChargeResult(ChargeOutcome.NOT_FOUND),
        is_wanted=True,
        now=START + timedelta(minutes=9),
        schedule=SCHEDULE,
    )
    assert (not_found.missing_since, not_found.next_attempt_at) == (START, START + timedelta(minutes=10))


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("page", [HostedPage(), HostedPage("cs_1")])
def test_a_charge_whose_page_is_missing_fails_when_others_are_resent(page: HostedPage, is_wanted: bool) -> None:
    attempt = replace(LATER, request=replace(REQUEST, source=page), missing_since=START)
    missing = ChargeResult(ChargeOutcome.NOT_FOUND)
    just_before, then = START + timedelta(minutes=10, milliseconds=-1), START + timedelta(minutes=10)
    waiting = decide_charge(attempt, missing, is_wanted=is_wanted, now=just_before, schedule=SCHEDULE)
    assert (waiting.status, waiting.next_attempt_at, waiting.session_id) == (
        ChargeStatus.PENDING,
        then,
        page.session_id,
    )
    over = decide_charge(attempt, missing, is_wanted=is_wanted, now=then, schedule=SCHEDULE)
    assert (over.status, over.outcome, over.next_attempt_at) == (ChargeStatus.FAILED, ChargeOutcome.NOT_FOUND, None)
    assert (
        decide_charge(LATER, missing, is_wanted=True, now=START + timedelta(days=9), schedule=SCHEDULE).status
        == "pending"
    )


def test_every_decline_code_has_an_outcome() -> None:
    assert set(DECLINES) == set(DeclineCode)
