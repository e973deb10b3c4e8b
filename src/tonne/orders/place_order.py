"""Place an order: price and insert it with its events, or return the original if its idempotency key is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import NamedTuple

from tonne.accounts.model import Terms
from tonne.base.idempotency import Idempotency
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.base.spending_limit import SpendingLimit
from tonne.catalog.model import Catalogue
from tonne.catalog.price import OrderType, PriceRequest, price_if_available
from tonne.catalog.pricing import Priced
from tonne.catalog.selection import storable
from tonne.db.pool import Connection
from tonne.estimates.store import find_mass_grams
from tonne.events.log import NewEvent, append
from tonne.http.errors import AccountClosed
from tonne.orders.beneficiary import Beneficiary
from tonne.orders.errors import EstimateUnknown
from tonne.orders.insert_store import NewOrder, insert_order
from tonne.orders.model import Order, OrderStatus, OrderTax
from tonne.orders.move_order import event_of, order_event
from tonne.orders.order_tax import tax_of
from tonne.orders.schemas import order_document, placing_documents
from tonne.orders.spending import count_spending


@dataclass(frozen=True, slots=True)
class CheckoutCustomer:
    """The person who pays at checkout, through an offset link."""

    offset_link_id: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRequest:
    """If `estimate_id` is set, the estimate's mass is bought, and `wanted` has no amount of its own."""

    wanted: PriceRequest
    idempotency: Idempotency
    metadata: str = "{}"
    estimate_id: str | None = None
    customer: CheckoutCustomer | None = None
    # None: the account's.
    beneficiary: Beneficiary | None = None
    # The id of the API key that places the order.
    key_id: str | None = None


class ComposedOrder(NamedTuple):
    """A new order, and what is written with it."""

    new: NewOrder
    events: list[NewEvent]


class PlacedOrder(NamedTuple):
    order: Order
    document: bytes


async def place_order(
    tx: Connection,
    scope: Scope,
    request: OrderRequest,
    terms: Terms,
    catalogue: Catalogue,
    *,
    now: datetime,
    retry_after: timedelta,
    limits: Sequence[SpendingLimit] = (),
) -> PlacedOrder | None:
    """Price and write a new order with its events; None when its idempotency key is taken.

    An order without a price yet is received, and due after `retry_after`. Of two requests with one key, the second
    waits at the unique constraint until the first commits, and then gets None. Call it last in the transaction: it
    locks the event stream.
    """
    if terms.is_closed:
        raise AccountClosed
    wanted = await resolve_amount(tx, scope, request)
    new, events = compose_order(scope, request, wanted, terms, catalogue, now=now, retry_after=retry_after)
    if not await insert_order(tx, new):
        return None
    if limits:
        await count_spending(tx, new.order, limits)
    await append(tx, scope, events, now)
    return PlacedOrder(new.order, new.document)


def compose_order(
    scope: Scope,
    request: OrderRequest,
    wanted: PriceRequest,
    terms: Terms,
    catalogue: Catalogue,
    *,
    now: datetime,
    retry_after: timedelta,
) -> ComposedOrder:
    """Price the order and make its document and events. `wanted` has its amount, also if it names an estimate."""
    if request.customer is not None:
        terms = terms.at_checkout()
    order = _compose(scope, request, wanted, terms, priced=price_if_available(wanted, terms, catalogue), now=now)
    is_waiting = order.priced is None
    if is_waiting:
        document = order_document(order)
        events = [event_of(order, document)]
    else:
        received, document = placing_documents(order)
        events = [order_event(OrderStatus.RECEIVED, order.id, received), event_of(order, document)]
    new = NewOrder(
        order=order,
        request_digest=request.idempotency.digest,
        document=document,
        next_attempt_at=now + retry_after if is_waiting else order.due_at(now),
        placed_by_key=request.key_id,
    )
    return ComposedOrder(new, events)


async def resolve_amount(connection: Connection, scope: Scope, request: OrderRequest) -> PriceRequest:
    """What the request wants, with the mass of its estimate if it names one."""
    if request.estimate_id is None:
        return request.wanted
    mass_grams = await find_mass_grams(connection, scope, request.estimate_id)
    if mass_grams is None:
        raise EstimateUnknown(field="estimate_id")
    return replace(request.wanted, mass_grams=mass_grams)


def _compose(
    scope: Scope, request: OrderRequest, wanted: PriceRequest, terms: Terms, *, priced: Priced | None, now: datetime
) -> Order:
    customer, beneficiary = request.customer, request.beneficiary or Beneficiary(terms.beneficiary)
    return Order(
        scope=scope,
        id=new_id("ord"),
        idempotency_key=request.idempotency.key or new_id("auto"),
        type=OrderType.QUANTITY if wanted.mass_grams is not None else OrderType.VALUE,
        status=OrderStatus.RECEIVED if priced is None else OrderStatus.PLACED,
        currency=terms.currency,
        payment_method=terms.payment_method,
        requested_quantity_grams=wanted.mass_grams,
        requested_value_minor=wanted.value_minor,
        bundle_selection=None if wanted.choices is None else storable(wanted.choices),
        priced=priced,
        estimate_id=request.estimate_id,
        offset_link_id=None if customer is None else customer.offset_link_id,
        email=None if customer is None else customer.email,
        metadata=request.metadata,
        created_at=now,
        beneficiary=beneficiary.name,
        account_beneficiary=terms.beneficiary,
        beneficiary_kind=beneficiary.kind,
        beneficiary_is_public=beneficiary.is_public,
        tax=OrderTax() if priced is None else tax_of(priced, terms),
        auto_advance=terms.auto_advance,
    )
