"""The test helper that closes the collection of an account: bills its small orders, and charges its stored card."""

from datetime import datetime

from msgspec import Struct

from tonne.money.cards.charge_cards import GatewayCalls
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.invoice_charge_store import CardInvoice
from tonne.money.cards.model import ChargeAttempt, RetrySchedule
from tonne.money.invoices import store
from tonne.money.invoices.card_payment.pay_by_card import open_invoice_charge
from tonne.money.invoices.card_payment.settle_card_invoice import settle_invoice_charge
from tonne.money.invoices.issuing.issue_invoices import bill_group, issue_invoices
from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Scope
from tonne.selling.orders.model import OrderKey
from tonne.selling.orders.queue import lock_orders


class ClosedCollections(Struct, frozen=True):
    """The open collections of an account, after its small orders were billed, and whether the card has paid them."""

    invoices: list[Invoice]
    is_paid: bool


LIST_SMALL = """
SELECT account_id, id FROM orders
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND status = 'placed' AND payment_method = 'card'
  AND offset_link_id IS NULL AND tax_minor IS NULL
ORDER BY id
"""


async def _issue(tx: Connection, scope: Scope, settings: Settings, now: datetime) -> None:
    rows = await tx.fetch(LIST_SMALL, scope.organisation_id, scope.mode, scope.account_id)
    orders = await lock_orders(tx, [OrderKey(row["account_id"], row["id"]) for row in rows])
    await issue_invoices(tx, list(orders.values()), settings, now)


LIST_GROUPS = """
SELECT id FROM billing_groups
WHERE organisation_id = $1 AND mode = $2 AND account_id = $3 AND billing = 'collected' AND order_count > 0 ORDER BY id
"""
LIST_OPEN = """
SELECT invoices.id FROM card_invoices due JOIN invoices ON invoices.id = due.invoice_id
WHERE due.account_id = $1 AND invoices.status = 'open' AND invoices.billing = 'collected' ORDER BY invoices.number
"""


async def collect_test_orders(
    database: Database, scope: Scope, *, clock: Clock, settings: Settings, has_minimum: bool
) -> ClosedCollections:
    """In the same steps as a worker. With `has_minimum`, what a card cannot be charged waits for later collections."""
    schedule, now = RetrySchedule(settings), clock()
    await database.commit(_issue, scope, settings, now)
    async with database.connection() as connection:
        groups = await connection.fetch(LIST_GROUPS, scope.organisation_id, scope.mode, scope.account_id)
    for group in groups:
        await database.commit(bill_group, group["id"], settings, now)
    async with database.connection() as connection:
        ids = [row["id"] for row in await connection.fetch(LIST_OPEN, scope.account_id)]
    if ids and (attempt := await database.commit(_open, CardInvoice(scope, ids[0]), schedule, now, has_minimum)):
        calls = GatewayCalls({attempt.gateway: SimulatedCardGateway(database)}, clock, schedule)
        await database.commit(settle_invoice_charge, *await calls.call(attempt), now, schedule)
    async with database.connection() as connection:
        invoices = await store.find_invoices_any_account(connection, ids)
    return ClosedCollections(invoices, bool(invoices) and all(invoice.is_paid for invoice in invoices))


async def _open(
    tx: Connection, invoice: CardInvoice, schedule: RetrySchedule, now: datetime, has_minimum: bool
) -> ChargeAttempt | None:
    held_until = now + schedule.lease()
    return await open_invoice_charge(tx, invoice, now=now, held_until=held_until, has_minimum=has_minimum)
