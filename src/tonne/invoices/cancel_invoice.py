"""Cancel an unpaid invoice with all its orders."""

from datetime import datetime

from tonne.base.actor import Actor
from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.invoices.billed_order_store import find_order_keys_any_account
from tonne.invoices.cancel_order import cancel_order
from tonne.invoices.model import Invoice, InvoiceStatus
from tonne.invoices.settle_invoice import lock_with_orders_any_account
from tonne.orders.load import load_orders
from tonne.orders.model import CancellationReason


async def cancel_invoice(
    tx: Connection, invoice: Invoice, *, settings: Settings, actor: Actor, reason: str, now: datetime
) -> None:
    """Does nothing if it is no longer open. Call it last in the transaction."""
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    if locked.status is not InvoiceStatus.OPEN:
        return
    keys = [each.key for each in await find_order_keys_any_account(tx, [invoice.id])]
    for order in await load_orders(tx, keys):
        code = CancellationReason.INVOICE_UNPAID
        await cancel_order(tx, order, settings=settings, actor=actor, reason=reason, now=now, code=code)
