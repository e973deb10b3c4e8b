"""Histories of requests to a registry over a network that loses, delays and doubles them, workers that are killed, and
people who look at the registry.

`Client` follows the rules of the package; those of `broken_clients` do not.
"""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import ClassVar

from tonne.platform.values.context import replace
from tonne.supply.registries import rules
from tonne.supply.registries.gateway import HOLDING_USED, INSUFFICIENT, Answer, Outcome, Repeat
from tonne.supply.registries.retire_units import LEASE
from tonne.supply.registries.rules import CLOSED, RequestProgress, State

START = datetime(2026, 3, 1, tzinfo=UTC)
HOLDINGS, UNITS, ORDERS = 2, 12, 12
STEPS = 4000
NO_FAULTS_AFTER = 300


@dataclass
class Request:
    """What one attempt asks for. A `key` is that of the instruction, unless the client makes a new one."""

    key: str
    reference: str
    holding: str
    units: int


@dataclass
class Made:
    request: Request
    state: State


class Registry:
    """Independent books: which retirement used how many units of which holding."""

    def __init__(self, repeat: Repeat, rng: random.Random) -> None:
        self.repeat, self._rng = repeat, rng
        self.active = {f"h{number}": UNITS for number in range(HOLDINGS)}
        self.child: dict[str, str] = {}
        self.used: set[str] = set()
        self.made: list[Made] = []
        self.stored: dict[str, Answer] = {}

    def serve(self, request: Request) -> Answer:
        if self.repeat is Repeat.KEY and request.key in self.stored:
            return self.answer_of(request)
        if request.holding in self.used:
            return self._used(request)
        if self.active.get(request.holding, 0) < request.units:
            return self._store(request, Answer(outcome=Outcome.DECLINED, code=INSUFFICIENT))
        if self._rng.random() < 0.05:
            # A refusal that is not stored: the same request may succeed a moment later.
            return Answer(outcome=Outcome.DECLINED, code="busy")
        self.active[request.holding] -= request.units
        if self.repeat is Repeat.HOLDING:
            self.used.add(request.holding)
            if left := self.active.pop(request.holding):
                self.child[request.holding] = f"{request.holding}."
                self.active[f"{request.holding}."] = left
        state = State.PENDING if self._rng.random() < 0.2 else State.RETIRED
        self.made.append(Made(request, state))
        return self._store(request, self.of(self.made[-1]))

    def _store(self, request: Request, answer: Answer) -> Answer:
        if self.repeat is Repeat.KEY:
            self.stored[request.key] = answer = replace(answer, is_final=True)
        return answer

    def _used(self, request: Request) -> Answer:
        """The gateway reads who has used the holding."""
        mine = [each for each in self.made if each.request.reference == request.reference]
        return self.of(mine[-1]) if mine else Answer(outcome=Outcome.DECLINED, code=HOLDING_USED, is_final=True)

    def of(self, made: Made) -> Answer:
        # Rejecting may have freed the holding: a late copy could use it.
        is_final = made.state is State.DECLINED and (self.repeat is Repeat.KEY or made.request.holding in self.used)
        next_holding_id = self.child.get(made.request.holding)
        return Answer(outcome=Outcome(made.state), next_holding_id=next_holding_id, is_final=is_final)

    def latest(self, reference: str) -> Made | None:
        return next((each for each in reversed(self.made) if each.request.reference == reference), None)

    def answer_of(self, request: Request) -> Answer:
        mine = [each for each in self.made if each.request.key == request.key]
        return self.of(mine[0]) if mine else self.stored[request.key]

    def look_up(self, request: Request) -> Answer:
        for each in reversed(self.made):
            if each.request.reference == request.reference:
                if each.state is State.PENDING and self._rng.random() < 0.5:
                    self._decide(each)
                return self.of(each)
        if self.repeat is Repeat.KEY and request.key in self.stored:
            return self.stored[request.key]
        if request.holding in self.used:
            return self._used(request)
        return Answer(outcome=Outcome.NOT_FOUND)

    def _decide(self, made: Made) -> None:
        made.state = State.RETIRED if self._rng.random() < 0.8 else State.DECLINED
        if made.state is State.DECLINED:
            holding = made.request.holding
            while holding in self.child:
                holding = self.child[holding]
            # What is left has the units again; a holding that was used up is free again.
            self.used.discard(holding)
            self.active[holding] = self.active.get(holding, 0) + made.request.units

    def decide_all(self) -> None:
        for made in self.made:
            if made.state is State.PENDING:
                self._decide(made)


@dataclass
class Row:
    """An instruction as it is stored. What was not committed is not here."""

    order: int
    request: Request
    progress: RequestProgress = field(default_factory=lambda: RequestProgress(State.RECORDED))
    next_at: datetime = START
    looks: int = 0


