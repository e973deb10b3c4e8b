"""Compares the records of the receivers with the database, and names every promise that was broken."""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from chaos.cluster import Cluster
from chaos.model import Hook
from chaos.money.documents import find_undocumented
from chaos.receivers import Exchange
from tests.support.signatures import read_signature, sign
from tonne.apps.cli.operations.doctor import examine
from tonne.platform.events.payload import event_payload, head_of

# A request is signed before it arrives: for this long an old secret or timestamp is acceptable.
SLACK_S = 1.5
SURELY_S = 1.0
# A closed connection is noticed a little later; the time of a response is exact.
HANG_UP_SLACK_S = 0.25
SHOWN = 3
_HEADER = re.compile(rb"\r\nService-HMAC: ([^\r]*)\r\n")
_LOG_ERRORS = ('"event":"delivery_crashed"', '"event":"job_failed"', "Traceback (most recent call last)")


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    events: list[msgspec.Raw]


class _Head(msgspec.Struct):
    event_id: str


_read_body = msgspec.json.Decoder(_Body).decode
_read_head = msgspec.json.Decoder(_Head).decode


@dataclass(frozen=True, slots=True)
class Event:
    id: str
    position: int
    account_id: str
    payload: bytes


@dataclass(slots=True)
class Tally:
    """The totals of one scenario's records."""

    requests: int = 0
    arrivals: int = 0
    events: int = 0
    overlaps: int = 0
    unsettled: int = 0
    # Confirmed orders and delivered events that a failover lost. Problems, unless replication is asynchronous.
    lost_orders: int = 0
    lost_events: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def redelivered(self) -> int:
        return self.arrivals - self.events


async def check(cluster: Cluster) -> Tally:
    """Call it after the cluster was closed: the records are complete and nothing changes any more."""
    tally = Tally()
    tally.problems += await _check_database(cluster)
    tally.problems += await _check_orders(cluster, tally)
    tally.problems += await _check_final_statuses(cluster)
    if cluster.is_settled:
        tally.problems += await find_undocumented(cluster.fetch)
    if not cluster.log_errors_expected:
        tally.problems += _check_logs(cluster)
    for hook in cluster.hooks:
        await _HookCheck(cluster, hook, tally).run()
    if tally.overlaps and not cluster.overlaps_expected:
        tally.problems.append(f"a webhook had two requests in flight at once, {tally.overlaps} times")
    return tally


async def _check_database(cluster: Cluster) -> list[str]:
    async with cluster.connection() as tx, tx.transaction():
        breaches = await examine(tx)
    return [f"{name}: {len(places)} times, such as {places[0]}" for name, places in breaches.items()]


ORDERS_OF_KEYS = "SELECT account_id, idempotency_key, id FROM orders"


async def _check_orders(cluster: Cluster, tally: Tally) -> list[str]:
    """Every order that the api confirmed exists, once."""
    rows = await cluster.fetch(ORDERS_OF_KEYS)
    found = {(row["account_id"], row["idempotency_key"]): row["id"] for row in rows}
    lost = [order_id for key, order_id in cluster.placed.items() if found.get(key) != order_id]
    tally.lost_orders = len(lost)
    if not lost or cluster.losses_expected:
        return []
    return [f"{len(lost)} orders were confirmed and are lost, such as {lost[0]}"]


# Amounts according to the simulated gateway: captured charges, and what of them was not refunded. Those for invoices
# that were issued before they were paid are compared with them instead, and live charges with those at their gateway,
# by the scenario that makes them.
FINAL_STATUSES = """
SELECT orders.id, orders.mode, orders.status, orders.payment_method, orders.total_cost_minor, orders.refunded_minor,
       taken.times, taken.kept_minor,
       EXISTS (SELECT FROM invoice_orders billed JOIN invoices ON invoices.id = billed.invoice_id
               WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id
                 AND NOT invoices.is_prepaid) AS is_billed
FROM orders CROSS JOIN LATERAL (
    SELECT count(*) AS times, coalesce(sum(simulated.amount_minor - simulated.refunded_minor), 0) AS kept_minor
    FROM charges JOIN simulated_charges simulated ON simulated.id = charges.id AND simulated.status = 'captured'
    WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id
) taken
"""


