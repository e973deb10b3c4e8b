"""An inbox for webhook events: stores them, ignores duplicates, and keeps the order of every account."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tonne_client.base_model import converter
from tonne_client.models import WebhookEvent

LEASE_S = 60.0
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 300.0


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event in a store. `json` is the whole event."""

    event_id: str
    account_id: str
    sequence: str
    json: str
    failures: int = 0


class InboxStore(Protocol):
    """Where an inbox keeps its events. Times are Unix times. Every method is atomic and durable when it returns.

    `tests/clients/test_inbox.py` tests a store: run it on your own.
    """

    def add(self, events: Sequence[StoredEvent]) -> int:
        """Store the events that are new, all or none, and return their number.

        Not new: an event whose id is stored, or whose sequence is not above that of the last one that `forget` removed
        from its account.
        """
        ...

    def claim(self, now: float, lease_s: float) -> StoredEvent | None:
        """The first unfinished event of any account that is due, claimed until `now + lease_s`.

        First means the lowest sequence, compared as text. While it is claimed or waits for a retry, no other event of
        its account is returned.
        """
        ...

    def finish(self, event_id: str, now: float) -> None:
        """The event was handled."""
        ...

    def retry(self, event_id: str, at: float) -> None:
        """The event was not handled: end its claim, count the failure, and return it again at that time."""
        ...

    def forget(self, before: float) -> int:
        """Remove the events that were finished before this time, and return their number."""
        ...


class WebhookInbox:
    """Receives events, and calls a function for each of them.

    - An event that `receive` has accepted is not lost, and is stored once however often it arrives.
    - The events of one account are handled one after the other, in the order in which they happened. If the function
      raises, the event is tried again later, and the following events of its account wait; other accounts do not.
    - An event is handled at least once: if the process ends between the function and the note that it is done, the
      function is called again. Make its effect idempotent by the event id, or write both in one transaction with a
      store of your own.
    - Any number of threads and processes may receive and process. The function must not take longer than `lease_s`.
    """

    def __init__(self, store: InboxStore, *, lease_s: float = LEASE_S, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._lease_s = lease_s
        self._clock = clock

    def receive(self, events: Sequence[WebhookEvent]) -> int:
        """Store events of `verify_webhook`, and return how many are new. Respond with 2xx after it returns."""
        return self._store.add([_stored(event) for event in events])

    def process(self, handle: Callable[[WebhookEvent], object], *, limit: int | None = None) -> int:
        """Call the function for all events that are due, or for `limit` of them. Returns how many were handled.

        The exception of an event is raised after all others were tried; several are raised as an ExceptionGroup.
        """
        handled, errors = 0, list[Exception]()
        while (limit is None or handled + len(errors) < limit) and (stored := self._claim()) is not None:
            try:
                handle(_event(stored))
            except Exception as error:  # noqa: BLE001 - whatever it is, the event must be tried again
                self._failed(stored, error, errors)
            else:
                self._store.finish(stored.event_id, self._clock())
                handled += 1
        _raise(errors)
        return handled

    async def process_async(
        self, handle: Callable[[WebhookEvent], Awaitable[object]], *, limit: int | None = None
    ) -> int:
        """The same for a coroutine function. The store is used in threads."""
        handled, errors = 0, list[Exception]()
        while (limit is None or handled + len(errors) < limit) and (
            stored := await asyncio.to_thread(self._claim)
        ) is not None:
            try:
                await handle(_event(stored))
            except Exception as error:  # noqa: BLE001 - whatever it is, the event must be tried again
                await asyncio.to_thread(self._failed, stored, error, errors)
            else:
                await asyncio.to_thread(self._store.finish, stored.event_id, self._clock())
                handled += 1
        _raise(errors)
        return handled

    def forget(self, *, older_than_s: float) -> int:
        """Remove handled events from the store. Duplicates of them are still ignored, by their sequence."""
        return self._store.forget(self._clock() - older_than_s)

    def _claim(self) -> StoredEvent | None:
        return self._store.claim(self._clock(), self._lease_s)

    def _failed(self, stored: StoredEvent, error: Exception, errors: list[Exception]) -> None:
        wait_s = min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**stored.failures)
        self._store.retry(stored.event_id, self._clock() + wait_s)
        error.add_note(f"Event {stored.event_id} will be tried again in {wait_s:.0f} s.")
        errors.append(error)


def _raise(errors: list[Exception]) -> None:
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("Several events could not be handled.", errors)


def _stored(event: WebhookEvent) -> StoredEvent:
    text = json.dumps(event.to_dict(), separators=(",", ":"), ensure_ascii=False)
    return StoredEvent(event.event_id, event.account_id, event.sequence, text)


def _event(stored: StoredEvent) -> WebhookEvent:
    event: WebhookEvent = converter(WebhookEvent)(json.loads(stored.json))
    return event
