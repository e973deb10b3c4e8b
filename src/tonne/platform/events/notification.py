"""What a notification of new work says: the kinds of work that became due, and the streams that got events."""

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple, Self

import msgspec

# PostgreSQL accepts less than 8,000 bytes. With more streams than this, the notification names none.
MAX_STREAMS = 50


class WorkKind(StrEnum):
    """Kinds of due rows. Processes of two releases may run at the same time: never use a name for something else."""

    EVENTS = "events"
    LIVE_CHARGES = "live_charges"
    TEST_CHARGES = "test_charges"
    UNINVOICED_ORDERS = "uninvoiced_orders"
    BILLING_GROUPS = "billing_groups"
    INVOICES = "invoices"
    CREDIT_NOTES = "credit_notes"
    PAID_ORDERS = "paid_orders"
    POOLED_UNITS = "pooled_units"
    CERTIFICATES = "certificates"
    CARD_PROBLEMS = "card_problems"
    REFUNDS = "refunds"
    # Mails that are still to be composed.
    ORDER_MAILS = "order_mails"
    MAILS = "mails"


_KINDS = frozenset(kind.value for kind in WorkKind)


class Stream(NamedTuple):
    organisation_id: str
    mode: str


class _Payload(msgspec.Struct):
    kinds: list[str]
    streams: list[tuple[str, str]] = []


class Notification(msgspec.Struct, frozen=True):
    # None: work of any kind.
    kinds: frozenset[WorkKind] | None
    # The streams that got events; empty: any stream.
    streams: frozenset[Stream] = frozenset()

    @property
    def payload(self) -> str:
        """An empty payload means work of any kind."""
        if self.kinds is None:
            return ""
        return msgspec.json.encode(_Payload(sorted(self.kinds), sorted(self.streams))).decode()

    @classmethod
    def parse(cls, payload: str) -> Self:
        """Kinds of a newer release are left out: this one has no job for them."""
        try:
            given = msgspec.json.decode(payload, type=_Payload)
        except msgspec.DecodeError:
            return cls(None)
        kinds = frozenset(WorkKind(kind) for kind in given.kinds if kind in _KINDS)
        return cls(kinds, frozenset(Stream(*stream) for stream in given.streams))

    def concerns(self, kinds: frozenset[WorkKind]) -> bool:
        return self.kinds is None or not self.kinds.isdisjoint(kinds)


EVERYTHING = Notification(None)


class PendingWork(msgspec.Struct):
    """Collects what became due until the next notification."""

    kinds: set[WorkKind] | None
    streams: set[Stream]
    any_stream: bool

    @classmethod
    def none(cls) -> Self:
        return cls(set(), set(), any_stream=False)

    def __bool__(self) -> bool:
        return self.kinds is None or bool(self.kinds)

    def add(self, kinds: Iterable[WorkKind], stream: Stream | None) -> None:
        """No kind means all of them; without a stream, events of any stream."""
        added = set(kinds)
        if not added or self.kinds is None:
            self.kinds = None
            return
        self.kinds |= added
        if WorkKind.EVENTS in added:
            if stream is None:
                self.any_stream = True
            else:
                self.streams.add(stream)

    def notification(self) -> Notification:
        if self.kinds is None:
            return EVERYTHING
        names_streams = not self.any_stream and len(self.streams) <= MAX_STREAMS
        return Notification(frozenset(self.kinds), frozenset(self.streams if names_streams else ()))
