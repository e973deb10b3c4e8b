"""Charge the unpaid orders and invoices of an account again at once: it has another card."""

from datetime import datetime

from tonne.money.cards.invoice_charge_store import make_declined_invoices_due
from tonne.money.cards.stored_cards.card_problem_store import list_declined, list_to_confirm, make_confirmations_due
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import lock_orders, schedule_payment


async def charge_again(tx: Connection, scope: Scope, now: datetime) -> int:
    """Make them due, and return how many. Charges that wait for a confirmation of the old card end first."""
    declined = [
        OrderKey(scope.account_id, order.id) for order in await list_declined(tx, scope) if order.invoice is None
    ]
    to_confirm = [OrderKey(scope.account_id, order.id) for order in await list_to_confirm(tx, scope, now)]
    # All in one statement: two transactions that lock orders one after the other could deadlock.
    orders = await lock_orders(tx, [*declined, *to_confirm])
    if declined:
        await schedule_payment(tx, {key: orders[key.id].due_at(now) for key in declined})
    if to_confirm:
        await make_confirmations_due(tx, scope, now)
    return len(orders) + await make_declined_invoices_due(tx, scope, now)
