"""The rules of card charges: their states, and when to retry or to look up again. No I/O."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.money.cards.gateways.card import (
    MODE_MISMATCH,
    ChargeOutcome,
    ChargeRequest,
    ChargeResult,
    HostedPage,
    StoredCard,
)
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace

# Delays before the second, third, … attempt, by the outcome of the last one. After the last delay the order fails.
RETRY_DELAYS: Mapping[ChargeOutcome, tuple[timedelta, ...]] = {
    ChargeOutcome.DECLINED: (timedelta(hours=1), timedelta(days=1), timedelta(days=3)),
    # On a hosted page: the buyer decides whether to try again. A stored card waits for the payer, see `decide_charge`.
    ChargeOutcome.AUTHENTICATION_REQUIRED: (),
    ChargeOutcome.REFUSED: (),
    # A hosted page that was never opened: see `decide_charge`.
    ChargeOutcome.NOT_FOUND: (),
}
# An unavailable gateway uses up no attempt; the last delay repeats indefinitely.
UNAVAILABLE_DELAYS = (timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=15), timedelta(hours=1))

# How long a worker holds a claimed charge. Then another worker looks it up, which is safe even while the first one is
# still at work: the gateway charges an id once.
LEASE = timedelta(minutes=2)
MIN_LEASE = timedelta(seconds=5)
# A charge that the gateway has not known for this long is sent again under its own id. Well above the request time-out:
# by then the first request can no longer arrive.
RESEND_AFTER = timedelta(minutes=10)
# A charge of a cancelled order that the gateway has not known for this long is recorded as never made.
GIVE_UP_AFTER = timedelta(days=1)
# An unclear charge is looked up again after as long as it has been unclear so far, within these bounds.
MIN_CHECK_DELAY = timedelta(seconds=10)
MAX_CHECK_DELAY = timedelta(hours=1)

# How long a buyer may stay at the simulated bank. Live, the gateway's page asks for the confirmation.
CONFIRM_AT_CHECKOUT = timedelta(minutes=30)

MAX_MESSAGE = 500


class ChargeStatus(StrEnum):
    PENDING = "pending"
    CAPTURED = "captured"
    FAILED = "failed"
    REFUND_DUE = "refund_due"
    REFUNDED = "refunded"
    MISMATCHED = "mismatched"


class DeclineCode(StrEnum):
    """Decline codes of the test helper."""

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


class ChargeAttempt(Struct, frozen=True):
    """A pending charge with everything needed to call the gateway."""

    organisation_id: str
    gateway: str
    request: ChargeRequest
    created_at: datetime
    # False if the request may have been sent already: then the charge is looked up first.
    is_new: bool
    # False if its order no longer waits for the payment.
    is_wanted: bool = True
    missing_since: datetime | None = None
    # Until when the payer may confirm it; None unless it waits for that.
    confirm_until: datetime | None = None
    # The account has another card now.
    is_replaced: bool = False


class TryCounts(Struct, frozen=True):
    """How often an order's card was tried, and how often the gateway was unavailable since the last try."""

    tries: int
    unavailable: int


class RetrySchedule:
    """The delays above, scaled by the setting `payment_time_scale`, which shortens them in tests and demonstrations."""

    def __init__(self, settings: Settings) -> None:
        self._scale = settings.payment_time_scale
        self._confirm_within = timedelta(days=settings.card_confirm_days)

    def lease(self) -> timedelta:
        return max(MIN_LEASE, LEASE * self._scale)

    def retry_delay(self, outcome: ChargeOutcome, counts: TryCounts) -> timedelta | None:
        """None after the last attempt. `counts` includes the charge that ended in `outcome`."""
        if outcome is ChargeOutcome.UNAVAILABLE:
            return UNAVAILABLE_DELAYS[min(counts.unavailable, len(UNAVAILABLE_DELAYS)) - 1] * self._scale
        if outcome is ChargeOutcome.REPLACED:
            return timedelta(0)
        delays = RETRY_DELAYS[outcome]
        return delays[counts.tries - 1] * self._scale if counts.tries <= len(delays) else None

    def next_check(self, unclear_since: datetime, now: datetime) -> datetime:
        delay = min(max(now - unclear_since, MIN_CHECK_DELAY * self._scale), MAX_CHECK_DELAY * self._scale)
        return now + delay

    def confirm_until(self, now: datetime, *, at_checkout: bool) -> datetime:
        """The end of the time in which the payer may confirm a charge that needs it since `now`."""
        return now + (CONFIRM_AT_CHECKOUT if at_checkout else self._confirm_within) * self._scale

    def resend_at(self, missing_since: datetime) -> datetime:
        return missing_since + RESEND_AFTER * self._scale

    def give_up_at(self, missing_since: datetime) -> datetime:
        return missing_since + GIVE_UP_AFTER * self._scale