@dataclass
class Client:
    """One or more workers with the rules of the package."""

    registry: Registry
    rng: random.Random
    now: datetime = START
    waiting: list[tuple[int, int]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    holding: dict[str, str] = field(default_factory=dict)
    booked: Counter[int] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    # Copies that arrive later, and answers that arrive after the worker has lost its lease.
    under_way: list[tuple[datetime, Request]] = field(default_factory=list)
    late_answers: list[tuple[datetime, Row, Answer]] = field(default_factory=list)
    # Requests whose worker is held up between marking them as sent and sending them.
    held_up: list[tuple[datetime, Row, Request, datetime]] = field(default_factory=list)
    # What people have found, before another one approves it: when, and the progress and the retirement at that time.
    found: list[tuple[datetime, Row, RequestProgress, Made | None]] = field(default_factory=list)
    # How late requests arrive, and how long people wait. What is later than the ten minutes of the rules is safe for
    # workers alone: people who look then must be more patient.
    late_s: tuple[int, ...] = (5, 60, 900, 1500)
    patience: timedelta = timedelta(minutes=30)
    is_calm: bool = False
    late_share: ClassVar[float] = 0.06

    def fault(self, kind: str, probability: float) -> bool:
        if self.is_calm or self.rng.random() >= probability:
            return False
        self.faults[kind] += 1
        return True

    def record(self) -> None:
        busy = {row.request.holding for row in self.rows if row.progress.state not in CLOSED}
        for root in sorted(self.holding):
            holding = self.holding[root]
            mine = [each for each in self.waiting if f"h{each[0] % HOLDINGS}" == root]
            if holding in busy or not mine:
                continue
            order, units = mine[0]
            self.waiting.remove(mine[0])
            key = f"rin{len(self.rows)}"
            self.rows.append(Row(order, Request(key, f"T-{key}", holding, units), next_at=self.now))

    def advance(self, row: Row) -> None:
        row.looks += 1
        row.next_at = self.now + timedelta(minutes=1)
        if row.progress.state is State.RECORDED:
            self.send(row)
            return
        answer = self.over_network(self.registry.look_up, row.request)
        if self.may_resend(row, answer):
            self.send(row)
        elif not self.fault("kill", 0.02):
            self.settle(row, answer, by_request=False)

    def may_resend(self, row: Row, answer: Answer) -> bool:
        return rules.may_resend(row.progress, answer, self.now)

    def mark(self, row: Row) -> None:
        row.progress = rules.asked(row.progress, self.now)

    def send(self, row: Row) -> None:
        if self.fault("kill", 0.02):
            return
        self.mark(row)
        if self.fault("kill", 0.02):
            return
        request = self.request_of(row)
        if self.fault("held up", 0.05):
            due_at = self.now + timedelta(seconds=self.rng.choice([30, 1200]))
            self.held_up.append((due_at, row, request, self.now))
            return
        self.ask(row, request)

    def is_too_late(self, marked_at: datetime) -> bool:
        return self.now - marked_at > LEASE

    def ask(self, row: Row, request: Request) -> None:
        if self.fault("unavailable", 0.05):
            self.settle(row, Answer(outcome=Outcome.UNAVAILABLE), by_request=True)
            return
        if self.fault("late", self.late_share):
            self.under_way.append((self.now + timedelta(seconds=self.rng.choice(self.late_s)), request))
            self.settle(row, Answer(outcome=Outcome.UNKNOWN), by_request=True)
            return
        answer = self.over_network(self.registry.serve, request)
        # A refusal that is not stored is not doubled: nobody could count that copy.
        is_repeatable = answer.outcome is not Outcome.DECLINED or answer.is_final
        # Nor what may be rejected and free a holding that was used up.
        frees = answer.outcome is Outcome.PENDING and answer.next_holding_id is None
        is_repeatable &= not frees or self.registry.repeat is Repeat.KEY
        if is_repeatable and self.fault("doubled", 0.06):
            self.under_way.append((self.now + timedelta(seconds=self.rng.choice(self.late_s)), request))
        if self.fault("slow worker", 0.04):
            self.late_answers.append((self.now + timedelta(seconds=self.rng.choice([90, 1200])), row, answer))
        elif not self.fault("kill", 0.03):
            self.settle(row, answer, by_request=True)

    def request_of(self, row: Row) -> Request:
        return row.request

    def over_network(self, call: Callable[[Request], Answer], request: Request) -> Answer:
        if self.fault("lost", 0.06):
            return Answer(outcome=Outcome.UNKNOWN)
        answer = call(request)
        return Answer(outcome=Outcome.UNKNOWN) if self.fault("answer lost", 0.06) else answer

    def settle(self, row: Row, answer: Answer, *, by_request: bool) -> None:
        if row.progress.state in CLOSED:
            return
        progress = self.answered(row, answer, by_request=by_request)
        row.next_at = rules.next_look(progress, row.looks, self.now)
        self.close(row, progress, answer)

    def close(self, row: Row, progress: RequestProgress, answer: Answer | None) -> None:
        """Book the result, if there is one."""
        row.progress = progress
        if row.progress.state is State.RETIRED:
            self.booked[row.order] += row.request.units
        elif row.progress.state is State.DECLINED:
            self.waiting.append((row.order, row.request.units))
        if row.progress.state in CLOSED and answer is not None and answer.next_holding_id is not None:
            self.holding[row.request.holding.rstrip(".")] = answer.next_holding_id

    def answered(self, row: Row, answer: Answer, *, by_request: bool) -> RequestProgress:
        return rules.answered(row.progress, answer, by_request=by_request)

    def arrive(self) -> None:
        for due in [each for each in self.under_way if each[0] <= self.now]:
            self.under_way.remove(due)
            self.registry.serve(due[1])
        for held_up in [each for each in self.held_up if each[0] <= self.now]:
            self.held_up.remove(held_up)
            _, row, request, marked_at = held_up
            if self.is_too_late(marked_at):
                self.settle(row, Answer(outcome=Outcome.UNAVAILABLE), by_request=True)
            else:
                self.ask(row, request)
        for late in [each for each in self.late_answers if each[0] <= self.now]:
            self.late_answers.remove(late)
            self.settle(late[1], late[2], by_request=True)

    def look(self) -> None:
        """A person looks for a request at the registry, and says what became of it."""
        for row in self.rows:
            sent_at = row.progress.sent_at
            if row.progress.state in CLOSED or sent_at is None or self.now - sent_at < self.patience:
                continue
            made = self.registry.latest(row.request.reference)
            if made is None or made.state is not State.PENDING:
                self.found.append((self.now, row, row.progress, made))

    def approve(self) -> None:
        """Another person approves what was found."""
        found_at, row, seen, made = self.found.pop(0)
        if row.progress.state in CLOSED or not self.may_settle(row, seen, found_at):
            return
        self.faults["settled"] += 1
        is_retired = made is not None and made.state is State.RETIRED
        state = State.RETIRED if is_retired else State.DECLINED
        self.close(
            row, replace(row.progress, state=state, in_doubt=0), None if made is None else self.registry.of(made)
        )

    def may_settle(self, row: Row, seen: RequestProgress, found_at: datetime) -> bool:
        return rules.may_settle(row.progress, seen=seen.state, found_at=found_at)

    def is_idle(self) -> bool:
        is_open = any(row.progress.state not in CLOSED for row in self.rows)
        return not (self.waiting or self.under_way or self.late_answers or self.held_up or is_open)


def run_history(seed: int, repeat: Repeat, client_type: type[Client] = Client) -> tuple[list[str], Counter[str]]:
    """What is wrong at the end, and the faults."""
    rng = random.Random(seed)  # noqa: S311 - not a secret
    registry = Registry(repeat, rng)
    client = client_type(registry, rng)
    client.holding = {holding: holding for holding in registry.active}
    orders = {number: rng.randint(1, UNITS * HOLDINGS // ORDERS) for number in range(ORDERS)}
    client.waiting = list(orders.items())
    if seed % 2:
        client.late_s, client.patience = (5, 60, 300, 480), rules.RESEND_AFTER
    if seed % 3:
        # They are used up.
        registry.active = {
            f"h{holding}": sum(units for number, units in orders.items() if number % HOLDINGS == holding)
            for holding in range(HOLDINGS)
        }
    for step in range(STEPS):
        client.is_calm = step >= NO_FAULTS_AFTER
        client.arrive()
        client.record()
        if rng.random() < 0.15:
            client.look()
        if client.found and rng.random() < 0.2:
            client.approve()
        due = [row for row in client.rows if row.progress.state not in CLOSED and row.next_at <= client.now]
        if due:
            client.advance(rng.choice(due))
        else:
            client.now += timedelta(seconds=rng.choice([1, 30, 300]))
        if client.is_idle():
            break
    return _violations(client, orders), client.faults


def _violations(client: Client, orders: dict[int, int]) -> list[str]:
    client.registry.decide_all()
    made = [each for each in client.registry.made if each.state is State.RETIRED]
    retired: Counter[int] = Counter()
    by_reference = {row.request.reference: row.order for row in client.rows}
    for each in made:
        base = ".".join(each.request.reference.split(".")[:1])
        retired[by_reference[base]] += each.request.units
    found = [
        f"order {order}: {client.booked[order]} booked, {retired[order]} retired of {units}"
        for order, units in orders.items()
        if client.booked[order] != retired[order] or retired[order] > units
    ]
    if not client.is_idle():
        found.append("requests are still open, although the network is calm")
    return found
