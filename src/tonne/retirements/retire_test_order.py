"""The test helpers: allocate, retire and complete an order of a test account on request, without worker and operator.

Each step is a transaction of its own. Retiring locks parcels and then other orders that share them; a transaction that
still held its own order, or the event stream, could deadlock with the worker or with another helper.
"""

from tonne.base.clock import Clock
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database
from tonne.orders import store as order_store
from tonne.orders.errors import OrderNotFound, TransitionInvalid
from tonne.orders.load import load_orders
from tonne.orders.model import Order, OrderStatus
from tonne.orders.queue import lock_order
from tonne.retirements.allocate_orders import AllocateOrders
from tonne.retirements.errors import SupplyShort
from tonne.retirements.retire_parcels import retire_of_test_order


class RetireTestOrder:
    def __init__(self, database: Database, allocate: AllocateOrders, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._allocate = allocate
        self._clock = clock
        self._settings = settings

    async def retire(self, scope: Scope, order_id: str) -> bytes:
        """Retire the order's credits, and return its JSON. The worker completes it."""
        async with self._database.transaction() as tx:
            await self._require_allocated(tx, scope, order_id)
        async with self._database.transaction() as tx:
            name = self._settings.seller_name
            await retire_of_test_order(tx, scope, order_id, service_name=name, now=self._clock())
            return await _read(tx, scope, order_id)

    async def complete(self, scope: Scope, order_id: str) -> bytes:
        """Retire the order's credits, complete it, and return its JSON."""
        await self.retire(scope, order_id)
        async with self._database.transaction() as tx:
            order = await _lock(tx, scope, order_id)
            # The worker may have been faster.
            if order.status is OrderStatus.RETIRING:
                await self._allocate.complete(tx, [order.key], self._clock())
            return await _read(tx, scope, order_id)

    async def _require_allocated(self, tx: Connection, scope: Scope, order_id: str) -> None:
        order = await _lock(tx, scope, order_id)
        if order.status is OrderStatus.PAID:
            await self._allocate.allocate(tx, Mode.TEST, [order], self._clock())
            (order,) = await load_orders(tx, [order.key])
            if order.status is OrderStatus.PAID:
                raise SupplyShort
        elif order.status is not OrderStatus.RETIRING:
            raise TransitionInvalid(f"An order that is {order.status} has nothing to retire: it must be paid first.")


async def _lock(tx: Connection, scope: Scope, order_id: str) -> Order:
    order = await lock_order(tx, scope, order_id)
    if order is None:
        raise OrderNotFound
    return order


async def _read(tx: Connection, scope: Scope, order_id: str) -> bytes:
    document = await order_store.find_by_id(tx, scope, order_id)
    if document is None:
        raise OrderNotFound
    return document
