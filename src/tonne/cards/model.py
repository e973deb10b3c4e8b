"""Charges of cards as values: what can become of one, and when to try or to ask again. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tonne.base.settings import Settings
from tonne.gateways.card import Charged, ChargeOutcome, ChargeRequest
from tonne.gateways.payment_page import is_paid_on_page

# After each failed try the pause before the next; when they are used up, the order fails. Which of the pauses it is
# counts all tries of the order, whatever came of them.
RETRY_PLAN: Mapping[ChargeOutcome, tuple[timedelta, ...]] = {
    ChargeOutcome.DECLINED: (timedelta(hours=1), timedelta(days=1), timedelta(days=3)),
    ChargeOutcome.AUTHENTICATION_REQUIRED: (timedelta(days=1), timedelta(days=3)),
    ChargeOutcome.REFUSED: (),
    # Of a page that was never there: see `judge`.
    ChargeOutcome.NOT_FOUND: (),
}
# Nothing was tried, so no try is used up; the last pause repeats without end.
UNAVAILABLE_PAUSES = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1))

# A worker holds what it has claimed for this long. Afterwards another one asks the gateway about it, which is safe even
# while the first is still at it: an id is charged once.
LEASE = timedelta(minutes=2)
LEASE_AT_LEAST = timedelta(seconds=5)
# How long the gateway must not know of a charge before it is sent again, under its own id. Well above the time-out of a
# request: by then nothing of the first one is still on its way.
RESEND_AFTER = timedelta(minutes=10)
# The same, for one that nobody wants any more because its order is cancelled: then it is taken for never made.
FORGET_AFTER = timedelta(days=1)
# What is unclear is looked at again after as long as it has been unclear so far, within these bounds.
LOOK_AFTER_AT_LEAST = timedelta(seconds=10)
LOOK_AFTER_AT_MOST = timedelta(hours=1)

MAX_MESSAGE = 500


class ChargeStatus(StrEnum):
    PENDING = "pending"
    CAPTURED = "captured"
    FAILED = "failed"
    REFUND_DUE = "refund_due"
    REFUNDED = "refunded"
    MISMATCHED = "mismatched"


class DeclineCode(StrEnum):
    """What a bank may say, for the test helper."""

    CARD_DECLINED = "card_declined"
    INSUFFICIENT_FUNDS = "insufficient_funds"
    TRY_AGAIN_LATER = "try_again_later"
    AUTHENTICATION_REQUIRED = "authentication_required"
    EXPIRED_CARD = "expired_card"
    STOLEN_CARD = "stolen_card"
    DO_NOT_TRY_AGAIN = "do_not_try_again"


DECLINES: Mapping[DeclineCode, ChargeOutcome] = {
    DeclineCode.CARD_DECLINED: ChargeOutcome.DECLINED,
    DeclineCode.INSUFFICIENT_FUNDS: ChargeOutcome.DECLINED,
    DeclineCode.TRY_AGAIN_LATER: ChargeOutcome.DECLINED,
    DeclineCode.AUTHENTICATION_REQUIRED: ChargeOutcome.AUTHENTICATION_REQUIRED,
    DeclineCode.EXPIRED_CARD: ChargeOutcome.REFUSED,
    DeclineCode.STOLEN_CARD: ChargeOutcome.REFUSED,
    DeclineCode.DO_NOT_TRY_AGAIN: ChargeOutcome.REFUSED,
}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A pending charge, with all that asking about it needs."""

    organisation_id: str
    gateway: str
    request: ChargeRequest
    created_at: datetime
    # False when the request may have gone out before: then the gateway is asked what came of it.
    is_new: bool
    # False when its order waits for no money any more.
    is_wanted: bool = True
    missing_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Tries:
    """How often an order's card was tried, and how often the gateway was out of reach since the last try."""

    tries: int
    unavailable: int


