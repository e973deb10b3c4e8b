"""An order of an account that pays each order by its card takes the account's open collection with it.

It gets its invoice before it is charged. One charge then pays that and all open invoices of small orders.
"""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.money.cards.invoice_charge_store import CardInvoice
from tonne.money.invoices import store
from tonne.money.invoices.card_payment.collection_store import list_collections, list_taken_groups, list_taking
from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account
from tonne.money.invoices.issuing.billing_store import list_keys_to_bill_any_account
from tonne.money.invoices.issuing.issue_each import issue_for_card
from tonne.money.invoices.issuing.issue_invoices import MAX_ORDERS, bill_group
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import lock_keys


class TakeCollections(Struct, frozen=True):
    """The service's settings, as far as its database has no others."""

    settings: Settings

    async def __call__(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> set[str]:
        """The ids of those of these locked placed orders that are on an invoice, which is charged in their place.

        An order whose account has a collection gets its invoice now, unless that is held back.
        """
        billed = await store.have_invoices(tx, keys)
        taking = await list_taking(tx, [key for key in keys if key.id not in billed])
        if taking:
            billed |= await issue_for_card(tx, await load_orders(tx, taking), self.settings, now)
        return billed


async def bill_collection(tx: Connection, card_invoice: CardInvoice, settings: Settings, now: datetime) -> None:
    """Bill the small orders that are charged together with the order of this invoice, if it takes them with it."""
    groups = await list_taken_groups(tx, card_invoice)
    if not groups:
        return
    ids = [card_invoice.invoice_id, *(each.invoice_id for each in await list_collections(tx, card_invoice, now))]
    keys = [each.key for each in await find_order_keys_any_account(tx, ids)]
    for group_id in groups:
        keys += await list_keys_to_bill_any_account(tx, group_id, None, MAX_ORDERS)
    # Locks all orders before the row of the series, which is held from the issue of an invoice to the commit.
    await lock_keys(tx, keys)
    for group_id in groups:
        await bill_group(tx, group_id, settings, now, is_taken=True)
