"""Clients that break a rule. Their histories must retire twice, or leave units retired that the books do not have.

Otherwise the model would prove nothing.
"""

from dataclasses import dataclass
from datetime import datetime

from tests.supply.registries.histories import Client, Request, Row
from tonne.platform.values.context import replace
from tonne.supply.registries import rules
from tonne.supply.registries.gateway import Answer, Outcome, Repeat
from tonne.supply.registries.rules import RequestProgress, State


class SentBeforeCommit(Client):
    """Rule 2 is broken: the request leaves, and its count is committed with the answer."""

    def mark(self, row: Row) -> None:
        row.progress = RequestProgress(State.ASKED, 0, self.now)


class EveryRefusalIsFinal(Client):
    """Rule 3 is broken: a refusal is believed although another copy may be on its way."""

    late_share = 0.4

    def answered(self, row: Row, answer: Answer, *, by_request: bool) -> RequestProgress:
        final = replace(answer, is_final=True)
        return rules.answered(replace(row.progress, in_doubt=1), final, by_request=by_request)


class PendingIsAskedAgain(Client):
    """Rule 5 is broken: what the registry has accepted is asked again under a new key."""

    def may_resend(self, row: Row, answer: Answer) -> bool:
        return row.progress.state is State.PENDING or super().may_resend(row, answer)

    def request_of(self, row: Row) -> Request:
        return new_key(row) if row.looks > 1 and self.registry.repeat is Repeat.KEY else row.request


class SettledUnseen(Client):
    """The request is not looked at again when the second person approves: it may have been sent again."""

    def may_settle(self, row: Row, seen: RequestProgress, found_at: datetime) -> bool:  # noqa: ARG002 - as it was seen
        return rules.may_settle(seen, seen=seen.state, found_at=found_at)


class SentHoweverLate(Client):
    """A request leaves long after it was marked as sent."""

    def is_too_late(self, marked_at: datetime) -> bool:  # noqa: ARG002 - never
        return False


@dataclass
class PendingIsClosedInDoubt(Client):
    """Rule 3 is broken for what was accepted: another copy may use the holding that the rejection has freed."""

    late_share = 0.4
    # Some arrive just after the rejection was noticed.
    late_s: tuple[int, ...] = tuple(range(650, 4000, 50))

    def answered(self, row: Row, answer: Answer, *, by_request: bool) -> RequestProgress:
        is_rejected = row.progress.state is State.PENDING and answer.outcome is Outcome.DECLINED and not by_request
        return super().answered(row, replace(answer, is_final=True) if is_rejected else answer, by_request=by_request)


class NewKeyAfterTimeout(Client):
    """The naive client: every attempt is a new request, sent as soon as there is no answer."""

    def may_resend(self, row: Row, answer: Answer) -> bool:  # noqa: ARG002 - always
        return True

    def request_of(self, row: Row) -> Request:
        request = new_key(row)
        return Request(request.key, request.reference, self.holding[row.request.holding.rstrip(".")], request.units)


class OldestCredits(NewKeyAfterTimeout):
    """Without a holding: the registry takes the oldest units, whatever was taken before."""

    def request_of(self, row: Row) -> Request:
        oldest = next((id_ for id_, units in self.registry.active.items() if units), row.request.holding)
        return Request(f"{row.request.key}.{row.looks}", row.request.reference, oldest, row.request.units)


def new_key(row: Row) -> Request:
    key = f"{row.request.key}.{row.looks}"
    return Request(key, f"T-{key}", row.request.holding, row.request.units)
