"""Where a worker searches for due webhooks next: in the streams that got events, or wherever something may be due."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from tonne.channels.webhooks.model import Lease
from tonne.platform.events.notification import Stream

# How often all webhooks are read, in case both the notification and the indexes have missed one.
FULL_SCAN_EVERY_S = 60.0
# The indexes find new events by the time of the stream's last one, for a minute. After a longer pause between searches,
# all webhooks are read.
MAX_GAP_S = 30.0
# How often the due times of webhooks are cleared that have nothing left to send.
CLEAR_EVERY_S = 10.0


class StreamSearch(Struct, frozen=True):
    # None: all streams.
    streams: frozenset[Stream] | None
    full_scan: bool = False
    clears_due: bool = False


class DueStreams:
    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        # What the next search has to cover: these streams, or all of them.
        self._named: set[Stream] = set()
        self._everywhere = True
        # Whether the last search has claimed all that was due.
        self._caught_up = False
        self._searched_all_at = -MAX_GAP_S
        self._next_full_scan = 0.0
        self._next_clearing = 0.0
        # The turns in progress, and those whose stream got events meanwhile.
        self._turns: defaultdict[Stream, set[tuple[str, int]]] = defaultdict(set)
        self._behind: set[tuple[str, int]] = set()

    def expect(self, streams: Iterable[Stream]) -> None:
        """Events were committed to these streams; to any stream if there are none."""
        named = frozenset(streams)
        self._named |= named
        self._everywhere = self._everywhere or not named
        for stream in named or list(self._turns):
            self._behind |= self._turns.get(stream, set())

    def expect_anywhere(self) -> None:
        """Something became due, but not by new events of a stream that is known."""
        self._everywhere = True

    def handled(self, streams: Iterable[Stream]) -> bool:
        """These streams need no search. Whether none is needed anywhere."""
        self._named.difference_update(streams)
        return not (self._named or self._everywhere or time.monotonic() >= self._searched_all_at + self._poll_s)

    def next_search(self, *, may_be_narrow: bool) -> StreamSearch | None:
        """None when the last search has claimed everything, and nothing has happened since."""
        now = time.monotonic()
        caught_up, self._caught_up = self._caught_up, False
        if caught_up and not self._everywhere and not self._named:
            return None
        named, self._named = frozenset(self._named), set()
        if may_be_narrow and named and not self._everywhere and now < self._searched_all_at + self._poll_s:
            return StreamSearch(named)
        full_scan = now >= self._next_full_scan or now > self._searched_all_at + MAX_GAP_S
        clears_due = now >= self._next_clearing
        self._everywhere, self._searched_all_at = False, now
        self._next_full_scan = now + FULL_SCAN_EVERY_S if full_scan else self._next_full_scan
        self._next_clearing = now + CLEAR_EVERY_S if clears_due else self._next_clearing
        return StreamSearch(None, full_scan, clears_due)

    def claimed(self, leases: Sequence[Lease], *, all_due: bool) -> None:
        """`all_due`: there were slots for more. A job that has found something runs again at once."""
        self._caught_up = all_due and bool(leases)
        self.begin_turns(leases)

    def begin_turns(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            self._turns[lease.stream].add((lease.id, lease.token))

    def turns_in(self, stream: Stream) -> int:
        return len(self._turns.get(stream, ()))

    def search_failed(self) -> None:
        """What the search was to find is still due."""
        self._everywhere, self._next_full_scan = True, 0.0

    def end_turn(self, lease: Lease) -> bool:
        """True if the stream got events during the turn: the release may not have seen them."""
        stream, key = lease.stream, (lease.id, lease.token)
        self._turns[stream].discard(key)
        if not self._turns[stream]:
            del self._turns[stream]
        if key not in self._behind:
            return False
        self._behind.discard(key)
        self._named.add(stream)
        return True
