"""Placing the order of a checkout when the visitor first pays, with its supply held; and closing expired checkouts.

The unpaid orders of an expired checkout are cancelled.
"""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import ClassVar

import msgspec
from msgspec import Struct

from tonne.channels.checkout import queue, store
from tonne.channels.checkout.errors import AlreadyPaid, BuyerFixed, CheckoutOver, DeliveryMayWait, OffsetLinkClosed
from tonne.channels.checkout.links.offer import LinkOffer, PricedOffer, ShownOffer, price_offer
from tonne.channels.checkout.model import CHECK_INTERVAL, Checkout, CheckoutStatus, hash_token
from tonne.channels.checkout.queue import DueCheckout
from tonne.channels.checkout.store import lock_order_id
from tonne.money.cards.charge_store import find_pending, read_chargeable
from tonne.money.invoices.cancel_order import cancel_order
from tonne.platform.db.batches import RowJob, run_claimed
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Mode, job_actor, replace
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest, price
from tonne.selling.catalogue.prices.pricing import PricedLine
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.orders.buyer import REVERSE_CHARGE, BuyerDetails, find_buyer, save_buyer
from tonne.selling.orders.errors import OfferChanged
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import CancellationReason, Order, OrderKey, OrderStatus
from tonne.selling.orders.placing.place_order import CheckoutCustomer, OrderRequest, place_order
from tonne.selling.orders.queue import lock_order
from tonne.supply.stock.holds.hold_store import Holder, Trust, name_order
from tonne.supply.stock.holds.holds import Unheld, hold_supply, release_hold


def price_request_of(checkout: Checkout) -> PriceRequest:
    choices = [msgspec.convert(choice, BundleChoiceIn) for choice in checkout.bundle_selection]
    return PriceRequest(
        mass_grams=checkout.requested_quantity_grams, value_minor=checkout.requested_value_minor, choices=choices
    )


def ordered_offer(checkout: Checkout) -> ShownOffer:
    return ShownOffer(checkout.amount_due_minor, checkout.offer_digest)


async def order_checkout(
    tx: Connection,
    checkout: Checkout,
    offer: LinkOffer,
    *,
    shown: ShownOffer,
    language: str,
    buyer: BuyerDetails | None,
    now: datetime,
) -> Order:
    """The order of a locked checkout, placed now if there is none yet. `language` is that of the page.

    Raises OfferChanged if the order differs from what the person saw, BuyerFixed if its tax would.
    """
    if checkout.status is CheckoutStatus.CLOSED:
        raise CheckoutOver
    if checkout.status is CheckoutStatus.ORDERED:
        order = await _lock_order(tx, checkout)
        if order.status is OrderStatus.PLACED and ordered_offer(checkout) != shown:
            raise OfferChanged
        if order.status is OrderStatus.PLACED:
            await _change_buyer(tx, order, offer, buyer)
        return order
    if now >= checkout.expires_at:
        raise CheckoutOver
    if not offer.link.is_open(now) or not offer.terms.takes_orders:
        raise OffsetLinkClosed
    priced = price_offer(offer, price_request_of(checkout))
    if priced.shown != shown:
        raise OfferChanged
    if checkout.external_id is not None and checkout.external_id_verified:
        await _close_other_checkout(tx, checkout, checkout.external_id, now=now)
    return await _place_order(tx, checkout, offer, priced, language=language, buyer=buyer, now=now)


async def _change_buyer(tx: Connection, order: Order, offer: LinkOffer, buyer: BuyerDetails | None) -> None:
    """Before another try to pay. The tax of the order stays."""
    known = await find_buyer(tx, order.scope, order.id)
    if buyer == known:
        return
    is_other_country = (buyer or BuyerDetails()).taxed_in != (known or BuyerDetails()).taxed_in
    if is_other_country or (offer.terms.tax == REVERSE_CHARGE) != (order.tax.treatment is REVERSE_CHARGE.treatment):
        raise BuyerFixed
    if buyer is not None:
        await save_buyer(tx, order.scope, order.id, buyer)


async def _close_other_checkout(tx: Connection, checkout: Checkout, external_id: str, *, now: datetime) -> None:
    """At most one checkout per verified external id is paid. Replaces an unpaid one, otherwise raises AlreadyPaid."""
    other = await store.lock_ordered(tx, checkout.scope, checkout.offset_link_id, external_id)
    if other is None:
        return
    order = await _lock_order(tx, other)
    if order.status is OrderStatus.PLACED:
        if (await read_chargeable(tx, [order.key]))[0].has_open_charge:
            raise AlreadyPaid
        reason = "The customer started again in another window."
        await cancel_order(tx, order, by=Actor(ActorKind.PAYER, checkout.offset_link_id).at(now), reason=reason)
    elif order.status not in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
        raise AlreadyPaid
    await queue.close(tx, other.scope, other.id)


async def _place_order(
    tx: Connection,
    checkout: Checkout,
    offer: LinkOffer,
    priced: PricedOffer,
    *,
    language: str,
    buyer: BuyerDetails | None,
    now: datetime,
) -> Order:
    request = OrderRequest(
        requested=price_request_of(checkout),
        idempotency=Idempotency(None, hash_token(checkout.id)),
        metadata=checkout.metadata or "{}",
        external_id=checkout.external_id,
        external_id_verified=checkout.external_id_verified,
        reference=checkout.reference,
        customer=CheckoutCustomer(offer.link.id, checkout.email, buyer),
        beneficiary=checkout.beneficiary,
        language=language,
    )
    placed = await place_order(
        tx, checkout.scope, request, offer.terms, offer.catalogue, now=now, retry_after=CHECK_INTERVAL
    )
    if placed is None:
        raise LookupError(f"{checkout.id} has no order, but its key is taken")
    await store.set_ordered(tx, checkout, placed.order, priced, now + CHECK_INTERVAL)
    # Test supply does not run out, so that nothing is held.
    if checkout.scope.mode is Mode.LIVE:
        await name_order(tx, checkout.scope, checkout.id, placed.order.id)
    return placed.order