class Pace:
    """The pauses above, in the time of this installation: tests and demonstrations let it run faster."""

    def __init__(self, settings: Settings) -> None:
        self._scale = settings.payment_time_scale

    def lease(self) -> timedelta:
        return max(LEASE_AT_LEAST, LEASE * self._scale)

    def before_next_try(self, outcome: ChargeOutcome, so_far: Tries) -> timedelta | None:
        """None when the plan is used up. `so_far` counts the charge that ended in `outcome`."""
        if outcome is ChargeOutcome.UNAVAILABLE:
            return UNAVAILABLE_PAUSES[min(so_far.unavailable, len(UNAVAILABLE_PAUSES)) - 1] * self._scale
        pauses = RETRY_PLAN[outcome]
        return pauses[so_far.tries - 1] * self._scale if so_far.tries <= len(pauses) else None

    def next_look(self, unclear_since: datetime, now: datetime) -> datetime:
        at_least, at_most = LOOK_AFTER_AT_LEAST * self._scale, LOOK_AFTER_AT_MOST * self._scale
        return now + min(max(now - unclear_since, at_least), at_most)

    def resend_at(self, missing_since: datetime) -> datetime:
        return missing_since + RESEND_AFTER * self._scale

    def forget_at(self, missing_since: datetime) -> datetime:
        return missing_since + FORGET_AFTER * self._scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a pending charge becomes: perhaps pending again, to be looked at later."""

    account_id: str
    id: str
    # The card, or the page, that the gateway was asked about.
    method: str
    status: ChargeStatus
    outcome: ChargeOutcome
    reference: str | None = None
    code: str | None
    message: str | None
    settled_at: datetime | None = None
    next_attempt_at: datetime | None = None
    missing_since: datetime | None = None


def judge(attempt: Attempt, answer: Charged, *, is_wanted: bool, now: datetime, pace: Pace) -> Change:
    """What a gateway's answer makes of a charge. `is_wanted`: its order still waits for the money, as of now."""
    status, next_attempt_at, missing_since = ChargeStatus.FAILED, None, None
    if answer.kind is ChargeOutcome.CAPTURED and answer.reference is not None:
        status = _captured(attempt.request, answer, is_wanted=is_wanted)
        next_attempt_at = now if status is ChargeStatus.REFUND_DUE else None
    elif answer.kind in {ChargeOutcome.CAPTURED, ChargeOutcome.UNKNOWN} or _is_no_answer(attempt, answer):
        status, missing_since = ChargeStatus.PENDING, attempt.missing_since
        next_attempt_at = pace.next_look(attempt.created_at, now)
    elif answer.kind is ChargeOutcome.NOT_FOUND:
        missing_since = attempt.missing_since or now
        if not _is_given_up(attempt, missing_since, is_wanted=is_wanted, now=now, pace=pace):
            status, next_attempt_at = ChargeStatus.PENDING, pace.next_look(attempt.created_at, now)
            if (resend_at := pace.resend_at(missing_since)) > now:
                next_attempt_at = min(next_attempt_at, resend_at)
    was_taken = status not in {ChargeStatus.PENDING, ChargeStatus.FAILED}
    return Change(
        account_id=attempt.request.account_id,
        id=attempt.request.id,
        method=attempt.request.card.method,
        status=status,
        outcome=answer.kind,
        reference=answer.reference if was_taken else None,
        code=_storable(answer.code),
        message=_storable(answer.message),
        settled_at=None if status is ChargeStatus.PENDING else now,
        next_attempt_at=next_attempt_at,
        missing_since=missing_since,
    )


def _is_given_up(attempt: Attempt, missing_since: datetime, *, is_wanted: bool, now: datetime, pace: Pace) -> bool:
    """Of a charge that the gateway does not know: whether it is taken for never made.

    One that is paid on the gateway's page cannot be sent again: nobody is there to type in a card. A page that has not
    turned up by then has no address that anybody could know.
    """
    if is_paid_on_page(attempt.request.card):
        return now >= pace.resend_at(missing_since)
    return not is_wanted and now >= pace.forget_at(missing_since)


def _is_no_answer(attempt: Attempt, answer: Charged) -> bool:
    """That the gateway is out of reach now says nothing about a request that went out earlier."""
    return answer.kind is ChargeOutcome.UNAVAILABLE and not attempt.is_new


def _captured(request: ChargeRequest, answer: Charged, *, is_wanted: bool) -> ChargeStatus:
    if (answer.amount_minor, answer.currency) != (request.amount_minor, request.currency):
        return ChargeStatus.MISMATCHED
    return ChargeStatus.CAPTURED if is_wanted else ChargeStatus.REFUND_DUE


def _storable(text: str | None) -> str | None:
    """Another company's words: not of any length, and without the one character that the database does not take."""
    return None if text is None else text.replace("\x00", "")[:MAX_MESSAGE]


def refund_id_of(charge_id: str) -> str:
    """The idempotency key of the refund of a charge: a charge is refunded whole, and once."""
    return f"refund_{charge_id}"
