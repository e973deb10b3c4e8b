"""Place an order: price and insert it with its events, or return the original if its idempotency key is known."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import NewEvent, append
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import Actor, By, Scope, new_id, replace
from tonne.platform.values.spending_limit import SpendingLimit
from tonne.selling.accounts.model import PaymentMethod, Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import OrderType, PriceRequest, price, price_if_available
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.estimates.store import find_mass_grams
from tonne.selling.orders.buyer import BuyerDetails, save_buyer
from tonne.selling.orders.errors import EstimateUnknown, FulfilAfterInvalid, OfferChanged, QuoteUsed, SupplyInsufficient
from tonne.selling.orders.model import LONGEST_WINDOW, Beneficiary, Order, OrderStatus, OrderTax, tax_of
from tonne.selling.orders.move_order import event_of, order_event
from tonne.selling.orders.placing.insert_store import NewOrder, insert_order
from tonne.selling.orders.placing.spending import count_spending
from tonne.selling.orders.quotes.locked_price import LockedPrice, QuotedOrder, require_open_quote
from tonne.selling.orders.quotes.offer_digest import digest_offer
from tonne.selling.orders.quotes.store import use_quote
from tonne.selling.orders.schemas import order_document, placing_documents


class CheckoutCustomer(msgspec.Struct, frozen=True):
    """The person who pays at checkout, through an offset link, and what they stated for the tax document."""

    offset_link_id: str
    email: str
    buyer: BuyerDetails | None = None


class OrderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """If `estimate_id` is set, the estimate's mass is bought, and `requested` has no amount of its own."""

    requested: PriceRequest
    idempotency: Idempotency
    metadata: str = "{}"
    estimate_id: str | None = None
    customer: CheckoutCustomer | None = None
    # None: the account's.
    beneficiary: Beneficiary | None = None
    # None: the account's.
    payment_method: PaymentMethod | None = None
    # The id of the API key that places the order.
    key_id: str | None = None
    # The user who places the order, for the audit log.
    user: Actor | None = None
    # The language that the customer saw. None: the account's.
    language: str | None = None
    # Digest of the offer that a person saw: nothing else is ordered.
    shown_offer: bytes | None = None
    # Refuse the order instead of letting it wait for supply or a price.
    reject_if_short: bool = False
    # The locked quote that fixes its price.
    quote_id: str | None = None
    external_id: str | None = None
    # False: a visitor of an offset link may have typed it.
    external_id_verified: bool = True
    reference: str | None = None
    # When it may be fulfilled, if the account's setting does not apply.
    fulfil_after: datetime | None = None
    fulfil_manually: bool = False


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
    terms.require_open()
    requested = request.requested
    locked = None
    if request.quote_id is not None:
        quoted = QuotedOrder(
            request.quote_id, request.requested, request.estimate_id, reject_if_short=request.reject_if_short
        )
        locked = await require_open_quote(tx, scope, quoted, terms, catalogue, now=now)
        requested = locked.requested
    elif request.estimate_id is not None:
        requested = await with_mass_of_estimate(tx, scope, requested, request.estimate_id)
    new, events = compose_order(
        scope, request, requested, terms, catalogue, now=now, retry_after=retry_after, locked=locked
    )
    if not await insert_order(tx, new):
        return None
    if request.customer is not None and request.customer.buyer is not None:
        await save_buyer(tx, scope, new.order.id, request.customer.buyer)
    if request.quote_id is not None and not await use_quote(
        tx, scope, request.quote_id, order_id=new.order.id, now=now
    ):
        raise QuoteUsed(field="quote_id")
    if limits:
        await count_spending(tx, new.order, limits)
    if request.user is not None:
        await _record_placing(tx, new.order, by=request.user.at(now))
    await append(tx, scope, events, now)
    return PlacedOrder(new.order, new.document)


