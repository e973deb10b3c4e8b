"""Checkouts that nobody finished come to an end: what was ordered and not paid is cancelled."""

from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.cards.store import read_to_charge
from tonne.checkout import store
from tonne.checkout.pay_checkout import LOOK_EVERY
from tonne.checkout.store import Unpaid
from tonne.db.pool import Connection, Database
from tonne.invoices.cancel_order import cancel_order
from tonne.orders.load_orders import lock_order
from tonne.orders.model import OrderStatus

BATCH = 20
# What the cancelled order says.
REASON = "The checkout ran out before it was paid."
ACTOR = "checkout"


class CloseCheckouts:
    """Runs in a worker. A charge that is open keeps its checkout open: the money may still come."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """One batch; false when none was due."""
        async with self._database.transaction() as tx:
            forgotten = await store.forget_open_any_account(tx, self._clock())
        async with self._database.transaction() as tx:
            due = await store.claim_unpaid_any_account(tx, self._clock(), BATCH)
            for unpaid in due:
                await self._look_at(tx, unpaid)
        return forgotten or bool(due)

    async def _look_at(self, tx: Connection, unpaid: Unpaid) -> None:
        now = self._clock()
        order = await lock_order(tx, unpaid.scope, unpaid.order_id)
        if order is None or order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
            await store.close(tx, unpaid.scope, unpaid.id)
            return
        is_over = order.status is OrderStatus.PLACED and now >= unpaid.expires_at
        if is_over and not (await read_to_charge(tx, order)).is_open:
            await store.close(tx, unpaid.scope, unpaid.id)
            await cancel_order(tx, order, settings=self._settings, actor=ACTOR, reason=REASON, now=now)
        else:
            await store.look_again(tx, unpaid.scope, unpaid.id, now + LOOK_EVERY)
