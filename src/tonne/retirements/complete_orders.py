"""Complete orders whose grams are all retired."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.orders.load import load_orders
from tonne.orders.model import Order, OrderKey, OrderStatus
from tonne.orders.move_order import Transitions, move_orders, rewrite_documents
from tonne.orders.queue import postpone
from tonne.retirements.certificates import issue_certificates, public_address
from tonne.retirements.supply_store import find_unretired
from tonne.retirements.totals import add_totals


async def complete_orders(tx: Connection, keys: Sequence[OrderKey], settings: Settings, now: datetime) -> None:
    """Complete those of these locked retiring orders whose grams are all retired. Call it last in the transaction."""
    unretired = await find_unretired(tx, keys)
    if unretired:
        # Retiring another of their parcels makes them due again.
        await postpone(tx, sorted(unretired), OrderStatus.RETIRING, None)
        await show_retired_projects(tx, sorted(unretired))
    orders = await load_orders(tx, [key for key in keys if key not in unretired])
    if orders:
        completed = await certify_orders(tx, orders, settings, now)
        await move_orders(tx, [Transitions(order, [done]) for order, done in zip(orders, completed, strict=True)], now)


async def show_retired_projects(tx: Connection, keys: Sequence[OrderKey]) -> None:
    """Update the JSON of these locked retiring orders: parcels of some of their projects were retired."""
    await rewrite_documents(tx, await load_orders(tx, keys))


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
        replace(
            order,
            status=OrderStatus.COMPLETE,
            certificate_url=f"{base_url}/v1/orders/{order.id}/certificate",
            public_certificate_url=public_address(base_url, numbers[order.id]) if order.is_named_in_public else None,
        )
        for order in orders
    ]
