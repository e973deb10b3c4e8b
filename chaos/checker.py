"""Reads what receivers recorded and what the database says, and names every promise that was not kept."""

import hashlib
import hmac
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from chaos.records import Recorded, read_records
from chaos.scene import Hook, Scene
from tonne.cli.doctor import examine

# A request is signed a moment before it arrives: for so long a secret or a time may be out of date.
SLACK_S = 1.5
SURELY_S = 1.0
# A sender that hangs up is noticed a little later than it happens; an answer is noted to the microsecond.
HANG_UP_SLACK_S = 0.25
SHOWN = 3
_SIGNATURE = re.compile(r"timestamp=(\d+),organisation=(org_\w+)((?:,v1=[0-9a-f]{64})+)", re.ASCII)
_HEADER = re.compile(rb"\r\nService-HMAC: ([^\r]*)\r\n")
_TROUBLE_IN_LOGS = ('"event":"delivery_crashed"', '"event":"job_failed"', "Traceback (most recent call last)")


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
    """What one scenario's records come to."""

    requests: int = 0
    arrivals: int = 0
    events: int = 0
    overlaps: int = 0
    unsettled: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def redelivered(self) -> int:
        return self.arrivals - self.events


async def check(scene: Scene) -> Tally:
    """After the scene was closed: the records are whole, and nothing moves any more."""
    tally = Tally()
    tally.problems += await _check_database(scene)
    tally.problems += await _check_orders(scene)
    tally.problems += await _check_ends(scene)
    if not scene.trouble_in_logs_is_meant:
        tally.problems += _check_logs(scene)
    for hook in scene.hooks:
        await _HookCheck(scene, hook, tally).run()
    if tally.overlaps and not scene.overlaps_are_meant:
        tally.problems.append(f"two requests of one webhook were under way at once, {tally.overlaps} times")
    return tally


async def _check_database(scene: Scene) -> list[str]:
    async with scene.connection() as tx, tx.transaction():
        breaches = await examine(tx)
    return [f"{name}: {len(places)} times, such as {places[0]}" for name, places in breaches.items()]


ORDERS_OF_KEYS = "SELECT account_id, idempotency_key, id FROM orders"


async def _check_orders(scene: Scene) -> list[str]:
    """Invariant 1: what was answered with 2xx is there, once."""
    rows = await scene.fetch(ORDERS_OF_KEYS)
    found = {(row["account_id"], row["idempotency_key"]): row["id"] for row in rows}
    lost = [order_id for key, order_id in scene.placed.items() if found.get(key) != order_id]
    return [f"{len(lost)} orders were answered with 2xx and are gone, such as {lost[0]}"] if lost else []


# Money as the gateway has it, whatever we know of it: charges that were made, and what of them was not given back.
ENDS = """
SELECT orders.id, orders.status, orders.payment_method, orders.total_cost_minor, taken.times, taken.kept_minor
FROM orders CROSS JOIN LATERAL (
    SELECT count(*) AS times, coalesce(sum(simulated.amount_minor - simulated.refunded_minor), 0) AS kept_minor
    FROM charges JOIN simulated_charges simulated ON simulated.id = charges.id AND simulated.status = 'captured'
    WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id
) taken
"""


async def _check_ends(scene: Scene) -> list[str]:
    """Every order is where it should be, and was paid for once if it should be paid for."""
    problems: defaultdict[str, list[str]] = defaultdict(list)
    if not scene.ends:
        return []
    for row in await scene.fetch(ENDS):
        end = scene.ends.get(row["id"])
        if end is None:
            problems["an order that nobody expects"].append(row["id"])
        elif row["status"] != end:
            problems[f"an order that should be {end}"].append(f"{row['id']} is {row['status']}")
        is_paid_by_card = end == "complete" and row["payment_method"] == "card"
        if row["kept_minor"] != (row["total_cost_minor"] if is_paid_by_card else 0):
            problems["a wrong sum is taken from a card"].append(f"{row['id']}: {row['kept_minor']}")
        if row["times"] > 1:
            problems["a card is charged several times"].append(f"{row['id']}: {row['times']}")
    return [f"{what}, {len(places)} times: {', '.join(places[:SHOWN])}" for what, places in problems.items()]


def _check_logs(scene: Scene) -> list[str]:
    problems = []
    for log in sorted(scene.folder.glob("*.log")):
        lines = [line for line in log.read_text().splitlines() if any(mark in line for mark in _TROUBLE_IN_LOGS)]
        if lines:
            problems.append(f"{log.name} tells of trouble {len(lines)} times: {lines[0][-400:]}")
    return problems


EVENTS_IN_SCOPE = """
SELECT event.position, event.id, event.account_id, event.payload,
       (SELECT cardinality(scope.account_ids) = 0 OR event.account_id = ANY (scope.account_ids)
        FROM webhook_scopes scope WHERE scope.webhook_id = $1 AND scope.from_position <= event.position
        ORDER BY scope.from_position DESC LIMIT 1)
       AND NOT EXISTS (SELECT FROM webhook_skips skip
                       WHERE skip.webhook_id = $1 AND skip.position = event.position) AS in_scope
FROM webhooks webhook JOIN events event USING (organisation_id, mode)
WHERE webhook.id = $1 ORDER BY event.position
"""
ACKNOWLEDGED_ATTEMPTS = "SELECT positions FROM webhook_attempts WHERE webhook_id = $1 AND acknowledged"


