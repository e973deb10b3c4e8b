"""Complete orders whose grams are all retired."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.log import lock_streams
from tonne.platform.events.notification import Stream
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderKey, OrderStatus
from tonne.selling.orders.move_order import Transitions, move_orders, rewrite_documents
from tonne.selling.orders.queue import postpone
from tonne.supply.certificates.store import issue_certificates, public_address
from tonne.supply.certificates.totals import add_totals
from tonne.supply.retirements.allocation_events import record_allocations
from tonne.supply.stock.supply_store import find_unretired


async def complete_orders(tx: Connection, keys: Sequence[OrderKey], settings: Settings, now: datetime) -> None:
    """Complete those of these locked retiring orders whose grams are all retired. Call it last in the transaction."""
    unretired = await find_unretired(tx, keys)
    recorded: set[Stream] = set()
    if unretired:
        # Retiring another of their parcels makes them due again.
        await postpone(tx, sorted(unretired), OrderStatus.RETIRING, None)
        recorded = await show_retired_projects(tx, sorted(unretired), now)
    orders = await load_orders(tx, [key for key in keys if key not in unretired])
    if orders:
        await record_allocations(tx, orders, now)
        completed = await certify_orders(tx, orders, settings, now)
        if recorded:
            # In one order with those of the completed ones: the commit would lock them after these.
            await lock_streams(tx, [*recorded, *map(_stream, orders)])
        await move_orders(tx, [Transitions(order, [done]) for order, done in zip(orders, completed, strict=True)], now)


async def show_retired_projects(tx: Connection, keys: Sequence[OrderKey], now: datetime) -> set[Stream]:
    """Update the JSON of these locked retiring orders: parcels of some of their projects were retired.

    Returns the streams to which the commit may append events.
    """
    orders = await load_orders(tx, keys)
    recorded = await record_allocations(tx, orders, now)
    await rewrite_documents(tx, orders)
    return {_stream(order) for order in orders} if recorded else set()


def _stream(order: Order) -> Stream:
    return Stream(order.scope.organisation_id, order.scope.mode)


async def certify_orders(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> list[Order]:
    """Issue certificates for retiring orders and count them in the totals; returns the orders as complete.

    Call it once per transaction: it locks totals in sorted order.
    """
    if not orders:
        return []
    base_url = settings.base_url
    numbers = await issue_certificates(tx, orders, base_url=base_url, issuer=settings.seller_name, now=now)
    await add_totals(tx, orders, now)
    return [
        structs.replace(
            order,
            status=OrderStatus.COMPLETE,
            certificate_url=f"{base_url}/v1/orders/{order.id}/certificate",
            public_certificate_url=public_address(base_url, numbers[order.id]) if order.is_named_in_public else None,
        )
        for order in orders
    ]
