"""Find the accounts whose events the receiver refuses, park them, and continue with the others.

A turn sends single events. When the first event after the cursor is refused, the next event of other accounts follows
as a probe. An accepted probe proves that the receiver works: every account refused before it in this turn is parked.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from tonne.channels.webhooks.delivery import batch_store
from tonne.channels.webhooks.delivery.outcomes import Delivered, RefusedAccount, Retry, SendOutcome
from tonne.channels.webhooks.delivery.schedule import MAX_UNANSWERED, PROBES, REFUSALS_BEFORE_PARKING
from tonne.channels.webhooks.delivery.turn import Turn
from tonne.channels.webhooks.model import EventBatch, Lease, Probe
from tonne.platform.db.database import Connection
from tonne.platform.values.replace import replace


class Round(Struct):
    """The first event after the cursor, and the probes that follow if it is refused."""

    head: EventBatch
    account_id: str
    # The next event of each other account, in order of position, up to one more than a turn may probe.
    nearest: Sequence[Probe]
    probes: Sequence[Probe]
    # Whether there are accounts after the last probe.
    continues: bool
    refused: list[RefusedAccount] = field(default_factory=list)
    outcomes: list[Retry] = field(default_factory=list)
    probes_sent: int = 0

    @property
    def next_probe(self) -> Probe:
        return self.probes[self.probes_sent]

    @property
    def unanswered(self) -> int:
        return sum(outcome.status is None for outcome in self.outcomes)

    def reached_by(self, accepted: Probe) -> int:
        """How far the cursor may move: up to the next event of an account that is not parked and was not sent."""
        refused = {account.position for account in self.refused}
        waiting = [probe.position for probe in self.nearest if probe.position not in refused]
        return accepted.position if not waiting or waiting[0] == accepted.position else waiting[0] - 1


class Probing(Struct):
    turn: Turn
    rounds: list[Round] = field(default_factory=list)
    # Whether the last round goes on with another probe.
    in_round: bool = False

    async def read(self) -> EventBatch | None:
        if self.in_round:
            return self.rounds[-1].next_probe.batch
        lease = self.turn.lease
        if len(self.rounds) == PROBES or lease.cursor_position >= lease.last_position or self.turn.stopping.is_set():
            return None
        async with self.turn.database.connection() as connection:
            head = await batch_store.read_in_scope(connection, replace(lease, batch_limit=1))
            if not head.positions:
                return head
            found = await _prepare(connection, lease, head)
        self.rounds.append(found)
        if lease.head_refusals >= REFUSALS_BEFORE_PARKING and lease.probe_after is None and found.probes:
            # The first time, the event was refused alone just before.
            found.refused.append(RefusedAccount(found.account_id, head.positions[0], lease.head_refusals))
            self.in_round = True
            return found.next_probe.batch
        return head

    async def settle(self, lease: Lease, batch: EventBatch, outcome: SendOutcome) -> None:
        found, settlement = self.rounds[-1], self.turn.settlement
        probe = found.next_probe if batch.is_probe else None
        self.in_round = False
        renewed: Lease | None = None
        if isinstance(outcome, Delivered) and probe is not None:
            accepted = replace(batch, reaches=found.reached_by(probe))
            renewed = await settlement.park(lease, accepted, outcome, found.refused)
        elif isinstance(outcome, Delivered) or not found.probes or outcome.ends_turn:
            renewed = await settlement.settle(lease, batch, outcome)
        elif self._refuse(lease, found, probe, outcome):
            self.in_round, renewed = True, await settlement.record_refusal(lease, batch, outcome)
        else:
            await self._give_up(lease, found, outcome)
        self.turn.continue_with(renewed)

    def _refuse(self, lease: Lease, found: Round, probe: Probe | None, outcome: Retry) -> bool:
        """Note that the first event, or a probe, was refused. Whether another probe follows in this turn."""
        found.outcomes.append(outcome)
        if probe is None:
            found.refused.append(RefusedAccount(found.account_id, found.head.positions[0], lease.head_refusals + 1))
            return True
        found.refused.append(RefusedAccount(probe.account_id, probe.position, 1))
        found.probes_sent += 1
        all_sent = found.probes_sent == len(found.probes)
        return not (all_sent or found.unanswered >= MAX_UNANSWERED or self.turn.stopping.is_set())

    async def _give_up(self, lease: Lease, found: Round, outcome: Retry) -> None:
        """No event was accepted. The next turn probes the next accounts.

        It follows soon, whatever the back-off, if the receiver works but refused each of these events.
        """
        last = found.probes[found.probes_sent - 1]
        exhausted = not found.continues and last is found.probes[-1]
        soon = not exhausted and all(refusal.concerns_event for refusal in found.outcomes)
        next_after = 0 if exhausted else last.position
        await self.turn.settlement.settle_probes(lease, last.batch, outcome, probe_after=next_after, soon=soon)


async def _prepare(connection: Connection, lease: Lease, head: EventBatch) -> Round:
    account_id = await batch_store.account_at(connection, lease, head.positions[0])
    nearest = await batch_store.read_probes(connection, lease, account_id, lease.cursor_position, PROBES + 1)
    if lease.accepted_probe is not None and lease.accepted_probe > lease.cursor_position:
        # The nearest accounts, and then the one whose event was accepted: if it still is, the others are parked.
        good = await batch_store.read_probes(connection, lease, account_id, lease.accepted_probe - 1, 1)
        first = nearest[: PROBES - 1]
        probes = [*first, *(probe for probe in good if probe not in first)]
        return Round(head, account_id, nearest, probes, continues=len(nearest) > len(first))
    candidates = nearest
    if lease.probe_after is not None and lease.probe_after > lease.cursor_position:
        candidates = await batch_store.read_probes(connection, lease, account_id, lease.probe_after, PROBES + 1)
    candidates = candidates or nearest
    return Round(head, account_id, nearest, candidates[:PROBES], continues=len(candidates) > PROBES)
