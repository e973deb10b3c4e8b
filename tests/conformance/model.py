"""The interface as a plain model: the promises that a client relies on, on one page that runs.

It knows nothing of the service: no import, no database, no clock. `test_model.py` makes random requests to a real
service, tells this model of each, and compares what came back. Read it as a summary of the interface:

- An order is placed once for each idempotency key. Repeating the request returns the order as it is now.
- An order only moves as MOVES says. A move that is not possible is refused and changes nothing.
- Each status has set what IS_SET says. Nothing that was agreed at placing changes later.
- Lists have the account's own orders, each once, the newest first, in pages that follow their cursors.
- Every move emits one event. Events of an account arrive in the order in which they occurred, at least once each, and
  are repeated until a 2xx. Outages of the receiver and restarts of the service lose and swap nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

# The event of each status. An order that is placed passes through `received`.
EVENTS = {
    "received": "order.received",
    "placed": "order.placed",
    "paid": "order.paid",
    "retiring": "order.retiring",
    "complete": "order.completed",
    "cancelled": "order.cancelled",
    "failed": "order.failed",
}
# What can be done with an order: in which statuses, and through which statuses it then moves.
MOVES: Mapping[str, tuple[set[str], Sequence[str]]] = {
    "pay": ({"placed"}, ["paid"]),
    "complete": ({"paid"}, ["retiring", "complete"]),
    "cancel": ({"received", "placed"}, ["cancelled"]),
}
IS_SET = {
    "bundles": {"placed", "paid", "retiring", "complete"},
    "projects": {"retiring", "complete"},
    "certificate": {"complete"},
}
# Agreed when the order is placed.
FIXED = (
    *("id", "idempotency_key", "type", "currency", "offset_cost", "total_cost", "commission", "quantity"),
    *("payment_method", "created_at", "metadata", "estimate_id", "requested_value", "requested_quantity"),
)


@dataclass(eq=False)
class Order:
    idempotency_key: str
    tonnes: str
    metadata: dict[str, Any]
    estimate_id: str
    status: str = "placed"
    # As the first response showed it; empty until then.
    agreed: dict[str, Any] = field(default_factory=dict)


@dataclass
class Event:
    order: Order
    event_type: str


@dataclass
class Account:
    """Orders and events, the oldest first."""

    orders: list[Order] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def place(self, asked: Order) -> Order:
        """The order of this idempotency key: a new one only if there is none."""
        for order in self.orders:
            if order.idempotency_key == asked.idempotency_key:
                return order
        self.orders.append(asked)
        self.events += [Event(asked, EVENTS["received"]), Event(asked, EVENTS["placed"])]
        return asked

    def move(self, order: Order, action: str) -> bool:
        """Whether the order can move so now. If it cannot, nothing changes."""
        possible_in, then = MOVES[action]
        if order.status not in possible_in:
            return False
        for status in then:
            order.status = status
            self.events.append(Event(order, EVENTS[status]))
        return True

    def check_order(self, order: Order, shown: Mapping[str, Any]) -> None:
        """What the service shows of an order, anywhere."""
        order.agreed = order.agreed or {name: shown[name] for name in FIXED}
        assert {name: shown[name] for name in FIXED} == order.agreed, "what was agreed has changed"
        assert shown["idempotency_key"] == order.idempotency_key
        assert (shown["metadata"], shown["estimate_id"]) == (order.metadata, order.estimate_id)
        assert (shown["requested_quantity"], shown["type"]) == (order.tonnes, "quantity")
        assert shown["status"] == order.status, f"{shown['status']} instead of {order.status}"
        for name, statuses in IS_SET.items():
            assert bool(shown[name]) or order.status not in statuses, f"{name} is not set in {order.status}"

    def check_pages(self, pages: Sequence[Mapping[str, Any]], limit: int) -> None:
        """All pages of the list, each fetched with the cursor of the one before."""
        for number, page in enumerate(pages, 1):
            assert page["has_more"] is (number < len(pages))
            assert (page["next_cursor"] is None) is (not page["has_more"])
            assert len(page["data"]) == limit or number == len(pages)
        listed = [shown for page in pages for shown in page["data"]]
        newest_first = self.orders[::-1]
        assert [shown["idempotency_key"] for shown in listed] == [order.idempotency_key for order in newest_first]
        for order, shown in zip(newest_first, listed, strict=True):
            self.check_order(order, shown)

    def check_arrived(self, arrived: Iterable[Mapping[str, Any]]) -> bool:
        """The events that arrived for this account, in the order of arrival with all repetitions. Whether all have."""
        by_id: dict[str, Mapping[str, Any]] = {}
        for event in arrived:
            by_id.setdefault(event["event_id"], event)
        first = list(by_id.values())
        expected = self.events[: len(first)]
        assert len(first) == len(expected), f"{len(first)} events, but only {len(expected)} moves"
        for event, move in zip(first, expected, strict=True):
            shown = event["data"]["order"]
            came = (shown["idempotency_key"], event["event_type"], EVENTS[shown["status"]])
            assert came == (move.order.idempotency_key, move.event_type, move.event_type), "another event was next"
            assert event["api_version"] == "v1"
        sequences = [event["sequence"] for event in first]
        assert sequences == sorted(sequences), "a receiver that ignores lower sequences would lose events"
        return len(first) == len(self.events)