async def _check_final_statuses(cluster: Cluster) -> list[str]:
    """Every order has its expected final status, and was charged once if it had to be paid by card."""
    problems: defaultdict[str, list[str]] = defaultdict(list)
    if not cluster.final_statuses:
        return []
    for row in await cluster.fetch(FINAL_STATUSES):
        expected = cluster.final_statuses.get(row["id"])
        if expected is None:
            problems["an unexpected order"].append(row["id"])
        elif row["status"] != expected:
            problems[f"an order that should be {expected}"].append(f"{row['id']} is {row['status']}")
        is_paid_by_card = expected == "complete" and row["payment_method"] == "card" and not row["is_billed"]
        if row["mode"] == "test" and row["kept_minor"] != (
            row["total_cost_minor"] - row["refunded_minor"] if is_paid_by_card else 0
        ):
            problems["a wrong amount was charged"].append(f"{row['id']}: {row['kept_minor']}")
        if row["times"] > 1:
            problems["a card was charged several times"].append(f"{row['id']}: {row['times']}")
    return [f"{what}, {len(places)} times: {', '.join(places[:SHOWN])}" for what, places in problems.items()]


def _check_logs(cluster: Cluster) -> list[str]:
    problems = []
    for log in sorted(cluster.folder.glob("*.log")):
        lines = [line for line in log.read_text().splitlines() if any(mark in line for mark in _LOG_ERRORS)]
        if lines:
            problems.append(f"{log.name} has {len(lines)} errors: {lines[0][-400:]}")
    return problems


EVENTS_IN_SCOPE = f"""
SELECT event.position, event.id, event.account_id, {head_of("event")} AS head, event.document,
       (SELECT cardinality(scope.account_ids) = 0 OR event.account_id = ANY (scope.account_ids)
        FROM webhook_scopes scope WHERE scope.webhook_id = $1 AND scope.from_position <= event.position
        ORDER BY scope.from_position DESC LIMIT 1)
       AND NOT EXISTS (SELECT FROM webhook_skips skip
                       WHERE skip.webhook_id = $1 AND skip.position = event.position) AS in_scope
FROM webhooks webhook JOIN events event USING (organisation_id, mode)
WHERE webhook.id = $1 ORDER BY event.position
"""
EXISTING = "SELECT id FROM events WHERE id = ANY ($1)"
ACKNOWLEDGED_ATTEMPTS = "SELECT positions FROM webhook_attempts WHERE webhook_id = $1 AND acknowledged"


