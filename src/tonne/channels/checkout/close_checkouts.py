"""Closing expired checkouts: their unpaid orders are cancelled."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from tonne.channels.checkout import queue
from tonne.channels.checkout.model import CHECK_INTERVAL
from tonne.channels.checkout.queue import DueCheckout
from tonne.money.cards.charge_store import read_chargeable
from tonne.money.invoices.cancel_order import cancel_order
from tonne.platform.db.batches import run_claimed
from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Clock, job_actor
from tonne.selling.orders.model import CancellationReason, OrderStatus
from tonne.selling.orders.queue import lock_order

DELETE_BATCH = 1000
REASON = "The checkout expired before it was paid."
ACTOR = job_actor("close_checkouts")

_Claim = Callable[[Connection, datetime, int], Awaitable[Sequence[DueCheckout]]]
_Handle = Callable[[Connection, Sequence[DueCheckout]], Awaitable[None]]


class CloseCheckouts(Struct, frozen=True):
    """A job of the worker. A checkout with an open charge stays open, because it may still be paid."""

    EVERY_S: ClassVar[int] = 2

    database: Database
    clock: Clock

    async def run_once(self) -> bool:
        """Delete or close a batch of expired checkouts without an order, and check one with an order.

        False when none is due.
        """
        deleted = await self._run(queue.claim_without_order, _forget, DELETE_BATCH)
        # One at a time: cancelling locks the event stream last, so the next order must not be locked after it.
        closed = await self._run(queue.claim_with_order, self._close, 1)
        return deleted or closed

    async def _run(self, claim: _Claim, handle: _Handle, limit: int) -> bool:
        async def postpone(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
            for due in checkouts:
                await queue.schedule_close(tx, due.scope, due.id, self.clock() + CHECK_INTERVAL)

        return await run_claimed(
            self.database,
            lambda tx, count: claim(tx, self.clock(), count),
            handle,
            postpone,
            limit=limit,
            failure_event="checkout_not_closed",
            describe=lambda due: {"checkout_id": due.id},
        )

    async def _close(self, tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
        for checkout in checkouts:
            await self._close_if_expired(tx, checkout)

    async def _close_if_expired(self, tx: Connection, checkout: DueCheckout) -> None:
        now = self.clock()
        order = await lock_order(tx, checkout.scope, checkout.order_id or "")
        if order is None or order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            await queue.close(tx, checkout.scope, checkout.id)
        elif order.status is not OrderStatus.PLACED:
            await queue.schedule_close(tx, checkout.scope, checkout.id, None)
        elif now < checkout.expires_at or (await read_chargeable(tx, [order.key]))[0].has_open_charge:
            await queue.schedule_close(tx, checkout.scope, checkout.id, now + CHECK_INTERVAL)
        else:
            await queue.close(tx, checkout.scope, checkout.id)
            code = CancellationReason.CHECKOUT_EXPIRED
            await cancel_order(tx, order, actor=ACTOR, reason=REASON, now=now, code=code)


async def _forget(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
    await queue.delete_checkouts(tx, checkouts)
    await queue.close_api_checkouts(tx, checkouts)
