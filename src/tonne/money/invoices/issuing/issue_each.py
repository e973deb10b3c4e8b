"""Issue invoices of one order each, as far as nothing that they have to state is missing."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.card_payment.pay_by_card import pay_by_card
from tonne.money.invoices.documents.held_back import HeldBack, KnownFacts, held_back_by
from tonne.money.invoices.documents.home_tax import find_home_rates, lacks_rate, rate_key
from tonne.money.invoices.invoice_events import ISSUED, record_invoices
from tonne.money.invoices.issuing.billed_order_store import insert_billed_orders
from tonne.money.invoices.issuing.compose_invoice import compose_invoice
from tonne.money.invoices.model import BilledOrganisation, Invoice, billed_order, own_reference
from tonne.money.invoices.tax_documents import DocumentKind, take_issue_numbers
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.prices.reference_rates import HomeRate
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.users.guarded_settings import approved_settings


class BillingFacts(Struct, frozen=True):
    """Of the organisations of a batch of orders, and the rates of these orders."""

    organisations: Mapping[str, BilledOrganisation]
    rates: Mapping[str, HomeRate]


async def issue_for_card(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> set[str]:
    """Issue the invoices of locked placed orders before their card is charged, for each invoice as a whole.

    The ids of those that have one: the others are held back.
    """
    facts = await read_facts(tx, orders, settings, now)
    lacking = list_lacking(orders, facts, settings, now, needs_bank=False)
    ready = [order for order in orders if order.id not in lacking]
    invoices = await issue_each(tx, ready, facts, settings, now)
    for order, invoice in zip(ready, invoices, strict=True):
        await pay_by_card(tx, invoice, order.scope.account_id, now)
    if invoices:
        await record_invoices(tx, invoices, ISSUED, now)
    return {order.id for order in ready}


async def read_facts(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> BillingFacts:
    ids = sorted({order.scope.organisation_id for order in orders})
    organisations = {id_: await invoice_store.find_billed_organisation(tx, id_) for id_ in ids}
    keys = {order.id: rate_key(order.currency, settings, now, supplied_on=order.supplied_on) for order in orders}
    return BillingFacts(organisations, await find_home_rates(tx, keys, settings))


def list_lacking(
    orders: Sequence[Order], facts: BillingFacts, settings: Settings, now: datetime, *, needs_bank: bool = True
) -> dict[str, HeldBack]:
    """What the invoices of these orders lack, by order."""
    found = {order.id: _held_back_by(order, facts, settings, now, needs_bank=needs_bank) for order in orders}
    return {id_: lacks for id_, lacks in found.items() if lacks}


async def issue_each(
    tx: Connection, orders: Sequence[Order], facts: BillingFacts, settings: Settings, now: datetime
) -> list[Invoice]:
    """The caller records their events."""
    if not orders:
        return []
    clients = await invoice_store.find_client_names_any_account(tx, [order.scope.account_id for order in orders])
    settings = await approved_settings(tx, settings)
    first, issued_on = await take_issue_numbers(tx, DocumentKind.INVOICE, orders[0].scope.mode, len(orders), now)
    invoices = [
        compose_invoice(
            order,
            number,
            facts.organisations[order.scope.organisation_id],
            settings,
            issued_on,
            client_name=clients.get(order.scope.account_id),
            home_rate=facts.rates.get(order.id),
        )
        for number, order in enumerate(orders, start=first)
    ]
    await invoice_store.insert_invoices(tx, invoices, now)
    pairs = zip(invoices, orders, strict=True)
    await insert_billed_orders(tx, [billed_order(invoice, order) for invoice, order in pairs])
    return invoices


async def find_held_back(connection: Connection, order: Order, settings: Settings, now: datetime) -> HeldBack:
    """What the invoice of this order, which has none yet, waits for. False if it does not wait."""
    if order.status is not OrderStatus.PLACED or order.payment_method is not PaymentMethod.INVOICE:
        return HeldBack()
    return _held_back_by(order, await read_facts(connection, [order], settings, now), settings, now)


def _held_back_by(
    order: Order, facts: BillingFacts, settings: Settings, now: datetime, *, needs_bank: bool = True
) -> HeldBack:
    if order.scope.mode is Mode.TEST:
        return HeldBack()
    organisation = facts.organisations[order.scope.organisation_id]
    missing_rate = lacks_rate(order.currency, settings, facts.rates.get(order.id))
    known = KnownFacts(now, organisation.vat_check, missing_rate, order_reference=own_reference(order))
    treatment, profile = order.tax.treatment, organisation.tax
    return held_back_by(treatment, profile, settings, order.language, needs_bank=needs_bank, facts=known)
