"""Hold supply for paid orders that wait for `fulfil_after`, and tell those who wait for a release when they end."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import structs

from tonne.platform.db.database import Connection
from tonne.platform.events.log import note_rewritten
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import Mode
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import NOTICE_OF_RELEASE, Order, OrderStatus
from tonne.selling.orders.queue import postpone
from tonne.selling.orders.window_store import store_window
from tonne.supply.stock.holds.holds import hold_for_orders

# Supply that does not cover an order now is looked for again after this time, and when lots are imported.
RETRY = timedelta(minutes=10)


async def hold_waiting(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Of one mode, locked. Each is due again when something is to be done for it.

    An order that waits for its client is released by itself at the end: a week before it gets that time as
    `fulfil_after`, and a mail.
    """
    mode = orders[0].scope.mode
    noticed = [order for order in orders if order.fulfil_manually and _notice_at(order) <= now]
    rows = [OrderMailRow(order.scope, order.id, OrderMailKind.RELEASE, order.id, 0) for order in noticed]
    await add_mails(tx, rows, now)
    # Test supply does not run out.
    short = await hold_for_orders(tx, mode, orders) if mode is Mode.LIVE else []
    for order in orders:
        until = _notice_at(order) if order.fulfil_manually else order.fulfil_after
        if order in noticed:
            await store_window(tx, structs.replace(order, fulfil_manually=False), next_attempt_at=order.fulfil_after)
            await note_rewritten(tx, {Stream(order.scope.organisation_id, mode)})
        elif until is not None:
            until = min(until, now + RETRY) if order in short else until
            await postpone(tx, [order.key], OrderStatus.PAID, until)


def _notice_at(order: Order) -> datetime:
    if order.fulfil_after is None:
        raise LookupError(f"order {order.id} does not wait")
    return order.fulfil_after - NOTICE_OF_RELEASE
