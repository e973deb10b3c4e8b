"""Holding the supply of a checkout before its customer is sent to the gateway's payment page."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime

from tonne.channels.checkout.model import Checkout, CheckoutStatus
from tonne.channels.checkout.order_checkout import price_request_of
from tonne.channels.checkout.store import lock_order_id
from tonne.money.cards.charge_store import find_pending, read_chargeable
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.replace import replace
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import price
from tonne.selling.catalogue.prices.pricing import PricedLine
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import OrderKey, OrderStatus
from tonne.supply.stock.holds.hold_store import Holder
from tonne.supply.stock.holds.holds import hold_supply, release_hold


@asynccontextmanager
async def holding(
    database: Database,
    checkout: Checkout,
    basis: tuple[Terms, Catalogue],
    *,
    client: str,
    settings: Settings,
    now: datetime,
) -> AsyncIterator[None]:
    """Hold the grams of a checkout while its order is placed; release them if it is not. Raises NotEnoughInStock.

    Afterwards the worker releases them, when the order is allocated or the payment fails. `client` is the customer's
    network address.
    """
    holder = Holder(
        scope=checkout.scope,
        checkout_id=checkout.id,
        offset_link_id=checkout.offset_link_id,
        client_hash=hashlib.sha256(client.encode()).digest(),
    )
    lines = await _lines(database, checkout, basis, now)
    if lines:
        async with database.transaction() as tx:
            # Locked: otherwise another tab could place the order now, without naming it in this hold.
            order_id = await lock_order_id(tx, checkout)
            if order_id is not None:
                [charged] = await read_chargeable(tx, [OrderKey(checkout.scope.account_id, order_id)])
                holder = replace(holder, order_id=order_id, charges_before=charged.attempts)
            await hold_supply(tx, holder, lines, settings=settings, now=now)
    try:
        yield
    except Exception:
        await release_hold(database, holder, now)
        raise


async def _lines(
    database: Database, checkout: Checkout, basis: tuple[Terms, Catalogue], now: datetime
) -> Sequence[PricedLine]:
    """What the customer is about to pay. Empty if nothing is left to pay, or an open charge holds it already."""
    if checkout.order_id is not None:
        async with database.connection() as connection:
            order = await load_order(connection, checkout.scope, checkout.order_id)
            if order is None or order.status is not OrderStatus.PLACED:
                return ()
            return () if await find_pending(connection, order) is not None else order.lines
    if checkout.status is not CheckoutStatus.OPEN or now >= checkout.expires_at:
        return ()
    return price(price_request_of(checkout), *basis).lines