class _HookCheck:
    """Compares what one webhook should have sent with what arrived."""

    def __init__(self, cluster: Cluster, hook: Hook, tally: Tally) -> None:
        self._cluster = cluster
        self._hook = hook
        self._tally = tally
        self._faults: defaultdict[str, list[str]] = defaultdict(list)
        self._events: dict[str, Event] = {}
        # Events that arrived and are not in the organisation's stream.
        self._unknown: set[str] = set()
        # By account: the events in scope in their order, and how many from the first on were acknowledged.
        self._order: defaultdict[str, list[str]] = defaultdict(list)
        self._place: dict[str, int] = {}
        self._acknowledged: set[str] = set()
        self._reached: Counter[str] = Counter()
        self._last_new: dict[str, int] = {}

    async def run(self) -> None:
        for row in await self._cluster.fetch(EVENTS_IN_SCOPE, self._hook.id):
            event = Event(row["id"], row["position"], row["account_id"], event_payload(row["head"], row["document"]))
            self._events[event.id] = event
            if row["in_scope"]:
                self._place[event.id] = len(self._order[event.account_id])
                self._order[event.account_id].append(event.id)
        found = [(receiver, exchange) for receiver in self._hook.receivers for exchange in receiver.exchanges]
        found.sort(key=lambda entry: entry[1].arrived_s)
        records = [exchange for _, exchange in found]
        contents = [self._read(exchange, *receiver.read(exchange)) for receiver, exchange in found]
        await self._check_unknown()
        self._check_sequence(records, contents)
        self._check_overlaps(records)
        self._check_arrived()
        await self._check_attempts(records, contents)
        self._tally.requests += len(records)
        for fault, places in self._faults.items():
            shown = ", ".join(places[:SHOWN])
            self._tally.problems.append(f"webhook {self._hook.id}: {fault}, {len(places)} times: {shown}")

    def _read(self, exchange: Exchange, head: bytes, body: bytes) -> list[Event]:
        """Check the signature of a request and the bytes of its events. Returns the events."""
        self._check_signature(exchange, head, body)
        contents = []
        for raw in _read_body(body).events:
            event = self._events.get(_read_head(raw).event_id)
            if event is None:
                self._unknown.add(_read_head(raw).event_id)
                continue
            if bytes(raw) != event.payload:
                self._faults["an event with other bytes than the stored ones"].append(event.id)
            contents.append(event)
        return contents

    async def _check_unknown(self) -> None:
        existing = {row["id"] for row in await self._cluster.fetch(EXISTING, list(self._unknown))}
        lost = sorted(self._unknown - existing)
        self._tally.lost_events += len(lost)
        if existing:
            self._faults["an event of another organisation"] += sorted(existing)
        if lost and not self._cluster.losses_expected:
            self._faults["an event that is not in the database"] += lost

    def _check_signature(self, exchange: Exchange, head: bytes, body: bytes) -> None:
        found = _HEADER.search(head)
        signature = read_signature(found[1].decode()) if found else None
        moment = exchange.arrived_s
        if signature is None or signature.organisation_id != self._hook.organisation.id:
            self._faults["a malformed signature header"].append(str(found and found[1]))
            return
        age_s = exchange.arrived_unix - signature.timestamp
        max_age_s = self._cluster.seconds("webhook_timeout_s") + 1 + SLACK_S
        if not self._cluster.overlaps_expected and not -0.1 <= age_s <= max_age_s:
            self._faults["a stale signature"].append(f"{age_s:.1f} s old")
        valid = {
            sign(secret.text, signature.timestamp, body): secret
            for secret in self._hook.secrets
            if secret.from_s <= moment <= secret.until_s + SLACK_S
        }
        if not set(signature.values) <= set(valid):
            self._faults["a signature that does not verify"].append(f"{moment:.3f}")
        # Two signatures while a rotation overlaps, except close to its start and its end.
        surely = [s for s in valid.values() if s.from_s + SURELY_S < moment < s.until_s - SURELY_S]
        if len(signature.values) < len(surely):
            self._faults["one signature instead of two"].append(f"{moment:.3f}")

    def _check_sequence(self, records: Sequence[Exchange], contents: Sequence[list[Event]]) -> None:
        """Replay arrivals and acknowledgements: an event follows only when all events ahead of it are acknowledged."""
        # Time, 0 for an acknowledgement or 1 for an arrival, number of the request.
        moments = [(exchange.arrived_s, 1, number) for number, exchange in enumerate(records)]
        moments += [
            (exchange.ended_s, 0, number)
            for number, exchange in enumerate(records)
            if exchange.acknowledged and exchange.ended_s is not None
        ]
        seen: set[str] = set()
        for _, is_arrival, number in sorted(moments):
            if not is_arrival:
                self._acknowledge(contents[number])
                continue
            ahead = Counter(self._reached)
            for event in contents[number]:
                self._check_order(event, ahead, new=event.id not in seen)
                seen.add(event.id)
            self._tally.arrivals += len(contents[number])
        self._tally.events += len(seen)

    def _check_order(self, event: Event, ahead: Counter[str], *, new: bool) -> None:
        if new and event.position <= self._last_new.get(event.account_id, 0):
            self._faults["a first delivery out of order"].append(f"{event.account_id} at {event.position}")
        if new:
            self._last_new[event.account_id] = event.position
        place = self._place.get(event.id)
        if place is None:
            return
        if place > ahead[event.account_id]:
            self._faults["an event sent before one ahead of it was acknowledged"].append(
                f"{event.account_id} at {event.position}"
            )
        ahead[event.account_id] = max(ahead[event.account_id], place + 1)

    def _acknowledge(self, contents: Sequence[Event]) -> None:
        for event in contents:
            self._acknowledged.add(event.id)
            order = self._order[event.account_id]
            while self._reached[event.account_id] < len(order) and (
                order[self._reached[event.account_id]] in self._acknowledged
            ):
                self._reached[event.account_id] += 1

    def _check_overlaps(self, records: Sequence[Exchange]) -> None:
        """One request at a time: each ends, by a response or a closed connection, before the next one arrives."""
        busy_until_s = 0.0
        for exchange in records:
            if exchange.arrived_s < busy_until_s:
                self._tally.overlaps += 1
            slack_s = HANG_UP_SLACK_S if exchange.status is None else 0.0
            ended_s = float("inf") if exchange.ended_s is None else exchange.ended_s
            busy_until_s = max(busy_until_s, ended_s - slack_s)

    def _check_arrived(self) -> None:
        if self._hook.removed:
            return
        for event_id in self._place:
            if event_id not in self._acknowledged:
                self._faults["an event that never arrived"].append(f"{event_id} at {self._events[event_id].position}")

    async def _check_attempts(self, records: Sequence[Exchange], contents: Sequence[list[Event]]) -> None:
        """The service has no acknowledgement on record that the receiver did not send."""
        given = Counter(
            tuple(event.position for event in events)
            for exchange, events in zip(records, contents, strict=True)
            if exchange.acknowledged
        )
        rows = await self._cluster.fetch(ACKNOWLEDGED_ATTEMPTS, self._hook.id)
        claimed = Counter(tuple(row["positions"]) for row in rows)
        for positions in (claimed - given).elements():
            self._faults["an acknowledgement on record that was never sent"].append(str(positions[:5]))
        self._tally.unsettled += (given - claimed).total()
