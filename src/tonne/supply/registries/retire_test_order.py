"""The test helpers: allocate, retire and complete an order of a test account on request, without worker and operator.

Each step is a transaction of its own. Retiring locks parcels and then other orders that share them; a transaction that
still held its own order, or the event stream, could deadlock with the worker or with another helper.
"""

import asyncio
import time

from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Scope, job_actor
from tonne.selling.orders import store as order_store
from tonne.selling.orders.errors import OrderNotFound, TransitionInvalid
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import OrderStatus, PaymentState
from tonne.selling.orders.queue import require_locked_order
from tonne.selling.orders.release_order import end_window
from tonne.supply.registries.retire_units import RetireUnits
from tonne.supply.retirements.allocate_orders import allocate_orders, complete_orders, show_retired_projects
from tonne.supply.stock.errors import SupplyShort
from tonne.supply.stock.parcels.instructed_parcels import close_test_units, list_unretired

# How long a request waits for the registry, and between two looks.
WITHIN_S = 5.0
PAUSE_S = 0.02

_ACTOR = job_actor("test_helpers")


class RetireTestOrder:
    def __init__(self, database: Database, clock: Clock, settings: Settings, retire_units: RetireUnits) -> None:
        self._database = database
        self._retire_units = retire_units
        self._clock = clock
        self._settings = settings

    async def retire(self, scope: Scope, order_id: str) -> bytes:
        """Retire the order's credits, and return its JSON. The worker completes it."""
        await self._database.commit(self._require_allocated, scope, order_id)
        await self._retire_parcels(scope, order_id)
        async with self._database.transaction() as tx:
            order = await require_locked_order(tx, scope, order_id)
            # The worker may have completed it already.
            if order.status is OrderStatus.RETIRING:
                await show_retired_projects(tx, [order.key], self._clock())
            return await _read(tx, scope, order_id)

    async def complete(self, scope: Scope, order_id: str) -> bytes:
        """Retire the order's credits, complete it, and return its JSON."""
        await self.retire(scope, order_id)
        async with self._database.transaction() as tx:
            order = await require_locked_order(tx, scope, order_id)
            # The worker may have completed it already.
            if order.status is OrderStatus.RETIRING:
                await complete_orders(tx, [order.key], self._settings, self._clock())
            return await _read(tx, scope, order_id)

    async def _retire_parcels(self, scope: Scope, order_id: str) -> None:
        """A worker may be asking the registry for some of them, or for others of the same holding."""
        service_name = self._settings.seller_name
        await self._database.commit(close_test_units, scope, order_id, service_name=service_name, now=self._clock())
        deadline = time.monotonic() + WITHIN_S
        while waiting := await self._database.run(list_unretired, scope, order_id):
            if time.monotonic() > deadline:
                raise TransitionInvalid("The simulated registry has not retired the credits yet. Try again.")
            if not await self._retire_units.run_once(waiting):
                await asyncio.sleep(PAUSE_S)

    async def _require_allocated(self, tx: Connection, scope: Scope, order_id: str) -> None:
        order = await require_locked_order(tx, scope, order_id)
        if order.status is OrderStatus.PAID:
            if order.payment_state is PaymentState.DISPUTED:
                raise TransitionInvalid("The payer disputes the payment: the order is held until that is decided.")
            now = self._clock()
            if order.is_in_window(now):
                order = await end_window(tx, order, by=_ACTOR.at(now))
            await allocate_orders(tx, [order], self._settings, now)
            (order,) = await load_orders(tx, [order.key])
            if order.status is OrderStatus.PAID:
                raise SupplyShort
        elif order.status is not OrderStatus.RETIRING:
            raise TransitionInvalid(f"An order that is {order.status} has nothing to retire: it must be paid first.")


async def _read(tx: Connection, scope: Scope, order_id: str) -> bytes:
    document = await order_store.find_by_id(tx, scope, order_id)
    if document is None:
        raise OrderNotFound
    return document
