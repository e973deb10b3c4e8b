"""When a registry is asked, and what its answers mean: no unit is ever retired twice. No I/O.

A request may be lost, late or doubled, and so may its answer. `in_doubt` counts the copies that were sent and have no
definite answer: while there is one, a refusal of another copy proves nothing.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import Struct

from tonne.platform.values.context import replace
from tonne.supply.registries.gateway import Answer, Outcome

FIRST_LOOK = timedelta(seconds=10)
LONGEST_WAIT = timedelta(hours=1)
# A request that the registry does not know by then will not arrive, and may be repeated.
RESEND_AFTER = timedelta(minutes=10)
_MAX_DOUBLINGS = 9
_DEFINITE = frozenset({Outcome.RETIRED, Outcome.PENDING, Outcome.DECLINED, Outcome.UNAVAILABLE})


class State(StrEnum):
    RECORDED = "recorded"
    ASKED = "asked"
    PENDING = "pending"
    RETIRED = "retired"
    DECLINED = "declined"


CLOSED = frozenset({State.RETIRED, State.DECLINED})


class RequestProgress(Struct, frozen=True):
    state: State
    in_doubt: int = 0
    sent_at: datetime | None = None


def asked(progress: RequestProgress, now: datetime) -> RequestProgress:
    """To be committed before the request leaves."""
    return RequestProgress(State.ASKED, progress.in_doubt + 1, now)


def given_back(progress: RequestProgress) -> RequestProgress:
    """A recorded request that is never sent: no copy of it is on its way."""
    if progress.state is not State.RECORDED or progress.in_doubt:
        raise ValueError("the request may be on its way")
    return replace(progress, state=State.DECLINED)


def answered(progress: RequestProgress, answer: Answer, *, by_request: bool) -> RequestProgress:
    """`by_request`: the answer of a request; otherwise that of a look-up."""
    if progress.state in CLOSED:
        return progress
    outcome = answer.outcome
    if by_request and outcome in _DEFINITE:
        progress = replace(progress, in_doubt=max(0, progress.in_doubt - 1))
    if outcome in {Outcome.RETIRED, Outcome.PENDING}:
        return replace(progress, state=State(outcome))
    if outcome is Outcome.DECLINED and _is_final(progress, answer, by_request=by_request):
        return replace(progress, state=State.DECLINED)
    never_arrived = by_request and outcome is Outcome.UNAVAILABLE and not progress.in_doubt
    if never_arrived and progress.state is State.ASKED:
        return replace(progress, state=State.RECORDED)
    return progress


def _is_final(progress: RequestProgress, answer: Answer, *, by_request: bool) -> bool:
    if progress.state is State.PENDING and by_request:
        # Only the registry's own record closes what it has accepted.
        return False
    return answer.is_final or not progress.in_doubt


def may_resend(progress: RequestProgress, answer: Answer, now: datetime) -> bool:
    """Whether the same request may be sent again after this look-up. Never once the registry has accepted it."""
    is_lost = answer.outcome is Outcome.NOT_FOUND and progress.state is State.ASKED
    return is_lost and progress.sent_at is not None and now - progress.sent_at >= RESEND_AFTER


def may_settle(progress: RequestProgress, *, seen: State | None, found_at: datetime) -> bool:
    """Whether what a person found at the registry then counts: all copies had arrived, and nothing has happened since.

    `seen`: the state of the request at that time.
    """
    return progress.state is seen and progress.sent_at is not None and found_at - progress.sent_at >= RESEND_AFTER


def next_look(progress: RequestProgress, looks: int, now: datetime) -> datetime:
    """After so many requests and look-ups. Not later than it may be sent again: its holding is blocked until then."""
    doublings = min(max(0, looks - 1), _MAX_DOUBLINGS)
    look_at = now + min(LONGEST_WAIT, FIRST_LOOK * (1 << doublings))
    if progress.state is State.ASKED and progress.sent_at is not None:
        resend_at = progress.sent_at + RESEND_AFTER
        return min(look_at, resend_at) if resend_at > now else look_at
    return look_at
