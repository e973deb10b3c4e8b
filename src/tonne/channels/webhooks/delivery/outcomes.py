"""Outcomes of a request to a receiver. A refusal is an outcome, not an exception."""

from msgspec import Struct

# Statuses that do not depend on the event: not authorised, no such page, gone, too busy, or a proxy without a receiver
# behind it.
REFUSES_EVERYTHING = frozenset({401, 403, 404, 405, 408, 410, 429, 502, 503, 504})


class ReceiverResponse(Struct, frozen=True):
    """`status` is None when no response arrived; `error` then says why. `answer` is the start of the response body."""

    status: int | None
    error: str | None
    duration_ms: int
    answer: str

    @property
    def recorded(self) -> tuple[int | None, str | None, int, str]:
        """The columns of `webhook_attempts` that describe the response."""
        return self.status, self.error, self.duration_ms, self.answer


class Delivered(ReceiverResponse, frozen=True):
    """A 2xx status: acknowledges every event of the request."""


class Retry(ReceiverResponse, frozen=True):
    """Another status, or no response: no event is acknowledged, and all are sent again after a back-off."""

    # How long the receiver asks to wait (`Retry-After`).
    retry_after_s: float = 0.0

    @property
    def concerns_event(self) -> bool:
        """The receiver works and refuses this event. Other statuses and errors say that it refuses everything."""
        return self.status is not None and self.status not in REFUSES_EVERYTHING

    @property
    def ends_turn(self) -> bool:
        """The receiver asks for a pause, or for no more requests: no probe of other accounts follows."""
        return not self.concerns_event and (self.retry_after_s > 0 or isinstance(self, Gone))


class Gone(Retry, frozen=True):
    """410: the receiver does not want any more requests. A webhook that asks for it is disabled."""


class NotSigned(Retry, frozen=True):
    """The signing secret cannot be opened, so nothing was sent. Says nothing about the receiver or the event."""


NOT_SIGNED = NotSigned(None, "secret_unreadable", 0, "")


class RefusedAccount(Struct, frozen=True):
    account_id: str
    position: int
    refusals: int


SendOutcome = Delivered | Retry


def classify(
    status: int | None, error: str | None, duration_ms: int, answer: str, *, retry_after_s: float = 0.0
) -> SendOutcome:
    response = (status, error, duration_ms, answer)
    if status is not None and 200 <= status < 300:
        return Delivered(*response)
    return Gone(*response) if status == 410 else Retry(*response, retry_after_s)
