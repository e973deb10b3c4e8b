"""Checkouts that nobody finished come to an end: what was ordered and not paid is cancelled."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.cards.charge_store import read_chargeable
from tonne.checkout import store
from tonne.checkout.pay_checkout import LOOK_EVERY
from tonne.checkout.store import DueCheckout
from tonne.db.batches import run_claimed
from tonne.db.pool import Connection, Database
from tonne.invoices.cancel_order import cancel_order
from tonne.orders.model import OrderStatus
from tonne.orders.queue import lock_order

DELETE_BATCH = 1000
# What the cancelled order says.
REASON = "The checkout ran out before it was paid."
ACTOR = "checkout"

_Claim = Callable[[Connection, datetime, int], Awaitable[Sequence[DueCheckout]]]
_Handle = Callable[[Connection, Sequence[DueCheckout]], Awaitable[None]]


class CloseCheckouts:
    """Runs in a worker. A charge that is open keeps its checkout open: the money may still come."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """Delete a batch of expired checkouts without an order, and look at one with an unpaid order.

        False when none is due.
        """
        deleted = await self._run(store.claim_open_any_account, store.delete_checkouts, DELETE_BATCH)
        # One at a time: cancelling locks the event stream last, so the next order must not be locked after it.
        closed = await self._run(store.claim_unpaid_any_account, self._close, 1)
        return deleted or closed

    async def _run(self, claim: _Claim, handle: _Handle, limit: int) -> bool:
        async def postpone(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
            for due in checkouts:
                await store.look_again(tx, due.scope, due.id, self._clock() + LOOK_EVERY)

        return await run_claimed(
            self._database,
            lambda tx, count: claim(tx, self._clock(), count),
            handle,
            postpone,
            limit=limit,
            failure_event="checkout_not_closed",
            describe=lambda due: {"checkout_id": due.id},
        )

    async def _close(self, tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
        for checkout in checkouts:
            await self._look_at(tx, checkout)

    async def _look_at(self, tx: Connection, unpaid: DueCheckout) -> None:
        now = self._clock()
        order = await lock_order(tx, unpaid.scope, unpaid.order_id or "")
        if order is None or order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            await store.close(tx, unpaid.scope, unpaid.id)
            return
        is_over = order.status is OrderStatus.PLACED and now >= unpaid.expires_at
        if is_over and not (await read_chargeable(tx, [order.key]))[0].has_open_charge:
            await store.close(tx, unpaid.scope, unpaid.id)
            await cancel_order(tx, order, settings=self._settings, actor=ACTOR, reason=REASON, now=now)
        else:
            await store.look_again(tx, unpaid.scope, unpaid.id, now + LOOK_EVERY)