class ChargeUpdate(Struct, frozen=True, kw_only=True):
    """The new state of a pending charge. It may stay pending, to be looked up again later."""

    account_id: str
    id: str
    # The id of the hosted page that was looked up, if it was known then.
    session_id: str | None = None
    status: ChargeStatus
    outcome: ChargeOutcome
    reference: str | None = None
    code: str | None
    message: str | None
    settled_at: datetime | None = None
    next_attempt_at: datetime | None = None
    missing_since: datetime | None = None
    confirm_until: datetime | None = None
    # What the gateway captured, if it did, and when to read its record of refunds.
    captured_minor: int | None = None
    captured_currency: str | None = None
    card_country: str | None = None
    check_at: datetime | None = None

    @property
    def needs_confirmation(self) -> bool:
        return self.status is ChargeStatus.PENDING and self.outcome is ChargeOutcome.AUTHENTICATION_REQUIRED

    @property
    def is_surplus(self) -> bool:
        return self.status is ChargeStatus.REFUND_DUE


def decide_charge(
    attempt: ChargeAttempt,
    result: ChargeResult,
    *,
    is_wanted: bool,
    at_checkout: bool = False,
    now: datetime,
    schedule: RetrySchedule,
) -> ChargeUpdate:
    """Translate a gateway's result into the charge's new state. `is_wanted`: its order still waits for the payment.

    The payer may confirm the charge of a stored card until it expires: `at_checkout` at once, otherwise by a link in
    a mail. It is not made a second time meanwhile, because the first one can still succeed; the worker cancels it at
    the gateway before it fails here.
    """
    status, next_attempt_at, missing_since = ChargeStatus.FAILED, None, None
    confirm_until = attempt.confirm_until
    if result.kind is ChargeOutcome.CAPTURED and result.reference is not None:
        status = _captured(attempt.request, result, is_wanted=is_wanted)
        if result.mode is not attempt.request.mode:
            result = replace(result, code=MODE_MISMATCH, message="The gateway captured it in its other mode.")
    elif result.kind is ChargeOutcome.AUTHENTICATION_REQUIRED and isinstance(attempt.request.source, StoredCard):
        status = ChargeStatus.PENDING
        confirm_until = confirm_until or schedule.confirm_until(now, at_checkout=at_checkout)
        next_attempt_at = min(schedule.next_check(attempt.created_at, now), max(confirm_until, now))
        if not is_wanted:
            next_attempt_at = now
    elif result.kind in {ChargeOutcome.CAPTURED, ChargeOutcome.UNKNOWN} or _is_inconclusive(attempt, result):
        status, missing_since = ChargeStatus.PENDING, attempt.missing_since
        next_attempt_at = schedule.next_check(attempt.created_at, now)
    elif result.kind is ChargeOutcome.NOT_FOUND:
        missing_since = attempt.missing_since or now
        if not _is_given_up(attempt, missing_since, is_wanted=is_wanted, now=now, schedule=schedule):
            status, next_attempt_at = ChargeStatus.PENDING, schedule.next_check(attempt.created_at, now)
            if (resend_at := schedule.resend_at(missing_since)) > now:
                next_attempt_at = min(next_attempt_at, resend_at)
    source = attempt.request.source
    was_taken = status not in {ChargeStatus.PENDING, ChargeStatus.FAILED}
    has_refunds = status is ChargeStatus.REFUND_DUE or (was_taken and result.refunded_minor > 0)
    return ChargeUpdate(
        account_id=attempt.request.account_id,
        id=attempt.request.id,
        session_id=source.session_id if isinstance(source, HostedPage) else None,
        status=status,
        outcome=result.kind,
        reference=result.reference if was_taken else None,
        code=_storable(result.code),
        message=_storable(result.message),
        settled_at=None if status is ChargeStatus.PENDING else now,
        next_attempt_at=next_attempt_at,
        missing_since=missing_since,
        confirm_until=confirm_until,
        captured_minor=result.amount_minor if was_taken else None,
        captured_currency=_storable(result.currency) if was_taken else None,
        card_country=_storable(result.card_country) if was_taken else None,
        check_at=now if has_refunds else None,
    )


def _is_given_up(
    attempt: ChargeAttempt, missing_since: datetime, *, is_wanted: bool, now: datetime, schedule: RetrySchedule
) -> bool:
    """Whether a charge that the gateway does not know is recorded as never made.

    A worker cannot resend a charge of a hosted page: a person has to enter the card. If the page is still missing when
    other charges are resent, nobody can know its URL.
    """
    if isinstance(attempt.request.source, HostedPage):
        return now >= schedule.resend_at(missing_since)
    return not is_wanted and now >= schedule.give_up_at(missing_since)


def _is_inconclusive(attempt: ChargeAttempt, result: ChargeResult) -> bool:
    """An unavailable gateway says nothing about a request that was sent earlier."""
    return result.kind is ChargeOutcome.UNAVAILABLE and not attempt.is_new


def _captured(request: ChargeRequest, result: ChargeResult, *, is_wanted: bool) -> ChargeStatus:
    """A payment of Stripe's test mode never pays for a live order, nor the reverse.

    One that was wholly refunded at the gateway meanwhile pays for nothing.
    """
    found = (result.mode, result.amount_minor, result.currency)
    if found != (request.mode, request.amount_minor, request.currency):
        return ChargeStatus.MISMATCHED
    is_kept = result.refunded_minor < request.amount_minor
    return ChargeStatus.CAPTURED if is_wanted and is_kept else ChargeStatus.REFUND_DUE


def _storable(text: str | None) -> str | None:
    """Third-party text, truncated and without NUL, which PostgreSQL rejects."""
    return None if text is None else text.replace("\x00", "")[:MAX_MESSAGE]
