"""Charge the cards of placed orders: claim them, call the gateway outside any transaction, settle the results."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct, field

from tonne.money.cards.charge_store import claim_pending, read_chargeable
from tonne.money.cards.charges import BillBefore, OpenedCharges, open_charges, settle_charges
from tonne.money.cards.gateways.card import CardGateway, ChargeOutcome, ChargeResult, HostedPage
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.platform.db.batches import RowJob, run_leased
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Clock, Mode, replace
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import OrderKey, OrderStatus
from tonne.selling.orders.queue import run_due

Answer = tuple[ChargeAttempt, ChargeResult]


class GatewayCalls(Struct, frozen=True):
    gateways: Mapping[str, CardGateway]
    clock: Clock
    schedule: RetrySchedule

    async def call(self, attempt: ChargeAttempt) -> Answer:
        """Call it outside of any transaction. An exception becomes the result `unknown`."""
        try:
            return await self._call(attempt)
        except Exception:  # noqa: BLE001 - after any failure the charge may have been made
            _log.exception("card_gateway_failed", charge_id=attempt.request.id, gateway=attempt.gateway)
            return attempt, ChargeResult(ChargeOutcome.UNKNOWN, code="gateway_failed")

    async def _call(self, attempt: ChargeAttempt) -> Answer:
        request = attempt.request
        if request.source is None:
            message = "The account has no card. Store one with `tonne card set`."
            return attempt, ChargeResult(ChargeOutcome.REFUSED, code="no_card", message=message)
        gateway = self.gateways.get(attempt.gateway)
        # A worker cannot charge a hosted page, only look it up.
        is_unsent = attempt.is_new and not isinstance(request.source, HostedPage)
        if gateway is None:
            _log.error("card_gateway_not_configured", gateway=attempt.gateway, charge_id=request.id)
            kind = ChargeOutcome.UNAVAILABLE if is_unsent else ChargeOutcome.UNKNOWN
            return attempt, ChargeResult(kind, code="gateway_not_configured")
        if is_unsent:
            return attempt, await gateway.charge(request)
        return await self._look_up(gateway, attempt)

    async def _look_up(self, gateway: CardGateway, attempt: ChargeAttempt) -> Answer:
        request = attempt.request
        if attempt.confirm_until is not None and self._is_confirmed_no_more(attempt):
            return attempt, await self._end_confirmation(gateway, attempt)
        found = await gateway.look_up(request)
        if found.kind is ChargeOutcome.NOT_FOUND and self._may_send_again(attempt):
            _log.warning("charge_sent_again", charge_id=request.id, order_id=request.order_id)
            sent = await gateway.charge(request)
            if sent.kind is ChargeOutcome.UNAVAILABLE:
                # `unavailable` refers to this request only. The first one may still arrive, so keep looking it up.
                return attempt, found
            return replace(attempt, missing_since=None), sent
        return attempt, found

    def _is_confirmed_no_more(self, attempt: ChargeAttempt) -> bool:
        """Whether a charge that waits for its payer's confirmation has to end."""
        is_late = attempt.confirm_until is not None and self.clock() >= attempt.confirm_until
        return is_late or attempt.is_replaced or not attempt.is_wanted

    async def _end_confirmation(self, gateway: CardGateway, attempt: ChargeAttempt) -> ChargeResult:
        """Cancel the charge at the gateway first: it must not succeed after its order failed, or was charged again."""
        result = await gateway.cancel(attempt.request)
        if result.kind is ChargeOutcome.REFUSED and attempt.is_wanted:
            if attempt.is_replaced:
                return replace(result, kind=ChargeOutcome.REPLACED, code="card_replaced", message=None)
            message = "The payer did not confirm the payment in time."
            return replace(result, code=ChargeOutcome.AUTHENTICATION_REQUIRED, message=message)
        return result

    def _may_send_again(self, attempt: ChargeAttempt) -> bool:
        """Only for an order that still waits for its payment. See `RESEND_AFTER`."""
        since = attempt.missing_since
        if since is None or not attempt.is_wanted or isinstance(attempt.request.source, HostedPage):
            return False
        return self.clock() >= self.schedule.resend_at(since)


BATCH = 400
CONCURRENCY = 16
# Results are settled together if they arrive within this time: a transaction for each would be slow.
SETTLE_EVERY = timedelta(milliseconds=50)
# The next batch does not wait longer than this for the last answers of a batch.
PATIENCE = timedelta(seconds=1)

_log = structlog.get_logger()

ChargeResults = Sequence[Answer]


