"""tonne order"""

from dataclasses import dataclass

import click

from tonne.accounts.model import PaymentMethod
from tonne.accounts.names import Names, find_names_any_account
from tonne.base.clock import utc_now
from tonne.cli.database import ACTOR, plain_failures, run_in_transaction, settings_from_environment
from tonne.cli.output import (
    STATUS_STYLES,
    MoneyColumn,
    Output,
    TimeColumn,
    TonnesColumn,
    ValueColumn,
    output_options,
    print_object,
    print_rows,
)
from tonne.cli.parameters import MODE
from tonne.db.pool import Connection
from tonne.invoices.cancel_order import cancel_order_by_id
from tonne.invoices.issue_invoices import is_held_back
from tonne.invoices.model import Invoice
from tonne.invoices.seller_details import missing_settings
from tonne.invoices.store import find_invoice
from tonne.orders.errors import OrderNotFound
from tonne.orders.load import load_order
from tonne.orders.model import Order, OrderStatus
from tonne.orders.search_store import FoundOrder, OrderSearch, search_orders_any_account
from tonne.orders.store import find_key_of_order, find_scope_any_account

MAX_REASON = 500


@click.group()
def order() -> None:
    """Find and show orders, and cancel them on behalf of a client."""


@order.command("list")
@click.option("--mode", type=MODE, help="Only orders of this mode.")
@click.option("--status", type=click.Choice([each.value for each in OrderStatus]), help="Only orders of this status.")
@click.option("--org", "organisation_id", help="Only orders of this organisation.")
@click.option("--account", "account_id", help="Only orders of this account.")
@click.option("--email", help="Only orders of the customer with this address.")
@click.option("--reference", "idempotency_key", help="Only the orders with this idempotency key.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="How many at most.")
@output_options
def list_(limit: int, output: Output, **filters: str | None) -> None:
    """List the newest orders of all organisations."""

    async def work(tx: Connection) -> tuple[list[FoundOrder], Names]:
        found = await search_orders_any_account(tx, OrderSearch(**filters), limit)
        return found, await find_names_any_account(tx, [each.account_id for each in found])

    found, names = run_in_transaction(work)
    print_rows(found, _columns(names), output, empty="No order matches.")


def _columns(names: Names) -> tuple[ValueColumn[FoundOrder], ...]:
    return (
        ValueColumn("id", lambda o: o.id, head="order"),
        ValueColumn("status", lambda o: o.status, styles=STATUS_STYLES),
        TimeColumn("created_at", lambda o: o.created_at, head="received"),
        TonnesColumn("quantity", lambda o: o.quantity_grams, head="tonnes"),
        MoneyColumn("total_cost", lambda o: o.total_cost_minor, lambda o: o.currency, head="total"),
        ValueColumn("account_name", lambda o: names.of(o.account_id), head="account", shrinks=True),
        ValueColumn("email", lambda o: o.email, head="customer", shrinks=True),
        ValueColumn("mode", lambda o: o.mode),
        ValueColumn("payment_method", lambda o: o.payment_method, head="payment"),
        ValueColumn("idempotency_key", lambda o: o.idempotency_key, in_table=False),
        ValueColumn("account_id", lambda o: o.account_id, in_table=False),
        ValueColumn("organisation_id", lambda o: o.organisation_id, in_table=False),
    )


@dataclass(frozen=True, slots=True)
class ShownOrder:
    order: Order
    invoice: Invoice | None
    # What is said about the invoice, and what the order waits for.
    invoice_state: str
    waits_for: str | None
    placed_by: str | None


FACTS: tuple[ValueColumn[ShownOrder], ...] = (
    ValueColumn("id", lambda o: o.order.id, head="order"),
    ValueColumn("status", lambda o: o.order.status, styles=STATUS_STYLES),
    ValueColumn("waits_for", lambda o: o.waits_for),
    ValueColumn("mode", lambda o: o.order.scope.mode),
    TimeColumn("created_at", lambda o: o.order.created_at, head="received"),
    ValueColumn("placed_by", lambda o: o.placed_by),
    TonnesColumn("quantity", lambda o: o.order.priced and o.order.priced.quantity_grams, head="tonnes"),
    MoneyColumn(
        "total_cost",
        lambda o: None if o.order.priced is None else o.order.priced.total_cost_minor,
        lambda o: o.order.currency,
        head="total",
    ),
    ValueColumn("payment_method", lambda o: o.order.payment_method, head="payment"),
    ValueColumn("invoice", lambda o: o.invoice and o.invoice.reference, show=lambda o: o.invoice_state),
    ValueColumn("account_id", lambda o: o.order.scope.account_id, head="account"),
    ValueColumn("organisation_id", lambda o: o.order.scope.organisation_id, head="organisation"),
)


@order.command("show")
@click.argument("order_id")
@output_options
def show(order_id: str, output: Output) -> None:
    """Show an order and what it waits for."""
    with plain_failures():
        settings = settings_from_environment()

    async def work(tx: Connection) -> tuple[Order, Invoice | None, str | None]:
        scope = await find_scope_any_account(tx, order_id)
        found = None if scope is None else await load_order(tx, scope, order_id)
        if found is None:
            raise OrderNotFound
        key_id = await find_key_of_order(tx, found.scope, found.id)
        return found, await find_invoice(tx, found.scope, found.id), key_id

    found, invoice, key_id = run_in_transaction(work)
    issued = "-" if invoice is None else f"{invoice.reference}, {invoice.status}"
    waits_for = _waits_for(found, invoice)
    if invoice is None and is_held_back(found, settings):
        issued = f"waits, because {', '.join(missing_settings(settings))} are not set. Set them and restart Tonne."
        waits_for = "its invoice"
    print_object(ShownOrder(found, invoice, issued, waits_for, key_id or found.offset_link_id), FACTS, output)


def _waits_for(order: Order, invoice: Invoice | None) -> str | None:
    """What must happen before the order changes its status."""
    supply = "credits of the projects in its bundles (`tonne catalogue import-lots`)"
    if order.is_short_by_simulation:
        supply = "the account simulates less (`PUT /v1/test-helpers/supply`)"
    needed = {
        OrderStatus.RECEIVED: "a price: an exchange rate, and bundles on sale (`tonne catalogue import`)",
        OrderStatus.PLACED: _payment_needed(order, invoice),
        OrderStatus.PAID: f"supply: {supply}",
        OrderStatus.RETIRING: f"its retirements (`tonne retirement list --mode {order.scope.mode}`)",
    }
    for_helper = {OrderStatus.PAID, OrderStatus.RETIRING}
    if not order.is_paid_at_checkout:
        for_helper.add(OrderStatus.PLACED)
    if not order.auto_advance and order.status in for_helper:
        return "a test helper, because orders of this account do not advance automatically"
    return needed.get(order.status)


def _payment_needed(order: Order, invoice: Invoice | None) -> str:
    if order.is_paid_at_checkout:
        return "the payment of the customer at checkout"
    if order.payment_method is PaymentMethod.CARD:
        return "the charge of the card"
    return "its invoice" if invoice is None else f"the payment of invoice {invoice.reference}"


@order.command("cancel")
@click.argument("order_id")
@click.option("--reason", required=True, help="Why, for the audit log and the mail to those who got the invoice.")
def cancel(order_id: str, reason: str) -> None:
    """Cancel an order that is received or placed.

    Its open invoice is cancelled too, and everyone who was mailed the invoice gets a mail with the reason. If a card is
    charged meanwhile, the charge is refunded.
    """
    if not reason.strip() or len(reason.strip()) > MAX_REASON:
        raise click.BadParameter(f"expected 1 to {MAX_REASON} characters", param_hint="--reason")

    async def work(tx: Connection) -> Order:
        scope = await find_scope_any_account(tx, order_id)
        if scope is None:
            raise OrderNotFound
        return await cancel_order_by_id(tx, scope, order_id, actor=ACTOR, reason=reason, now=utc_now())

    cancelled = run_in_transaction(work)
    click.echo(f"Order {cancelled.id} is cancelled.")