class _HookCheck:
    """One webhook: what should have arrived, held against what did."""

    def __init__(self, scene: Scene, hook: Hook, tally: Tally) -> None:
        self._scene = scene
        self._hook = hook
        self._tally = tally
        self._faults: defaultdict[str, list[str]] = defaultdict(list)
        self._events: dict[str, Event] = {}
        # Of each account, the events in scope in their order, and how many of them from the first on were acknowledged.
        self._order: defaultdict[str, list[str]] = defaultdict(list)
        self._place: dict[str, int] = {}
        self._acknowledged: set[str] = set()
        self._reached: Counter[str] = Counter()
        self._last_new: dict[str, int] = {}

    async def run(self) -> None:
        for row in await self._scene.fetch(EVENTS_IN_SCOPE, self._hook.id):
            event = Event(row["id"], row["position"], row["account_id"], row["payload"].encode())
            self._events[event.id] = event
            if row["in_scope"]:
                self._place[event.id] = len(self._order[event.account_id])
                self._order[event.account_id].append(event.id)
        records = [r for name in self._hook.receivers for r in read_records(self._scene.folder, name)]
        records.sort(key=lambda record: record.exchange.arrived_s)
        contents = [self._read(record) for record in records]
        self._walk(records, contents)
        self._check_overlaps(records)
        self._check_arrived()
        await self._check_attempts(records, contents)
        self._tally.requests += len(records)
        for fault, places in self._faults.items():
            shown = ", ".join(places[:SHOWN])
            self._tally.problems.append(f"webhook {self._hook.id}: {fault}, {len(places)} times: {shown}")

    def _read(self, record: Recorded) -> list[Event]:
        """The events of a request, having checked its signature and that each event has the bytes it was born with."""
        self._check_signature(record)
        contents = []
        for raw in _read_body(record.body).events:
            event = self._events.get(_read_head(raw).event_id)
            if event is None:
                self._faults["an event that is not this organisation's"].append(_read_head(raw).event_id)
                continue
            if bytes(raw) != event.payload:
                self._faults["an event with other bytes than it was written with"].append(event.id)
            contents.append(event)
        return contents

    def _check_signature(self, record: Recorded) -> None:
        found = _HEADER.search(record.head)
        match = _SIGNATURE.fullmatch(found[1].decode()) if found else None
        moment = record.exchange.arrived_s
        if match is None or match[2] != self._hook.organisation.id:
            self._faults["a signature header of another form"].append(str(found and found[1]))
            return
        age_s = record.exchange.arrived_unix - int(match[1])
        if not self._scene.overlaps_are_meant and not -0.1 <= age_s <= self._scene.timeout_s + 1 + SLACK_S:
            self._faults["a signature of another time"].append(f"{age_s:.1f} s old")
        message = match[1].encode() + b"." + record.body
        sent = match[3].removeprefix(",v1=").split(",v1=")
        valid = {
            hmac.new(secret.text.encode(), message, hashlib.sha256).hexdigest(): secret
            for secret in self._hook.secrets
            if secret.from_s <= moment <= secret.until_s + SLACK_S
        }
        if not set(sent) <= set(valid):
            self._faults["a signature that does not verify"].append(f"{moment:.3f}")
        # Both, while a rotation surely overlaps: apart from the moments in which it begins and ends.
        surely = [s for s in valid.values() if s.from_s + SURELY_S < moment < s.until_s - SURELY_S]
        if len(sent) < len(surely):
            self._faults["one signature where two are due"].append(f"{moment:.3f}")

    def _walk(self, records: Sequence[Recorded], contents: Sequence[list[Event]]) -> None:
        """Arrivals and acknowledgements as they happened: none of an account's events before all those ahead of it."""
        happenings = [(record.exchange.arrived_s, 1, number) for number, record in enumerate(records)]
        happenings += [
            (record.exchange.ended_s, 0, number)
            for number, record in enumerate(records)
            if record.exchange.acknowledged and record.exchange.ended_s is not None
        ]
        seen: set[str] = set()
        for _, is_arrival, number in sorted(happenings):
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

    def _check_overlaps(self, records: Sequence[Recorded]) -> None:
        """One request at a time: each has ended, by answer or by hanging up, before the next one arrives."""
        busy_until_s = 0.0
        for exchange in (record.exchange for record in records):
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

    async def _check_attempts(self, records: Sequence[Recorded], contents: Sequence[list[Event]]) -> None:
        """The service claims no acknowledgement that the receiver did not give."""
        given = Counter(
            tuple(event.position for event in events)
            for record, events in zip(records, contents, strict=True)
            if record.exchange.acknowledged
        )
        rows = await self._scene.fetch(ACKNOWLEDGED_ATTEMPTS, self._hook.id)
        claimed = Counter(tuple(row["positions"]) for row in rows)
        for positions in (claimed - given).elements():
            self._faults["an acknowledgement on record that was never given"].append(str(positions[:5]))
        self._tally.unsettled += (given - claimed).total()
