"""Who else has to know, in the same transaction, that orders are paid now.

A later package counts payments of its own pages. `apps/wiring` connects it, because this package must not import it.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.selling.orders.model import Order

OnPaid = Callable[[Connection, Sequence[Order], datetime], Awaitable[None]]

_listeners: list[OnPaid] = []


def listen_for_paid_orders(listener: OnPaid) -> None:
    """Call `listener(tx, orders, now)` whenever orders are paid. A process connects the one listener at its start."""
    _listeners[:] = [listener]


async def report_paid(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Raises LookupError in a process that has not connected the listener: it would lose payments without a trace."""
    if not orders:
        return
    if not _listeners:
        raise LookupError("nobody listens for paid orders: call connect_listeners of apps/wiring first")
    for listener in _listeners:
        await listener(tx, orders, now)
