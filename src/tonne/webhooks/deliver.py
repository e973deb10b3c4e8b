"""Delivery of events to webhooks: claim due webhooks, then send and settle one request at a time for each."""

import asyncio
import time
from collections.abc import Callable

import structlog

from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings
from tonne.db.errors import is_database_unavailable
from tonne.db.pool import Database
from tonne.webhooks import claim
from tonne.webhooks.main_stream import MainStream
from tonne.webhooks.metrics import DeliveryMetrics
from tonne.webhooks.model import Lease
from tonne.webhooks.parked_accounts import ParkedAccounts
from tonne.webhooks.places import SLOW_TURN_S, Places
from tonne.webhooks.send_batch import BatchSender, LeaseTooOld
from tonne.webhooks.sender import Sender
from tonne.webhooks.settle import Settlement
from tonne.webhooks.shared_event_reads import SharedEventReads

_log = structlog.get_logger()
# How often all webhooks are read, including those that seem idle.
FULL_SCAN_EVERY_S = 10.0


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
        self._sender = BatchSender(make_sender, box, settings, self.measured, wall_clock=wall_clock)
        self._settlement = Settlement(database, settings, self.measured)
        self._parked_accounts = ParkedAccounts(database, self._sender, self._settlement, self._stopping)
        reads = SharedEventReads(database)
        self._main_stream = MainStream(database, reads, self._sender, self._settlement, self._stopping)
        self._busy: set[asyncio.Task[None]] = set()
        self._places = Places(settings.webhook_concurrency)
        self._next_full_scan = 0.0
        # Set when a webhook is released with more events due: the job then runs again without waiting.
        self.more_due = asyncio.Event()

    async def run_once(self) -> bool:
        """Claim as many due webhooks as there are free places and start delivery. False when none was due."""
        healthy, failing = self._places.free()
        if healthy <= 0 and failing <= 0:
            # With a timeout, because a turn that becomes slow frees its place without ending.
            await asyncio.wait(self._busy, timeout=SLOW_TURN_S / 4, return_when=asyncio.FIRST_COMPLETED)
            return True
        full_scan = time.monotonic() >= self._next_full_scan
        # In a transaction: if the response is lost, there is no commit, and the webhooks do not stay leased to nobody.
        async with self._database.transaction() as tx:
            lease_s = self._settings.webhook_lease_s
            leases = await claim.claim_any_account(tx, healthy, failing, lease_s, full_scan=full_scan)
        if full_scan:
            self._next_full_scan = time.monotonic() + FULL_SCAN_EVERY_S
        for lease in leases:
            self._places.take(lease)
            task = asyncio.create_task(self._deliver(lease))
            self._busy.add(task)
            task.add_done_callback(self._busy.discard)
        return bool(leases)

    async def drain(self) -> None:
        """Finish the requests in flight and start no new ones."""
        self._stopping.set()
        if self._busy:
            await asyncio.wait(self._busy)
        await self._sender.close()

    async def _deliver(self, lease: Lease) -> None:
        """After a crash the lease expires, and a worker sends the unsettled events again."""
        try:
            await self._take_turn(lease)
            if await self._settlement.release(lease):
                self.more_due.set()
        except Exception:  # noqa: BLE001 - an error of one webhook must not stop the others
            _log.exception("delivery_crashed", webhook_id=lease.id)
        finally:
            if self._places.leave(lease):
                self.more_due.set()

    async def _take_turn(self, lease: Lease) -> None:
        """Returns also if the turn was cut short: the lease is then released, and the webhook is due again at once."""
        try:
            await self._main_stream.deliver(lease)
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
