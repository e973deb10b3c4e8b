"""Test helper: bill an order that a card pays together with others, and charge a working test card for its invoice."""

from tonne.money.cards.errors import ChargeUnderWay
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.invoice_charge_store import CardInvoice
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.money.cards.simulate_payment import GOOD_CARD
from tonne.money.invoices import store
from tonne.money.invoices.card_payment.pay_by_card import open_invoice_charge
from tonne.money.invoices.card_payment.settle_card_invoice import settle_invoice_charge
from tonne.money.invoices.errors import InvoiceNotOpen, OrderPaidByCard
from tonne.money.invoices.issuing.collect_orders import is_billed_together
from tonne.money.invoices.issuing.issue_consolidated_invoices import bill_alone
from tonne.money.invoices.issuing.issue_invoices import issue_invoices
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Scope
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.queue import lock_order


async def simulate_card_invoice(
    database: Database, scope: Scope, order: Order, *, clock: Clock, settings: Settings
) -> Order:
    """In the same steps as a worker. All orders of the invoice are paid; an order without one gets its own."""
    schedule, now = RetrySchedule(settings), clock()
    attempt = await database.commit(_open, scope, order.id, schedule, clock=clock, settings=settings)
    if attempt is not None:
        result = await SimulatedCardGateway(database).charge(attempt.request)
        await database.commit(settle_invoice_charge, attempt, result, now, schedule)
    async with database.connection() as connection:
        return await load_order(connection, scope, order.id) or order


async def _open(
    tx: Connection, scope: Scope, order_id: str, schedule: RetrySchedule, *, clock: Clock, settings: Settings
) -> ChargeAttempt | None:
    """None if the order costs nothing, so that it was marked as paid."""
    now = clock()
    order = await lock_order(tx, scope, order_id)
    if order is None or order.status is not OrderStatus.PLACED:
        raise InvoiceNotOpen("Only a placed order has an open invoice.")
    invoice = await store.find_invoice(tx, scope, order_id)
    if invoice is None:
        if not is_billed_together(order):
            raise OrderPaidByCard
        await issue_invoices(tx, [order], settings, now)
        invoice = await bill_alone(tx, order, settings, now)
    if invoice is None:
        return None
    held_until = now + schedule.lease()
    attempt = await open_invoice_charge(
        tx, CardInvoice(scope, invoice.id), now=now, held_until=held_until, card=GOOD_CARD
    )
    if attempt is None:
        raise ChargeUnderWay
    return attempt
