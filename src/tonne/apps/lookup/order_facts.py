"""The facts of an order that people see, and what happens next: for `tonne order show` and the dashboard."""

from datetime import UTC, datetime

from msgspec import Struct

from tonne.money.cards.stored_cards.card_problem_store import list_declined, list_to_confirm
from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.issuing.billing_store import find_group_of
from tonne.money.invoices.issuing.collect_orders import is_above_credit_limit
from tonne.money.invoices.issuing.issue_invoices import is_held_back
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import find_invoice
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.accounts.directory import Names, find_names
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.store import find_key_of_order

_CHARGE = "the charge of the card"
SERVICE, OPERATOR, CUSTOMER, CLIENT = "the service", "the operator", "the customer", "the client"


class ShownOrder(Struct, frozen=True):
    """`invoice_state` says what is with the invoice, `next_by` who has the next step."""

    order: Order
    invoice: Invoice | None
    invoice_state: str
    waits_for: str | None
    next_by: str | None
    placed_by: str | None
    names: Names

    @property
    def total_cost_minor(self) -> int | None:
        return None if self.order.priced is None else self.order.priced.total_cost_minor

    @property
    def quantity_grams(self) -> int | None:
        return None if self.order.priced is None else self.order.priced.quantity_grams


async def describe_order(tx: Connection, order: Order, settings: Settings) -> ShownOrder:
    scope = order.scope
    key_id = await find_key_of_order(tx, scope, order.id)
    invoice = await find_invoice(tx, scope, order.id)
    state = "-" if invoice is None else f"{invoice.reference}, {invoice.status}"
    waits_for, next_by = _next_step(order, invoice)
    is_collected = invoice is None and await find_group_of(tx, order) is not None
    if invoice is None and is_held_back(order, settings):
        missing = ", ".join(missing_settings(settings, order.tax.treatment))
        state = f"waits, because {missing} are not set. Set them and restart Tonne."
        waits_for, next_by = "its invoice", OPERATOR
    elif order.status is OrderStatus.PLACED and is_collected:
        state = "not issued yet: the order is billed together with others"
        waits_for, next_by = "its consolidated invoice, at the end of the month or at the threshold", SERVICE
    if order.status is OrderStatus.PLACED and await is_above_credit_limit(tx, order):
        waits_for = f"{waits_for}; the credit limit of its account is reached (`tonne invoice ageing`)"
    if order.auto_advance and _is_charged(order) and not is_collected:
        waits_for, next_by = await _card_step(tx, order, invoice)
    names = await find_names(tx, scope.organisation_id, [scope.account_id])
    return ShownOrder(order, invoice, state, waits_for, next_by, key_id or order.offset_link_id, names)


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _is_charged(order: Order) -> bool:
    is_by_card = order.payment_method is PaymentMethod.CARD and not order.is_paid_at_checkout
    return is_by_card and order.status is OrderStatus.PLACED


async def _card_step(tx: Connection, order: Order, invoice: Invoice | None) -> tuple[str, str]:
    number = None if invoice is None else invoice.reference
    for each in await list_to_confirm(tx, order.scope, utc_now()):
        if (each.invoice == number if each.invoice else each.id == order.id) and each.until is not None:
            return f"the payer's confirmation of the payment at the bank, until {_minute(each.until)}", CLIENT
    for each in await list_declined(tx, order.scope):
        if (each.invoice == number if each.invoice else each.id == order.id) and each.until is not None:
            link = f"`tonne card link {order.scope.account_id}`"
            return f"another card ({link}), or the next charge at {_minute(each.until)}. {each.reason}", CLIENT
    return (_CHARGE if number is None else f"the charge of the account's card for invoice {number}"), SERVICE


def _next_step(order: Order, invoice: Invoice | None) -> tuple[str | None, str | None]:  # noqa: PLR0911 - by status
    """What must happen before the order changes its status, and who does it."""
    for_helper = {OrderStatus.PAID, OrderStatus.RETIRING}
    if not order.is_paid_at_checkout:
        for_helper.add(OrderStatus.PLACED)
    if not order.auto_advance and order.status in for_helper:
        return "a test helper, because orders of this account do not advance automatically", CLIENT
    match order.status:
        case OrderStatus.RECEIVED:
            return "a price: an exchange rate, and bundles on sale (`tonne catalogue import`)", OPERATOR
        case OrderStatus.PLACED:
            return _payment_needed(order, invoice)
        case OrderStatus.PAID if order.is_short_by_simulation:
            return "supply: the account simulates less (`PUT /v1/test-helpers/supply`)", CLIENT
        case OrderStatus.PAID:
            return "supply: credits of the projects in its bundles (`tonne catalogue import-lots`)", OPERATOR
        case OrderStatus.RETIRING:
            return f"its retirements (`tonne retirement list --mode {order.scope.mode}`)", OPERATOR
        case _:
            return None, None


def _payment_needed(order: Order, invoice: Invoice | None) -> tuple[str, str]:
    if order.is_paid_at_checkout:
        return "the payment of the customer at checkout", CUSTOMER
    if order.payment_method is PaymentMethod.CARD:
        return _CHARGE, SERVICE
    return ("its invoice", SERVICE) if invoice is None else (f"the payment of invoice {invoice.reference}", CLIENT)
