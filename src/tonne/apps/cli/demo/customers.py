"""The customers of the demo: accounts of its organisation, and organisations of their own."""

from datetime import date, timedelta

from tonne.apps.cli.database import ACTOR
from tonne.apps.cli.demo.story import CUSTOMERS, DAYS, KEY_PREFIX, DemoCustomer
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS
from tonne.money.cards.stored_cards.stored_cards import store_card
from tonne.platform.db.database import Connection, scope_of
from tonne.platform.values.context import Mode, Scope, new_id, utc_now
from tonne.selling.accounts.change_account import AccountChange, change_account, open_account
from tonne.selling.accounts.model import Account, AccountKind, Fulfil, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.accounts.organisations.change_organisation import (
    DEFAULT_FEE_RATE,
    open_organisation,
    set_address,
)

GOOD_CARD, EMPTY_CARD = "4242424242424242", "4000000000009995"
_CARDS = {card.number: card for card in SIMULATED_CARDS}


def first_day() -> date:
    """Of the history. Its last day is yesterday."""
    return utc_now().date() - timedelta(days=DAYS)


def simulated_card(number: str) -> CardDetails:
    customer = new_id("cus")
    return CardDetails(customer, number, "visa", number[-4:], _CARDS[number].expires, fingerprint=customer)


async def open_customers(tx: Connection, organisation_id: str) -> None:
    for customer in CUSTOMERS:
        owner_id = await _open_organisation(tx, customer) if customer.is_direct else organisation_id
        kind = AccountKind.ACCOUNT if customer.is_direct else AccountKind.CLIENT_ACCOUNT
        scope, name = Scope(owner_id, new_id("acc"), Mode.TEST), customer.name
        account = Account(scope, kind, name, customer.currency, name, customer.method, utc_now())
        await open_account(tx, account, actor=ACTOR.unbound)
        fulfil = None if customer.credit is None else Fulfil.ON_ORDER
        billing = BillingChange(billing=customer.billing, fulfil=fulfil, credit_limit=customer.credit)
        change = AccountChange(billing=billing, auto_advance=customer.method is PaymentMethod.CARD)
        await change_account(tx, scope, change, by=ACTOR.unbound.now())
        if customer.method is PaymentMethod.CARD:
            await store_card(tx, scope, simulated_card(GOOD_CARD), by=ACTOR.unbound.now())


async def _open_organisation(tx: Connection, customer: DemoCustomer) -> str:
    opened = await open_organisation(tx, customer.name, DEFAULT_FEE_RATE, by=ACTOR.unbound.now())
    await set_address(tx, opened.id, f"{customer.name}\n2 Market Square\n1000 Sample Town", by=ACTOR.unbound.now())
    return opened.id


LIST_CUSTOMERS = """
SELECT name, organisation_id, id AS account_id, mode FROM accounts WHERE mode = 'test' AND name = ANY ($1::text[])
"""


async def list_customers_any_account(connection: Connection) -> dict[str, Scope]:
    rows = await connection.fetch(LIST_CUSTOMERS, [customer.name for customer in CUSTOMERS])
    return {row["name"]: scope_of(row) for row in rows}


HAS_OTHER_ORDERS = "SELECT EXISTS (SELECT FROM orders WHERE NOT starts_with(idempotency_key, $1))"


async def has_other_orders_any_account(connection: Connection) -> bool:
    """Besides those of the history."""
    return await connection.fetchval(HAS_OTHER_ORDERS, KEY_PREFIX) is True