class ChargeCards(RowJob, frozen=True):
    """A worker job, one per mode, so that a slow live gateway does not delay test orders.

    A crash after any step loses nothing and charges nobody twice: a charge is recorded before the gateway is called,
    and a recorded charge is looked up before it is sent again. Any number of workers may run at once.

    A slow answer holds up no other order: answers are settled as they arrive, and the last ones of a batch in the
    background while the next batch is charged.
    """

    gateways: Mapping[str, CardGateway]
    mode: Mode
    schedule: RetrySchedule
    bill: BillBefore
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CONCURRENCY))
    # Settle what the gateway had not answered when `run_once` returned.
    _late: set[asyncio.Task[None]] = field(default_factory=set)

    async def run_once(self) -> bool:
        """Process one batch; false if nothing is due."""
        if self._late and self._slots.locked():
            # Every slot waits for a slow gateway. Charges claimed now could only queue until their lease expires.
            await asyncio.wait(self._late, timeout=PATIENCE.total_seconds(), return_when=asyncio.FIRST_COMPLETED)
            return True
        batch = await self.claim()
        if not batch:
            return False
        calls = {asyncio.create_task(self._call_in_slot(attempt)) for attempt in batch.attempts}
        try:
            if batch.free:
                await self.settle([], batch.free)
            calls = await self._settle_as_answered(calls)
        finally:
            for call in calls:
                late = asyncio.create_task(self._settle_late(call))
                self._late.add(late)
                late.add_done_callback(self._late.discard)
        return True

    async def drain(self) -> None:
        """Wait for the charges that are still at a gateway."""
        await asyncio.gather(*self._late)

    async def _settle_as_answered(self, calls: set[asyncio.Task[Answer]]) -> set[asyncio.Task[Answer]]:
        """Settle the answers in groups as they arrive. Returns the calls that are not answered after `PATIENCE`."""
        started = time.monotonic()
        while calls:
            answered, calls = await asyncio.wait(calls, timeout=SETTLE_EVERY.total_seconds())
            if answered:
                await self.settle([call.result() for call in answered])
            # Calls that still wait for a slot are not late: they belong to this batch.
            elif time.monotonic() - started > PATIENCE.total_seconds() and len(calls) + len(self._late) <= CONCURRENCY:
                return calls
        return calls

    async def _settle_late(self, call: asyncio.Task[Answer]) -> None:
        answer = await call
        try:
            await self.settle([answer])
        except Exception:  # noqa: BLE001 - the charge is due again when its lease expires
            _log.exception("charge_not_settled", order_id=answer[0].request.order_id)

    async def claim(self) -> OpenedCharges:
        """Claim due pending charges, and open a charge for each due order. Skips locked rows."""
        now = self.clock()
        unclear = await self.database.commit(claim_pending, self.mode, now, now + self.schedule.lease(), limit=BATCH)
        opened: list[OpenedCharges] = []
        await run_due(
            self.database,
            self.clock,
            OrderStatus.PLACED,
            self.mode,
            self._open,
            limit=BATCH,
            failure_event="charge_not_opened",
            payment_method=PaymentMethod.CARD,
            # The others wait for a consolidated invoice, which is charged as a whole.
            is_untaxed=False,
            on_commit=opened.append,
        )
        attempts = [attempt for each in opened for attempt in each.attempts]
        return OpenedCharges([*unclear, *attempts], [key for each in opened for key in each.free])

    async def _open(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> OpenedCharges:
        orders = await read_chargeable(tx, keys)
        unsure = [order.key for order in orders if order.may_be_billed]
        billed = await self.bill(tx, unsure, now) if unsure else set()
        return await open_charges(tx, orders, now, now + self.schedule.lease(), billed=billed)

    async def call_gateways(self, batch: OpenedCharges) -> ChargeResults:
        """Charge or look up each attempt, several at a time. An exception becomes the result `unknown`."""
        return await asyncio.gather(*(self._call_in_slot(attempt) for attempt in batch.attempts))

    async def _call_in_slot(self, attempt: ChargeAttempt) -> Answer:
        async with self._slots:
            return await GatewayCalls(self.gateways, self.clock, self.schedule).call(attempt)

    async def settle(self, results: ChargeResults, free: Sequence[OrderKey] = ()) -> None:
        """Record the results and mark zero-total orders as paid. A row that fails is due again after its lease."""
        rows: list[Answer | OrderKey] = [*results, *free]
        await run_leased(
            rows,
            self._settle,
            failure_event="charge_not_settled",
            describe=lambda row: {"order_id": row.id if isinstance(row, OrderKey) else row[0].request.order_id or ""},
        )

    async def _settle(self, rows: Sequence[Answer | OrderKey]) -> None:
        results = [row for row in rows if not isinstance(row, OrderKey)]
        free = [row for row in rows if isinstance(row, OrderKey)]
        await self.database.commit(settle_charges, results, free, self.clock(), self.schedule)
