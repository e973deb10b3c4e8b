"""Receiving and placing, in one transaction."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tonne.accounts.model import PaymentMethod, Terms
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.catalog.errors import PriceUnavailable
from tonne.catalog.model import Catalogue
from tonne.catalog.pricing import Priced, PriceList, price_quantity, price_value
from tonne.catalog.selection import BundleChoiceIn, resolve, resolve_default, storable
from tonne.db.pool import Connection
from tonne.events.log import append
from tonne.orders import store
from tonne.orders.model import Order, OrderStatus, OrderType
from tonne.orders.move_order import event_of
from tonne.orders.schemas import order_document


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be bought: grams or a value, never both, and of which bundles."""

    mass_grams: int | None = None
    value_minor: int | None = None
    estimate_id: str | None = None
    choices: list[BundleChoiceIn] | None = None


@dataclass(frozen=True, slots=True)
class OrderRequest:
    wanted: Wanted
    idempotency_key: str | None
    metadata: str
    digest: bytes


def price(wanted: Wanted, terms: Terms, catalogue: Catalogue) -> Priced:
    """What `wanted` costs now. The selection is judged first: its faults are the client's, and do not wait."""
    if wanted.choices is not None:
        shares = resolve(wanted.choices, catalogue)
    else:
        shares = resolve_default(terms.default_selection, catalogue)
    prices = PriceList(catalogue, terms.currency, terms.fee_rate)
    if wanted.mass_grams is not None:
        return price_quantity(prices, shares, wanted.mass_grams)
    return price_value(prices, shares, wanted.value_minor or 0)


@dataclass(frozen=True, slots=True)
class Customer:
    """Who pays at checkout, through an offset link."""

    offset_link_id: str
    email: str


def compose_order(
    scope: Scope,
    request: OrderRequest,
    terms: Terms,
    *,
    priced: Priced | None,
    now: datetime,
    customer: Customer | None = None,
) -> Order:
    """A new order, placed when there is a price and received when there is none yet."""
    wanted = request.wanted
    return Order(
        scope=scope,
        id=new_id("ord"),
        idempotency_key=request.idempotency_key or new_id("auto"),
        type=OrderType.QUANTITY if wanted.mass_grams is not None else OrderType.VALUE,
        status=OrderStatus.RECEIVED if priced is None else OrderStatus.PLACED,
        currency=terms.currency,
        payment_method=terms.payment_method if customer is None else PaymentMethod.CARD,
        requested_quantity_grams=wanted.mass_grams,
        requested_value_minor=wanted.value_minor,
        bundle_selection=None if wanted.choices is None else storable(wanted.choices),
        priced=priced,
        estimate_id=wanted.estimate_id,
        offset_link_id=None if customer is None else customer.offset_link_id,
        email=None if customer is None else customer.email,
        metadata=request.metadata,
        created_at=now,
        auto_advance=terms.auto_advance,
    )


def price_if_possible(wanted: Wanted, terms: Terms, catalogue: Catalogue) -> Priced | None:
    try:
        return price(wanted, terms, catalogue)
    except PriceUnavailable:
        return None


async def place_order(tx: Connection, order: Order, digest: bytes, *, retry_after: timedelta) -> bytes | None:
    """Write the order and its events; returns it as the interface shows it, or None when its key is taken already.

    Two requests with one key meet at the unique constraint: the second waits for the first to commit, then gets None.
    """
    document = order_document(order)
    waits = order.status is OrderStatus.RECEIVED
    inserted = await store.insert_order(
        tx,
        order,
        request_digest=digest,
        document=document,
        next_attempt_at=order.created_at + retry_after if waits else order.due_at(order.created_at),
    )
    if not inserted:
        return None
    events = [event_of(order, document)]
    if not waits:
        received = replace(order, status=OrderStatus.RECEIVED, priced=None)
        events.insert(0, event_of(received, order_document(received)))
    await append(tx, order.scope, events, order.created_at)
    return document
