"""Delivery: claim a webhook, send its next events, settle. A log and a cursor, one request in flight per webhook."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache

import structlog

from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings
from tonne.db.pool import Database
from tonne.webhooks import alerts, parked_store, store
from tonne.webhooks import delivery_store as lane_store
from tonne.webhooks.model import Batch, Lease, Outcome, Parked
from tonne.webhooks.schedule import MAX_BATCH, REFUSALS_BEFORE_PARKING, pause_after
from tonne.webhooks.sender import Sender
from tonne.webhooks.shared_event_reads import SharedEventReads
from tonne.webhooks.signing import signature_header

# So many deliveries in a row before a webhook gives way to others that wait.
TURN = 10
# So many accounts are tried in turn when the first one's event is refused again and again.
PROBES = 20
# After a request that took longer than this, nothing goes out before it is settled and the registration seen again.
SETTLE_FIRST_AFTER_S = 0.1

Sent = tuple[Batch, Outcome]
_OPENED_BOXES = 1000

_log = structlog.get_logger()


class _LeaseTooOld(Exception):
    """This process stood still for so long that a request begun now could outlast its lease."""


class Deliverer:
    """SharedEventReads in a worker. Any number may run at once: leases keep them out of each other's way."""

    def __init__(
        self,
        database: Database,
        sender: Callable[[], Sender],
        box: SecretBox,
        settings: Settings,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._make_sender = sender
        self._sender: Sender | None = None
        # Opened secrets of webhooks that are served again and again; a rotated one has another box.
        self._open_box = lru_cache(_OPENED_BOXES)(box.open)
        self._settings = settings
        self._wall_clock = wall_clock
        self._runs = SharedEventReads(database)
        self._busy: set[asyncio.Task[None]] = set()
        self._stopping = False
        # Called when a webhook's turn is over although more waits, so that the next look comes at once.
        self.wake: Callable[[], None] = lambda: None

    async def run_once(self) -> bool:
        """Claim as many due webhooks as there are free places, and start on them; false when there was none."""
        free = self._settings.webhook_concurrency - len(self._busy)
        if free <= 0:
            await asyncio.wait(self._busy, return_when=asyncio.FIRST_COMPLETED)
            return True
        async with self._database.connection() as connection:
            leases = await lane_store.claim_any_account(connection, free, self._settings.webhook_lease_s)
        for lease in leases:
            task = asyncio.create_task(self._serve(lease))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return bool(leases)

    async def drain(self) -> None:
        """Let the requests that are under way come to their end, and begin none."""
        self._stopping = True
        if self._busy:
            await asyncio.wait(self._busy)
        if self._sender is not None:
            await self._sender.close()
            self._sender = None

    async def _serve(self, lease: Lease) -> None:
        """One webhook's turn. A crash anywhere leaves the lease to run out, and the events to go out again."""
        held: Lease | None = lease
        try:
            for parked in await self._due_parked(lease):
                held = held and await self._deliver_parked(held, parked)
            for _ in range(TURN):
                if held is None or held.is_plain or self._stopping:
                    break
                held = await self._deliver_main(held)
            if held is not None and held.is_plain:
                await self._deliver_run(held)
            async with self._database.connection() as connection:
                more = await lane_store.release(connection, lease)
            if more:
                self.wake()
        except _LeaseTooOld:
            _log.warning("lease_too_old", webhook_id=lease.id)
        except Exception:  # noqa: BLE001 - one webhook's trouble must not end the others' deliveries
            # The lease is left to run out: the next try comes after a pause, here or in another worker.
            _log.exception("delivery_crashed", webhook_id=lease.id)

    async def _due_parked(self, lease: Lease) -> list[Parked]:
        if not lease.has_parked:
            return []
        async with self._database.connection() as connection:
            return await parked_store.due_parked(connection, lease)

    async def _deliver_main(self, lease: Lease) -> Lease | None:
        """One delivery in the main lane; the lease when another may follow at once."""
        if not lease.main_due or lease.cursor_position >= lease.last_position:
            return None
        async with self._database.connection() as connection:
            batch = await lane_store.read_main(connection, lease, lease.batch_limit)
            if not batch.positions:
                if batch.reaches == lease.cursor_position:
                    return None
                await lane_store.pass_over(connection, lease, batch.reaches)
                return await lane_store.renew(connection, lease, self._settings.webhook_lease_s)
            probes: list[Batch] = []
            account_id = ""
            # Every other time, once the first event has been refused often enough alone: is it that one, or all?
            if lease.head_refusals >= REFUSALS_BEFORE_PARKING and lease.failures % 2 == 1:
                account_id = await lane_store.account_at(connection, lease, batch.positions[0])
                probes = await lane_store.read_probes(connection, lease, account_id, PROBES)
        if probes:
            return await self._probe(lease, account_id, batch.positions[0], probes)
        return await self._settle(lease, batch, await self._send(lease, batch))

    async def _deliver_run(self, lease: Lease) -> None:
        """A turn of a webhook whose main lane is the stream itself. While a batch is under way, the one before it is
        settled and the one after it read.

        So a change of the registration may be seen one request late, but never after a slow request.
        """
        version, limit, seen_at = lease.version, lease.batch_limit, time.monotonic()
        batch: Batch | None = await self._read_run(lease, lease.cursor_position, limit)
        before: Sent | None = None
        for left in reversed(range(TURN)):
            if batch is None or self._stopping:
                break
            if before is not None and time.monotonic() - seen_at > SETTLE_FIRST_AFTER_S:
                renewed = await self._settle(lease, *before)
                if renewed is None or renewed.version != version:
                    return
                lease, seen_at, before = renewed, time.monotonic(), None
            limit = min(MAX_BATCH, limit * 2)
            began = time.monotonic()
            # Both to their ends: a request whose outcome is not waited for would go on behind our back.
            outcome, settled, ahead = await asyncio.gather(
                self._send(lease, batch),
                self._settle_before(lease, before),
                self._read_run(lease, batch.reaches, limit if left else 0),
                return_exceptions=True,
            )
            if isinstance(outcome, BaseException):
                raise outcome
            if isinstance(settled, BaseException):
                raise settled
            if isinstance(ahead, BaseException):
                raise ahead
            before = (batch, outcome)
            if settled is None or settled.version != version or not outcome.acknowledged:
                break
            lease, batch, seen_at = settled, ahead, began
        if before is not None:
            await self._settle(lease, *before)

    async def _settle_before(self, lease: Lease, before: Sent | None) -> Lease | None:
        return lease if before is None else await self._settle(lease, *before)

    async def _read_run(self, lease: Lease, after: int, limit: int) -> Batch | None:
        if limit == 0 or after >= lease.last_position:
            return None
        return await self._runs.read(lease, after, limit)

    async def _settle(self, lease: Lease, batch: Batch, outcome: Outcome) -> Lease | None:
        """The lease when another delivery may follow at once."""
        if outcome.acknowledged:
            async with self._database.connection() as connection:
                return await lane_store.settle_acknowledged(
                    connection, lease, batch, outcome, self._settings.webhook_lease_s
                )
        await self._settle_refused(lease, batch, outcome, head_alone=len(batch.positions) == 1)
        return None

    async def _probe(self, lease: Lease, account_id: str, position: int, probes: list[Batch]) -> Lease | None:
        """Send another account's next event. If it is taken, the first one's account alone is the trouble: park it.

        Each time the turn is another account's, in case several are refused.
        """
        probe = probes[lease.failures // 2 % len(probes)]
        if probe is not probes[0]:
            # Up to the first of them, all is the first account's, parked or out of scope: nothing is passed over. One
            # that was taken out of turn comes again in its turn.
            probe = replace(probe, reaches=probes[0].reaches - 1)
        outcome = await self._send(lease, probe)
        if not outcome.acknowledged:
            await self._settle_refused(lease, probe, outcome, head_alone=False)
            return None
        async with self._database.transaction() as tx:
            if not await lane_store.hold(tx, lease):
                return None
            await parked_store.park(tx, lease, account_id, position, self._pause(lease.head_refusals))
            settled = await lane_store.settle_acknowledged(tx, lease, probe, outcome, self._settings.webhook_lease_s)
        _log.warning("account_parked", webhook_id=lease.id, account_id=account_id, position=position)
        return settled

    async def _settle_refused(self, lease: Lease, batch: Batch, outcome: Outcome, *, head_alone: bool) -> None:
        pause = self._pause(lease.failures + 1)
        async with self._database.transaction() as tx:
            if await lane_store.settle_refused(tx, lease, batch, outcome, head_alone=head_alone, pause=pause):
                await alerts.alert_if_due(tx, lease, outcome, self._settings)

    async def _deliver_parked(self, lease: Lease, parked: Parked) -> Lease | None:
        """The waiting events of one account, as long as they are taken: one at first, then twice as many each time."""
        position, refusals, limit, held = parked.position, parked.refusals, 1, lease
        for _ in range(TURN):
            async with self._database.connection() as connection:
                batch = await parked_store.read_parked(connection, held, parked.account_id, position, limit)
            if not batch.positions or self._stopping:
                break
            outcome = await self._send(held, batch)
            async with self._database.transaction() as tx:
                if not await lane_store.hold(tx, held):
                    return None
                await parked_store.record_parked_attempt(tx, held, batch, outcome)
                if outcome.acknowledged:
                    await store.advance_parked(tx, held, parked.account_id, batch.positions[-1])
                else:
                    await parked_store.refuse_parked(tx, held, parked.account_id, self._pause(refusals + 1))
                    await alerts.alert_parked_if_due(tx, held, parked.account_id, outcome, self._settings)
                renewed = await lane_store.renew(tx, held, self._settings.webhook_lease_s)
            if renewed is None or not outcome.acknowledged:
                return renewed
            position, refusals, limit, held = batch.positions[-1] + 1, 0, min(limit * 2, MAX_BATCH), renewed
        return held

    async def _send(self, lease: Lease, batch: Batch) -> Outcome:
        needed_s = min(self._settings.webhook_timeout_s, self._settings.webhook_lease_s * 2 / 3)
        if time.monotonic() + needed_s > lease.expires_at:
            raise _LeaseTooOld
        body = batch.body
        boxes = [box for box in (lease.secret_box, lease.old_secret_box) if box is not None]
        signing_secrets = [self._open_box(box, lease.id) for box in boxes]
        header = signature_header(signing_secrets, lease.organisation_id, int(self._wall_clock()), body)
        if self._sender is None:
            self._sender = self._make_sender()
        headers = {"Content-Type": "application/json", f"{self._settings.brand}-HMAC": header}
        outcome = await self._sender.post(lease.url, body, headers)
        # What was taken stands in the list of attempts, and is too much to say twice.
        log = _log.debug if outcome.acknowledged else _log.info
        log(
            "delivery",
            webhook_id=lease.id,
            organisation_id=lease.organisation_id,
            first_position=batch.positions[0],
            events=len(batch.positions),
            status=outcome.status,
            error=outcome.error,
            ms=outcome.duration_ms,
        )
        return outcome

    def _pause(self, failures: int) -> timedelta:
        return pause_after(failures, self._settings.webhook_time_scale)