async def _lock_order(tx: Connection, checkout: Checkout) -> Order:
    order = await lock_order(tx, checkout.scope, checkout.order_id or "")
    if order is None:
        raise LookupError(f"{checkout.id} has no order")
    return order


# Holding the supply of a checkout before its customer is sent to the gateway's payment page.

SUM_PAID = """
SELECT coalesce(sum(quantity_grams), 0)::bigint FROM orders
WHERE lower(email) = lower($3) AND organisation_id = $1 AND mode = $2 AND offset_link_id IS NOT NULL
  AND status IN ('paid', 'retiring', 'complete') AND payment_state = 'paid' AND refunded_minor = 0
"""


async def find_holder(connection: Connection, checkout: Checkout, client: str) -> Holder:
    """As whom the customer of a checkout holds supply: this decides how far they are trusted."""
    trust, scope, paid_grams = Trust.TRUSTED, checkout.scope, 0
    if not checkout.is_vouched_for:
        paid_grams = await connection.fetchval(SUM_PAID, scope.organisation_id, scope.mode, checkout.email)
        trust = Trust.KNOWN if paid_grams else Trust.ANONYMOUS
    return Holder(
        scope=scope,
        checkout_id=checkout.id,
        trust=trust,
        client_hash=hashlib.sha256(client.encode()).digest(),
        email_hash=hashlib.sha256(checkout.email.lower().encode()).digest(),
        paid_grams=paid_grams,
    )


class Buyer(Struct, frozen=True):
    """The network address of a customer; and whether they pay although delivery may wait."""

    client: str
    accepts_waiting: bool = False


@asynccontextmanager
async def holding(
    database: Database,
    checkout: Checkout,
    basis: tuple[Terms, Catalogue],
    *,
    buyer: Buyer,
    settings: Settings,
    now: datetime,
) -> AsyncIterator[Unheld | None]:
    """Hold the grams of a checkout while its order is placed; release them if it is not. Yields why they are not held.

    Raises NotEnoughInStock; and DeliveryMayWait, if they cannot be held and the buyer has not accepted that. Afterwards
    the worker releases them, when the order is allocated or the payment fails.
    """
    lines, unheld = await _lines(database, checkout, basis, now), None
    holder = await database.run(find_holder, checkout, buyer.client)
    if lines:
        async with database.transaction() as tx:
            # Locked: otherwise another tab could place the order now, without naming it in this hold.
            order_id = await lock_order_id(tx, checkout)
            if order_id is not None:
                [charged] = await read_chargeable(tx, [OrderKey(checkout.scope.account_id, order_id)])
                holder = replace(holder, order_id=order_id, charges_before=charged.attempts)
            unheld = await hold_supply(tx, holder, lines, settings=settings, now=now)
    if unheld is not None and not buyer.accepts_waiting:
        raise DeliveryMayWait(unheld)
    try:
        yield unheld
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


DELETE_BATCH = 1000
REASON = "The checkout expired before it was paid."
ACTOR = job_actor("close_checkouts")

_Claim = Callable[[Connection, datetime, int], Awaitable[Sequence[DueCheckout]]]
_Handle = Callable[[Connection, Sequence[DueCheckout]], Awaitable[None]]


class CloseCheckouts(RowJob, frozen=True):
    """A job of the worker. A checkout with an open charge stays open, because it may still be paid."""

    EVERY_S: ClassVar[int] = 2

    async def run_once(self) -> bool:
        """Delete or close a batch of expired checkouts without an order, and check one with an order.

        False when none is due.
        """
        deleted = await self._run(queue.claim_without_order, _forget, DELETE_BATCH)
        # One at a time: cancelling locks the event stream last, so the next order must not be locked after it.
        closed = await self._run(queue.claim_with_order, self._close, 1)
        return deleted or closed

    async def _run(self, claim: _Claim, handle: _Handle, limit: int) -> bool:
        async def postpone(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
            for due in checkouts:
                await queue.schedule_close(tx, due.scope, due.id, self.clock() + CHECK_INTERVAL)

        return await run_claimed(
            self.database,
            lambda tx, count: claim(tx, self.clock(), count),
            handle,
            postpone,
            limit=limit,
            failure_event="checkout_not_closed",
            describe=lambda due: {"checkout_id": due.id},
        )

    async def _close(self, tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
        for checkout in checkouts:
            now = self.clock()
            order = await lock_order(tx, checkout.scope, checkout.order_id or "")
            if order is None or order.status in {OrderStatus.CANCELLED, OrderStatus.FAILED}:
                await queue.close(tx, checkout.scope, checkout.id)
            elif order.status is not OrderStatus.PLACED:
                await queue.schedule_close(tx, checkout.scope, checkout.id, None)
            elif now < checkout.expires_at or (await read_chargeable(tx, [order.key]))[0].has_open_charge:
                await queue.schedule_close(tx, checkout.scope, checkout.id, now + CHECK_INTERVAL)
            else:
                await queue.close(tx, checkout.scope, checkout.id)
                code = CancellationReason.CHECKOUT_EXPIRED
                await cancel_order(tx, order, by=ACTOR.at(now), reason=REASON, code=code)


async def _forget(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
    await queue.delete_checkouts(tx, checkouts)
    await queue.close_api_checkouts(tx, checkouts)
