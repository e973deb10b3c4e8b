"""Issue consolidated invoices: at the end of the month (UTC), or when a group of orders reaches its threshold."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from msgspec import Struct

from tonne.money.invoices import store as invoice_store
from tonne.money.invoices.card_payment.pay_by_card import pay_by_card
from tonne.money.invoices.documents.consolidated import ConsolidatedDraft, compose_consolidated, divide_tax
from tonne.money.invoices.documents.seller_details import missing_settings
from tonne.money.invoices.invoice_events import ISSUED, record_invoices
from tonne.money.invoices.issuing import billing_store
from tonne.money.invoices.issuing.billed_order_store import insert_billed_orders
from tonne.money.invoices.issuing.billing_store import OrderToBill
from tonne.money.invoices.issuing.collect_orders import GRACE, month_end_after, start_of_month
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY, take_issue_numbers
from tonne.money.invoices.model import Invoice
from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import minimum_charge
from tonne.platform.values.context import Clock, Mode
from tonne.selling.orders.model import Order, OrderKey
from tonne.selling.orders.move_order import TaxShare, show_taxes
from tonne.selling.orders.queue import lock_keys

# Groups that are claimed together.
BATCH = 10
# Longer than any transaction of a batch takes.
LEASE = timedelta(minutes=10)
# Bounds the memory and the time of one transaction. A group with more orders gets several invoices.
MAX_ORDERS = 10_000
# Orders whose JSON is in memory at the same time, while their tax is stored.
CHUNK = 1_000

_log = structlog.get_logger()


class IssueConsolidatedInvoices(Struct, frozen=True):
    database: Database
    clock: Clock
    settings: Settings

    async def run_once(self) -> bool:
        """Bill a batch of due groups; false if none is due. Each invoice is a transaction of its own."""
        now = self.clock()
        claimed = await self.database.run(billing_store.claim_groups, now, now + LEASE, BATCH)
        return await run_each(
            claimed,
            self._bill,
            failure_event="consolidated_invoice_not_issued",
            describe=lambda group_id: {"billing_group_id": group_id},
        )

    async def _bill(self, group_id: str) -> None:
        await self.database.commit(bill_group, group_id, self.settings, self.clock())


async def bill_group(tx: Connection, group_id: str, settings: Settings, now: datetime) -> Invoice | None:
    """Bill the orders of a group up to the end of the last month, or all of them if the threshold is reached.

    None if there is nothing to bill: they were cancelled or billed meanwhile, a live invoice waits for settings about
    the seller, or a card cannot be charged so little. Such orders are billed with those of the next month.
    """
    group = await billing_store.find_group_any_account(tx, group_id)
    before = None if group.is_full else start_of_month(now)
    keys = await billing_store.list_keys_to_bill_any_account(tx, group_id, before, MAX_ORDERS)
    if group.mode is Mode.LIVE:
        treatments = await billing_store.find_treatments(tx, keys)
        needs_bank = not group.is_paid_by_card
        if missing := sorted(
            {name for each in treatments for name in missing_settings(settings, each, needs_bank=needs_bank)}
        ):
            _log.warning("consolidated_invoice_held_back", missing=missing, orders=group.order_count)
            await billing_store.postpone_group_any_account(tx, group_id, now + HELD_BACK_RETRY)
            return None
    if keys and group.is_paid_by_card and await billing_store.sum_unbilled(tx, keys) < minimum_charge(group.currency):
        await billing_store.postpone_group_any_account(tx, group_id, month_end_after(now))
        return None
    return await _bill_orders(tx, group_id, keys, settings, now)


async def bill_alone(tx: Connection, order: Order, settings: Settings, now: datetime) -> Invoice | None:
    """Bill a locked order now that waits for a consolidated invoice. None if it does not."""
    group_id = await billing_store.find_group_of(tx, order)
    return None if group_id is None else await _bill_orders(tx, group_id, [order.key], settings, now)


async def _bill_orders(
    tx: Connection, group_id: str, keys: Sequence[OrderKey], settings: Settings, now: datetime
) -> Invoice | None:
    # Orders are locked before their group. One that is cancelled meanwhile has left the group.
    await lock_keys(tx, keys)
    group = await billing_store.lock_group_any_account(tx, group_id)
    orders = await billing_store.take_unbilled(tx, keys)
    invoice = None
    if orders:
        taxes = divide_tax(orders)
        await _store_tax(tx, orders, taxes.shares, group.currency)
        lines = await billing_store.sum_lines(tx, [order.key for order in orders])
        organisation = await invoice_store.find_billed_organisation(tx, group.organisation_id)
        # As late as possible: all other invoices of the mode wait for the row of the series until the commit.
        number, issued_on = await take_issue_numbers(tx, group.mode, 1, now)
        draft = ConsolidatedDraft(group, orders, taxes, lines, organisation)
        invoice, billed = compose_consolidated(draft, settings, number=number, issued_on=issued_on)
        await invoice_store.insert_invoices(tx, [invoice], now)
        await insert_billed_orders(tx, billed)
        await record_invoices(tx, [invoice], ISSUED, now)
        if group.is_paid_by_card:
            await pay_by_card(tx, invoice, group.account_id, now)
    await billing_store.refresh_group_any_account(tx, group_id, now, GRACE)
    return invoice


async def _store_tax(tx: Connection, orders: Sequence[OrderToBill], taxes_minor: Sequence[int], currency: str) -> None:
    """Now the tax of the orders is known."""
    shares = [
        TaxShare(order.key, currency, tax_minor, order.total_minor + tax_minor)
        for order, tax_minor in zip(orders, taxes_minor, strict=True)
    ]
    for start in range(0, len(shares), CHUNK):
        await show_taxes(tx, shares[start : start + CHUNK])
