"""Leases that a worker keeps while nothing waits: the next event is then sent without a claim.

A kept lease is used only for a notification that came over the session that its row names. Once that session is gone,
no notification comes over it and any worker may claim the webhook, so the end of a process delays nothing.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

from tonne.channels.webhooks.delivery.batch_store import MAX_EVENTS_BYTES
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.events.notification import AnnouncedEvent, Notification, Stream, StreamNews
from tonne.platform.events.payload import digest_ids, event_payload
from tonne.platform.values.context import replace

MAX_KEPT = 1000
# Then the registration is read again.
KEEP_AT_MOST_S = 60.0
# A worker that reacts later than this gives all kept leases back and keeps none for a while: others share its work.
LATE_S = 0.25
KEEP_NONE_S = 5.0
REVIEW_EVERY_S = 1.0


class KeptLeases:
    def __init__(self, lease_s: float, request_s: float) -> None:
        self._lease_s = lease_s
        # How long a lease must last when a request is started.
        self._request_s = request_s
        self._session: int | None = None
        self._kept: dict[str, Lease] = {}
        self._of_stream: defaultdict[Stream, dict[str, Lease]] = defaultdict(dict)
        # How many webhooks of a stream are in use: if this worker holds all of them, it need not search there.
        self._siblings: dict[Stream, int] = {}
        # When a change of webhooks was heard of.
        self._changed_at: dict[Stream, float] = {}
        # What was announced since the last run, and since when.
        self._news: dict[Stream, StreamNews] = {}
        self._heard_at: float | None = None
        self._keeps_from = self._next_review = 0.0
        # Leases that are no longer kept, to be ended in the database.
        self.dropped: list[Lease] = []

    def keeper_for(self, lease: Lease) -> int | None:
        """The session for which the lease may be kept; None if it must end."""
        now = time.monotonic()
        if now < self._keeps_from or now > lease.read_at + KEEP_AT_MOST_S or len(self._kept) >= MAX_KEPT:
            return None
        # A replaced secret stops signing at its time, which every claim reads.
        return None if any(lease.old_sealed_secrets) else self._session

    @property
    def leases(self) -> list[Lease]:
        return list(self._kept.values())

    def hear(self, notification: Notification) -> None:
        now = time.monotonic()
        if notification.session != self._session:
            # Other workers may have claimed what was kept for the former session.
            self._kept.clear()
            self._of_stream.clear()
            self._siblings.clear()
            self._session = notification.session or None
        for stream in notification.changed:
            self._drop(list(self._of_stream.get(stream, {}).values()))
            self._siblings.pop(stream, None)
            self._changed_at[stream] = now
        for news in notification.news:
            self._news[Stream(news.organisation_id, news.mode)] = news
        self._heard_at = self._heard_at or now

    def note_claim(self, lease: Lease) -> None:
        if lease.id in self._kept:
            self._remove(lease)
        if lease.siblings:
            self._siblings[lease.stream] = lease.siblings

    def keep(self, lease: Lease) -> bool:
        """False if the session or a webhook of the stream has changed since the lease was renewed: it is given back."""
        renewed_at = lease.expires_at - self._lease_s
        if lease.keeper != self._session or self._changed_at.get(lease.stream, 0.0) >= renewed_at:
            self.dropped.append(lease)
            return False
        self._kept[lease.id] = self._of_stream[lease.stream][lease.id] = lease
        return True

    def take(self, limit: int, in_turns: Callable[[Stream], int]) -> tuple[list[Lease], list[Stream]]:
        """Leases for which an event was announced, with the event if it came along; and streams to search no more."""
        announced, self._news = self._news, {}
        taken: list[Lease] = []
        handled: list[Stream] = []
        for stream, news in announced.items():
            kept = self._of_stream.get(stream, {})
            behind = [lease for lease in kept.values() if lease.cursor_position < news.last_position]
            all_held = stream in self._siblings and len(kept) + in_turns(stream) >= self._siblings[stream]
            usable = len(taken) + len(behind) <= limit and all(lease.covers(self._request_s) for lease in behind)
            if all_held and usable:
                handled.append(stream)
                taken += [_with_news(lease, news) for lease in behind]
                for lease in behind:
                    self._remove(lease)
        return taken, handled

    def review(self, *, is_full: bool) -> None:
        """Drop leases that no request could use any more; all of them if this worker has too much to do."""
        now = time.monotonic()
        heard_at, self._heard_at = self._heard_at, None
        if is_full or (heard_at is not None and now - heard_at > LATE_S):
            self._keeps_from = now + KEEP_NONE_S
            self._drop(self.leases)
        if now >= self._next_review:
            self._next_review = now + REVIEW_EVERY_S
            self._drop([lease for lease in self._kept.values() if not lease.covers(self._request_s)])
            self._changed_at = {stream: at for stream, at in self._changed_at.items() if at > now - self._lease_s}

    def _drop(self, leases: Sequence[Lease]) -> None:
        self.dropped += leases
        for lease in leases:
            self._remove(lease)

    def _remove(self, lease: Lease) -> None:
        del self._kept[lease.id]
        of_stream = self._of_stream[lease.stream]
        del of_stream[lease.id]
        if not of_stream:
            del self._of_stream[lease.stream]


def _with_news(lease: Lease, news: StreamNews) -> Lease:
    events = [event for event in news.events if event.position > lease.cursor_position]
    is_complete = len(events) == news.last_position - lease.cursor_position
    batch = _batch_of(events, lease) if is_complete else None
    return replace(lease, last_position=news.last_position, first_batch=batch, keeper=None)


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
