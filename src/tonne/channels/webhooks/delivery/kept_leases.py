"""Leases that a worker keeps while nothing waits: the next event is then sent without a claim.

A kept lease is used only for a notification that came over the session that its row names. Once that session is gone,
no notification comes over it and any worker may claim the webhook, so the end of a process delays nothing.
"""

import time
from collections.abc import Callable, Sequence

from tonne.channels.webhooks.delivery.batch_store import MAX_EVENTS_BYTES
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.events.notification import AnnouncedEvent, Notification, Stream, StreamNews
from tonne.platform.events.payload import digest_ids, event_payload
from tonne.platform.values.context import replace

MAX_KEPT = 1000
# Then the registration is read again: replaced secrets stop signing at their time.
KEEP_AT_MOST_S = 60.0
# A worker that reacts later than this gives all kept leases back and keeps none for a while: others share its work.
LATE_S = 0.25
KEEP_NONE_S = 5.0


class KeptLeases:
    def __init__(self, request_s: float) -> None:
        # How long a lease must last when a request is started.
        self._request_s = request_s
        self._session: int | None = None
        self._kept: dict[Stream, dict[str, Lease]] = {}
        # How many webhooks of a stream are in use: if this worker holds all of them, it need not search there.
        self._siblings: dict[Stream, int] = {}
        # What was announced since the last run, and since when.
        self._news: dict[Stream, StreamNews] = {}
        self._heard_at: float | None = None
        self._keeps_from = 0.0
        # Leases of which nothing is known any more, to be given back.
        self._dropped: list[Lease] = []

    def keeper_for(self, lease: Lease) -> int | None:
        """The session for which the lease may be kept; None if it must end."""
        now = time.monotonic()
        if now < self._keeps_from or now > lease.read_at + KEEP_AT_MOST_S or len(self.leases) >= MAX_KEPT:
            return None
        return self._session

    @property
    def leases(self) -> list[Lease]:
        return [lease for leases in self._kept.values() for lease in leases.values()]

    def hear(self, notification: Notification) -> None:
        if notification.session != self._session:
            # Other workers may have claimed what was kept for the former session.
            self._kept.clear()
            self._siblings.clear()
            self._session = notification.session or None
        for stream in notification.changed:
            self._dropped += self._kept.pop(stream, {}).values()
            self._siblings.pop(stream, None)
        for news in notification.news:
            self._news[Stream(news.organisation_id, news.mode)] = news
        self._heard_at = self._heard_at or time.monotonic()

    def note_claim(self, lease: Lease) -> None:
        stream = lease.stream
        self._kept.get(stream, {}).pop(lease.id, None)
        if lease.siblings:
            self._siblings[stream] = lease.siblings

    def keep(self, lease: Lease) -> None:
        self._kept.setdefault(lease.stream, {})[lease.id] = lease

    def take(self, limit: int, in_turns: Callable[[Stream], int]) -> tuple[list[Lease], list[Stream]]:
        """Leases for which an event was announced, with the event if it came along; and streams to search no more."""
        taken: list[Lease] = []
        handled: list[Stream] = []
        announced, self._news = self._news, {}
        for stream, news in announced.items():
            kept = self._kept.get(stream, {})
            all_held = stream in self._siblings and len(kept) + in_turns(stream) >= self._siblings[stream]
            if not all_held or len(taken) + len(kept) > limit:
                continue
            behind = [lease for lease in kept.values() if lease.cursor_position < news.last_position]
            if all(lease.covers(self._request_s) for lease in behind):
                handled.append(stream)
                taken += [_with_news(kept.pop(lease.id), news) for lease in behind]
        return taken, handled

    def to_give_back(self) -> list[Lease]:
        """Leases that this worker does not keep any longer, to be ended in the database."""
        heard_at, self._heard_at = self._heard_at, None
        if heard_at is not None and time.monotonic() - heard_at > LATE_S:
            self.drop_all()
        given_back, self._dropped = self._dropped, []
        return given_back

    def drop_all(self) -> None:
        """This worker has too much to do."""
        self._keeps_from = time.monotonic() + KEEP_NONE_S
        self._dropped += self.leases
        self._kept.clear()


def _with_news(lease: Lease, news: StreamNews) -> Lease:
    events = [event for event in news.events if event.position > lease.cursor_position]
    is_complete = len(events) == news.last_position - lease.cursor_position
    batch = _batch_of(events, lease) if is_complete else None
    return replace(lease, last_position=news.last_position, first_batch=batch, is_kept=False)


def _batch_of(events: Sequence[AnnouncedEvent], lease: Lease) -> EventBatch | None:
    """The same as a read of these events gives; None if that would have to make several batches."""
    reaches, after = events[-1].position, lease.cursor_position
    sent = [event for event in events if event.event_type in lease.delivered_types]
    if not sent:
        return EventBatch([], b"", reaches, after)
    joined = b",".join(event_payload(event.head, event.document) for event in sent)
    if len(joined) > MAX_EVENTS_BYTES or len(events) > lease.batch_limit:
        return None
    positions = range(after + 1, reaches + 1) if len(sent) == len(events) else [event.position for event in sent]
    return EventBatch(
        positions, joined, reaches, after, digest_ids([event.head for event in sent]), oldest_at=events[0].at
    )
