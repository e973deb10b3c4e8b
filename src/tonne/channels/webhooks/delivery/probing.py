"""Find the accounts whose events the receiver refuses, park them, and go on with the others.

A turn sends single events. When the first event after the cursor is refused, the next event of other accounts follows
as a probe. An accepted probe proves that the receiver works: every account refused before it in this turn is parked.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct, field

from tonne.channels.webhooks.delivery import batch_store
from tonne.channels.webhooks.delivery.outcomes import Delivered, Parked, RefusedAccount, Retry, SendOutcome
from tonne.channels.webhooks.delivery.schedule import MAX_UNANSWERED, PROBES, REFUSALS_BEFORE_PARKING
from tonne.channels.webhooks.delivery.send_batch import BatchSender
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.model import EventBatch, Lease, Probe
from tonne.platform.db.pool import Connection, Database
from tonne.platform.values.replace import replace


class Round(Struct):
    """The first event after the cursor, and the probes that follow if it is refused."""

    head: EventBatch
    account_id: str
    # The next event of the other accounts, in order of position: one more than a turn may probe.
    nearest: Sequence[Probe]
    probes: Sequence[Probe]
    # Whether there are accounts after the last probe.
    continues: bool
    refused: list[RefusedAccount] = field(default_factory=list)
    outcomes: list[Retry] = field(default_factory=list)

    @property
    def unanswered(self) -> int:
        return sum(outcome.status is None for outcome in self.outcomes)

    def refuse(self, account: RefusedAccount, outcome: Retry) -> None:
        self.refused.append(account)
        self.outcomes.append(outcome)

    def reached_by(self, accepted: Probe) -> int:
        """How far the cursor may move: up to the next event of an account that is not parked and was not sent."""
        refused = {account.position for account in self.refused}
        waiting = [probe.position for probe in self.nearest if probe.position not in refused]
        return accepted.position if not waiting or waiting[0] == accepted.position else waiting[0] - 1


class Probing(Struct, frozen=True):
    database: Database
    sender: BatchSender
    settlement: Settlement
    stopping: asyncio.Event

    @staticmethod
    def is_needed(lease: Lease) -> bool:
        """The first event was refused often, or something was refused while the receiver accepts some accounts only."""
        suspicious = lease.head_refusals >= REFUSALS_BEFORE_PARKING or (lease.has_parked and lease.failures > 0)
        return lease.main_due and suspicious

    async def deliver(self, lease: Lease) -> Lease | None:
        """Returns the renewed lease if another request may follow at once."""
        held: Lease | None = lease
        for _ in range(PROBES):
            if held is None or held.cursor_position >= held.last_position or self.stopping.is_set():
                break
            async with self.database.connection() as connection:
                head = await batch_store.read_in_scope(connection, replace(held, batch_limit=1))
                if not head.positions:
                    break
                found = await self._prepare(connection, held, head)
            # The first time, the event was refused alone just before.
            known = held.head_refusals >= REFUSALS_BEFORE_PARKING and held.probe_after is None and bool(found.probes)
            if known:
                found.refused.append(RefusedAccount(found.account_id, head.positions[0], held.head_refusals))
                held = await self._probe(held, found)
                continue
            outcome = await self.sender.send(held, head)
            if isinstance(outcome, Delivered) or not found.probes or outcome.ends_turn:
                held = await self.settlement.settle(held, head, outcome)
                continue
            found.refuse(RefusedAccount(found.account_id, head.positions[0], held.head_refusals + 1), outcome)
            noted = await self.settlement.record_refusal(held, head, outcome)
            held = noted and await self._probe(noted, found)
        return held

    async def _probe(self, lease: Lease, found: Round) -> Lease | None:
        """Send the probes until one is accepted."""
        held: Lease | None = lease
        for number, probe in enumerate(found.probes, start=1):
            if held is None:
                return None
            outcome: SendOutcome = await self.sender.send(held, probe.batch)
            if isinstance(outcome, Delivered):
                return await self._park(held, found, probe, outcome)
            if outcome.ends_turn:
                return await self.settlement.settle(held, probe.batch, outcome)
            found.refuse(RefusedAccount(probe.account_id, probe.position, 1), outcome)
            if number == len(found.probes) or found.unanswered >= MAX_UNANSWERED or self.stopping.is_set():
                await self._give_up(held, found, probe, outcome)
                return None
            held = await self.settlement.record_refusal(held, probe.batch, outcome)
        return held

    async def _park(self, lease: Lease, found: Round, accepted: Probe, outcome: Delivered) -> Lease | None:
        reaches = found.reached_by(accepted)
        # An event that the cursor does not reach is sent again in order.
        ahead = accepted.position if reaches < accepted.position else None
        parked = Parked(tuple(found.refused), outcome, ahead)
        return await self.settlement.settle(lease, replace(accepted.batch, reaches=reaches), parked)

    async def _give_up(self, lease: Lease, found: Round, last: Probe, outcome: Retry) -> None:
        """No event was accepted. The next turn probes the next accounts.

        It follows soon, whatever the back-off, if the receiver works but refused each of these events.
        """
        exhausted = not found.continues and last is found.probes[-1]
        soon = not exhausted and all(refusal.concerns_event for refusal in found.outcomes)
        next_after = 0 if exhausted else last.position
        await self.settlement.settle_probes(lease, last.batch, outcome, probe_after=next_after, soon=soon)

    @staticmethod
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