def compose_order(
    scope: Scope,
    request: OrderRequest,
    requested: PriceRequest,
    terms: Terms,
    catalogue: Catalogue,
    *,
    now: datetime,
    retry_after: timedelta,
    locked: LockedPrice | None = None,
) -> ComposedOrder:
    """Price the order and make its document and events. `requested` has its amount, also if it names an estimate.

    The terms of a customer at checkout are those of `Terms.at_checkout`.

    With `locked`, it gets that price. Raises OfferChanged if the person saw another offer.
    """
    if request.fulfil_after is not None and request.fulfil_after > now + LONGEST_WINDOW:
        raise FulfilAfterInvalid(field="fulfil_after")
    if request.payment_method is not None:
        terms = terms.paid_by(request.payment_method)
    priced, tax = _locked_or_current_price(request, requested, terms, catalogue, locked)
    order = _make_order(scope, request, requested, terms, priced=priced, tax=tax, now=now)
    if request.shown_offer is not None:
        offer = None if priced is None else digest_offer(priced, tax, catalogue)
        if offer != request.shown_offer:
            raise OfferChanged
    is_waiting = priced is None
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


def _locked_or_current_price(
    request: OrderRequest, requested: PriceRequest, terms: Terms, catalogue: Catalogue, locked: LockedPrice | None
) -> tuple[Priced | None, OrderTax]:
    if locked is not None:
        return locked.priced, locked.tax
    price_order = _price_now if request.reject_if_short else price_if_available
    priced = price_order(requested, terms, catalogue)
    return priced, OrderTax() if priced is None else tax_of(priced, terms)


def _price_now(requested: PriceRequest, terms: Terms, catalogue: Catalogue) -> Priced:
    priced = price(requested, terms, catalogue)
    if any(line.insufficient_available_quantity for line in priced.lines):
        raise SupplyInsufficient
    return priced


async def with_mass_of_estimate(
    connection: Connection, scope: Scope, requested: PriceRequest, estimate_id: str
) -> PriceRequest:
    """Raises EstimateUnknown."""
    mass_grams = await find_mass_grams(connection, scope, estimate_id)
    if mass_grams is None:
        raise EstimateUnknown(field="estimate_id")
    return replace(requested, mass_grams=mass_grams)


def _make_order(
    scope: Scope,
    request: OrderRequest,
    requested: PriceRequest,
    terms: Terms,
    *,
    priced: Priced | None,
    tax: OrderTax,
    now: datetime,
) -> Order:
    customer, beneficiary = request.customer, request.beneficiary or Beneficiary(terms.beneficiary)
    return Order(
        scope=scope,
        id=new_id("ord"),
        idempotency_key=request.idempotency.key or new_id("auto"),
        type=OrderType.QUANTITY if requested.mass_grams is not None else OrderType.VALUE,
        status=OrderStatus.RECEIVED if priced is None else OrderStatus.PLACED,
        currency=terms.currency,
        payment_method=terms.payment_method,
        requested_quantity_grams=requested.mass_grams,
        requested_value_minor=requested.value_minor,
        bundle_selection=requested.stored_selection,
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
        language=request.language or terms.language,
        tax=tax,
        auto_advance=terms.auto_advance,
        quantity_trunc=requested.unit,
        quote_id=request.quote_id,
        external_id=request.external_id,
        external_id_verified=request.external_id is not None and request.external_id_verified,
        reference=request.reference,
        fulfil_after=request.fulfil_after,
        fulfil_manually=request.fulfil_manually,
    )


async def _record_placing(tx: Connection, order: Order, *, by: By) -> None:
    """Orders of API keys and checkouts name their key or link. Users are named in the audit log only."""
    due_minor = order.amount_due_minor
    await audit.record(
        tx,
        order.scope,
        "order.placed",
        by=by,
        subject_id=order.id,
        after={
            "account_id": order.scope.account_id,
            "payment_method": order.payment_method,
            "quantity": None if order.priced is None else format_tonnes(order.priced.quantity_grams),
            "amount_due": None if due_minor is None else format_money(due_minor, order.currency),
            "currency": order.currency,
        },
    )
