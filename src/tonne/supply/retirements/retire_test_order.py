"""The test helpers: allocate, retire and complete an order of a test account on request, without worker and operator.

Each step is a transaction of its own. Retiring locks parcels and then other orders that share them; a transaction that
still held its own order, or the event stream, could deadlock with the worker or with another helper.
"""

from datetime import datetime

from tonne.platform.db.pool import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.clock import Clock
from tonne.platform.values.scope import Mode, Scope
from tonne.selling.orders import store as order_store
from tonne.selling.orders.errors import OrderNotFound, TransitionInvalid
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderStatus, PaymentState
from tonne.selling.orders.queue import lock_order
from tonne.supply.retirements.allocate_orders import allocate_orders
from tonne.supply.retirements.complete_orders import complete_orders, show_retired_projects
from tonne.supply.stock.errors import SupplyShort
from tonne.supply.stock.parcels.confirm_retirements import wake_orders_any_account


class RetireTestOrder:
    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def retire(self, scope: Scope, order_id: str) -> bytes:
        """Retire the order's credits, and return its JSON. The worker completes it."""
        async with self._database.transaction() as tx:
            await self._require_allocated(tx, scope, order_id)
        async with self._database.transaction() as tx:
            await retire_test_parcels(tx, scope, order_id, service_name=self._settings.seller_name, now=self._clock())
            order = await _lock(tx, scope, order_id)
            # The worker may have completed it already.
            if order.status is OrderStatus.RETIRING:
                await show_retired_projects(tx, [order.key], self._clock())
            return await _read(tx, scope, order_id)

    async def complete(self, scope: Scope, order_id: str) -> bytes:
        """Retire the order's credits, complete it, and return its JSON."""
        await self.retire(scope, order_id)
        async with self._database.transaction() as tx:
            order = await _lock(tx, scope, order_id)
            # The worker may have completed it already.
            if order.status is OrderStatus.RETIRING:
                await complete_orders(tx, [order.key], self._settings, self._clock())
            return await _read(tx, scope, order_id)

    async def _require_allocated(self, tx: Connection, scope: Scope, order_id: str) -> None:
        order = await _lock(tx, scope, order_id)
        if order.status is OrderStatus.PAID:
            if order.payment_state is PaymentState.DISPUTED:
                raise TransitionInvalid("The payer disputes the payment: the order is held until that is decided.")
            await allocate_orders(tx, [order], self._settings, self._clock())
            (order,) = await load_orders(tx, [order.key])
            if order.status is OrderStatus.PAID:
                raise SupplyShort
        elif order.status is not OrderStatus.RETIRING:
            raise TransitionInvalid(f"An order that is {order.status} has nothing to retire: it must be paid first.")


# Open units, too. A unit with room left goes into the service's name, as when it is closed.
RETIRE_PARCELS = """
WITH own AS (
    SELECT parcel.mode, parcel.id FROM shares share
    JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
    WHERE share.account_id = $1 AND share.order_id = $2 AND share.mode = 'test'
      AND parcel.status IN ('open', 'to_retire')
    ORDER BY parcel.id FOR UPDATE OF parcel
)
UPDATE parcels SET status = 'retired', close_at = NULL, retired_on = $3, retired_at = $4,
    account_id = CASE WHEN allocated_grams < quantity_grams THEN NULL ELSE account_id END,
    in_service_name = in_service_name OR allocated_grams < quantity_grams,
    closed_at = CASE WHEN allocated_grams < quantity_grams THEN coalesce(closed_at, $4) ELSE closed_at END,
    beneficiary = CASE WHEN allocated_grams < quantity_grams THEN $5 ELSE beneficiary END
FROM own WHERE parcels.mode = own.mode AND parcels.id = own.id
RETURNING parcels.id
"""


async def retire_test_parcels(tx: Connection, scope: Scope, order_id: str, *, service_name: str, now: datetime) -> None:
    """Retire the order's parcels now, and wake all orders that share them."""
    rows = await tx.fetch(RETIRE_PARCELS, scope.account_id, order_id, now.date(), now, service_name)
    await wake_orders_any_account(tx, Mode.TEST, [row["id"] for row in rows], now)


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
