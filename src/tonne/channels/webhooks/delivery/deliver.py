"""Delivery of events to webhooks: claim due webhooks, then read, send and settle one batch after another for each."""

import asyncio
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from tonne.channels.webhooks.delivery import claim
from tonne.channels.webhooks.delivery.due_streams import DueStreams, StreamSearch
from tonne.channels.webhooks.delivery.kept_leases import KeptLeases
from tonne.channels.webhooks.delivery.metrics import DeliveryMetrics
from tonne.channels.webhooks.delivery.next_batch import next_batch
from tonne.channels.webhooks.delivery.outcomes import NOT_SIGNED
from tonne.channels.webhooks.delivery.send_batch import BatchSender
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.delivery.turn import SLOW_TURN_S, SharedEventReads, Slots, Turn
from tonne.channels.webhooks.model import Lease
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.db.database import Database
from tonne.platform.db.errors import log_outage
from tonne.platform.events.notification import Notification
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings

_log = structlog.get_logger()


class Deliverer:
    """Runs in a worker. Any number of workers may run: a lease gives a webhook to one of them at a time."""

    def __init__(
        self,
        database: Database,
        make_sender: Callable[[], Sender],
        box: SecretBox,
        settings: Settings,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._lease_s = settings.webhook_lease_s
        # How long a lease must last when a request is started.
        self._request_s = min(settings.webhook_timeout_s, settings.webhook_lease_s * 2 / 3)
        self._stopping = asyncio.Event()
        self.measured = DeliveryMetrics()
        self._sender = BatchSender(database, make_sender, box, settings, wall_clock)
        self._kept = KeptLeases(self._lease_s, self._request_s)
        self._settlement = Settlement(database, settings, self.measured, self._kept, self._search_in)
        self._shared_reads = SharedEventReads(database)
        self._busy: set[asyncio.Task[None]] = set()
        self._slots = Slots(settings.webhook_concurrency)
        self._due_streams = DueStreams(settings.worker_poll_s)
        # Set when a webhook is released with more events due: the job then runs again without waiting.
        self.more_due = asyncio.Event()

    async def _deliver(self, claimed: Lease) -> None:
        """One turn of one webhook, from the claim of its lease to the release.

        After a crash the lease expires, and a worker sends the unsettled events again.
        """
        turn = Turn(claimed, self._database, self._shared_reads, self._settlement, self._slots, self._stopping)
        try:
            while (upcoming := await next_batch(turn)) is not None:
                lease, batch, reader = upcoming
                if not lease.covers(self._request_s):
                    # The process was suspended. A request that is started now could outlast the lease.
                    self.measured.leases_lost.inc("too_old")
                    _log.warning("lease_too_old", webhook_id=lease.id)
                    break
                request = await self._sender.sign(lease, batch)
                # No transaction is open while the receiver processes the request.
                outcome = NOT_SIGNED if request is None else await self._sender.post(lease, batch, request)
                self.measured.observe(lease, batch, outcome)
                # Cursor, back-off and attempt change together, and only under a valid fencing token.
                await reader.settle(lease, batch, outcome)
        except Exception as error:
            if not log_outage(error):
                raise
        finally:
            await asyncio.gather(*turn.background, return_exceptions=True)
        if turn.lease.keeper is not None:
            if not self._kept.keep(turn.lease):
                self._search_again()
        elif not turn.lease.is_released and await self._settlement.release(claimed):
            self._search_again()

    def expect(self, notification: Notification) -> None:
        """Its streams got events; any stream if there are none. The next run searches only there."""
        self._kept.hear(notification)
        self._due_streams.expect(notification.streams)

    async def run_once(self) -> bool:
        """Claim as many due webhooks as there are free slots and start their turns. False when none was due."""
        healthy, failing = self._slots.free()
        self._kept.review(is_full=healthy <= 0)
        if dropped := list(self._kept.dropped):
            await self._database.run(claim.give_back, dropped)
            del self._kept.dropped[: len(dropped)]
        if healthy <= 0 and failing <= 0:
            # With a timeout, because a turn that becomes slow frees its slot without ending.
            await asyncio.wait(self._busy, timeout=SLOW_TURN_S / 4, return_when=asyncio.FIRST_COMPLETED)
            return True
        ready, handled = self._kept.take(healthy, self._due_streams.turns_in)
        if ready:
            healthy -= len(ready)
            self._due_streams.begin_turns(ready)
            self._start(ready)
        if self._due_streams.handled(handled) and handled:
            return False
        search = self._due_streams.next_search(may_be_narrow=healthy > 0)
        if search is None:
            return False
        try:
            leases = await self._claim(search, healthy, failing)
        except BaseException:
            self._due_streams.search_failed()
            raise
        for lease in leases:
            self._kept.note_claim(lease)
        claimed_failing = self._start(leases)
        claimed_healthy = len(leases) - claimed_failing
        all_due = claimed_healthy < healthy and (search.streams is not None or claimed_failing < failing)
        self._due_streams.claimed(leases, all_due=all_due)
        if search.streams is not None and not all_due:
            self._due_streams.expect_anywhere()
        return bool(leases)

    def _start(self, leases: Sequence[Lease]) -> int:
        """Start their turns. Returns how many take a slot of the failing ones."""
        failing = sum(self._slots.acquire(lease) for lease in leases)
        for lease in leases:
            task = asyncio.create_task(self._run_turn(lease))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return failing

    async def _claim(self, search: StreamSearch, healthy: int, failing: int) -> list[Lease]:
        # In a transaction: if the response is lost, there is no commit, and the webhooks do not stay leased to nobody.
        kept = self._kept.leases
        async with self._database.transaction() as tx:
            if search.streams is not None:
                return await claim.claim_in_streams(tx, search.streams, healthy, self._lease_s, kept=kept)
            if search.clears_due:
                await claim.clear_due(tx)
            return await claim.claim_webhooks(
                tx, healthy, failing, self._lease_s, kept=kept, full_scan=search.full_scan
            )

    async def _run_turn(self, lease: Lease) -> None:
        try:
            await self._deliver(lease)
        except Exception as error:  # noqa: BLE001 - an error of one webhook must not stop the others
            # The database may be away for longer than the lease.
            if not log_outage(error):
                _log.exception("delivery_crashed", webhook_id=lease.id)
        finally:
            if self._slots.release(lease):
                self._search_again()
            if self._due_streams.end_turn(lease):
                self.more_due.set()

    def _search_in(self, pause: timedelta) -> None:
        asyncio.get_running_loop().call_later(pause.total_seconds(), self._search_again)

    def _search_again(self) -> None:
        self._due_streams.expect_anywhere()
        self.more_due.set()

    async def drain(self) -> None:
        """Finish the requests in flight and start no new ones."""
        self._stopping.set()
        if self._busy:
            await asyncio.wait(self._busy)
        await self._sender.close()
