"""Delivery of events to webhooks: claim due webhooks, then send and settle one request at a time for each."""

import asyncio
import time
from collections.abc import Callable

import structlog

from tonne.channels.webhooks.delivery import claim
from tonne.channels.webhooks.delivery.due_streams import Look, Looks
from tonne.channels.webhooks.delivery.main_stream import MainStream
from tonne.channels.webhooks.delivery.metrics import DeliveryMetrics
from tonne.channels.webhooks.delivery.parked_accounts import ParkedAccounts
from tonne.channels.webhooks.delivery.send_batch import BatchSender, LeaseTooOld
from tonne.channels.webhooks.delivery.settle import Settlement
from tonne.channels.webhooks.delivery.shared_event_reads import SharedEventReads
from tonne.channels.webhooks.delivery.slots import SLOW_TURN_S, Places
from tonne.channels.webhooks.model import Lease
from tonne.channels.webhooks.sending.sender import Sender
from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.db.pool import Database
from tonne.platform.events.notification import Stream
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
        self._settings = settings
        self._stopping = asyncio.Event()
        self.measured = DeliveryMetrics()
        self._sender = BatchSender(database, make_sender, box, settings, metrics=self.measured, wall_clock=wall_clock)
        self._settlement = Settlement(database, settings, self.measured)
        self._parked_accounts = ParkedAccounts(database, self._sender, self._settlement, self._stopping)
        reads = SharedEventReads(database)
        self._main_stream = MainStream(database, reads, self._sender, self._settlement, self._stopping)
        self._busy: set[asyncio.Task[None]] = set()
        self._places = Places(settings.webhook_concurrency)
        self._looks = Looks(settings.worker_poll_s)
        # Set when a webhook is released with more events due: the job then runs again without waiting.
        self.more_due = asyncio.Event()

    def expect(self, streams: frozenset[Stream]) -> None:
        """These streams got events; any stream if there are none. The next run looks only there."""
        self._looks.expect(streams)

    async def run_once(self) -> bool:
        """Claim as many due webhooks as there are free places and start delivery. False when none was due."""
        healthy, failing = self._places.free()
        if healthy <= 0 and failing <= 0:
            # With a timeout, because a turn that becomes slow frees its place without ending.
            await asyncio.wait(self._busy, timeout=SLOW_TURN_S / 4, return_when=asyncio.FIRST_COMPLETED)
            return True
        look = self._looks.next(may_be_narrow=healthy > 0)
        if look is None:
            return False
        try:
            leases = await self._claim(look, healthy, failing)
        except BaseException:
            self._looks.failed()
            raise
        claimed_failing = sum(self._places.take(lease) for lease in leases)
        claimed_healthy = len(leases) - claimed_failing
        all_due = claimed_healthy < healthy and (look.streams is not None or claimed_failing < failing)
        self._looks.found(leases, all_due=all_due)
        if look.streams is not None and not all_due:
            self._looks.expect_anywhere()
        for lease in leases:
            task = asyncio.create_task(self._deliver(lease))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return bool(leases)

    async def _claim(self, look: Look, healthy: int, failing: int) -> list[Lease]:
        lease_s = self._settings.webhook_lease_s
        # In a transaction: if the response is lost, there is no commit, and the webhooks do not stay leased to nobody.
        async with self._database.transaction() as tx:
            if look.streams is not None:
                return await claim.claim_in_streams_any_account(tx, look.streams, healthy, lease_s)
            if look.clears:
                await claim.clear_due_any_account(tx)
            return await claim.claim_any_account(tx, healthy, failing, lease_s, full_scan=look.full_scan)

    async def drain(self) -> None:
        """Finish the requests in flight and start no new ones."""
        self._stopping.set()
        if self._busy:
            await asyncio.wait(self._busy)
        await self._sender.close()

    async def _deliver(self, lease: Lease) -> None:
        """After a crash the lease expires, and a worker sends the unsettled events again."""
        try:
            released = await self._take_turn(lease)
            if not released and await self._settlement.release(lease):
                self._expect_anywhere()
        except Exception:  # noqa: BLE001 - an error of one webhook must not stop the others
            _log.exception("delivery_crashed", webhook_id=lease.id)
        finally:
            if self._places.leave(lease):
                self._expect_anywhere()
            if self._looks.leave(lease):
                self.more_due.set()

    def _expect_anywhere(self) -> None:
        self._looks.expect_anywhere()
        self.more_due.set()

    async def _take_turn(self, lease: Lease) -> bool:
        """Whether the lease is released already. If the turn is cut short, it is not: the webhook is due at once."""
        try:
            if await self._main_stream.deliver(lease, lambda: self._places.may_stay(lease)):
                return True
            # The receiver may hang on this account, so the turn needs a place among the failing ones. If there is none,
            # a later turn sends the request.
            if lease.has_parked and self._places.may_hang(lease):
                await self._parked_accounts.deliver_one(lease)
        except LeaseTooOld:
            self.measured.leases_lost.inc("too_old")
            _log.warning("lease_too_old", webhook_id=lease.id)
        except Exception as error:
            if not is_database_unavailable(error):
                raise
            _log.warning("delivery_interrupted", webhook_id=lease.id, error=repr(error))
        return False
