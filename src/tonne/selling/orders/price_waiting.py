"""Prices received orders that had no price when they were placed. They fail after `pricing_give_up_s`."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import structs

from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.directory import account_limits
from tonne.selling.accounts.limit_store import find_key_limit
from tonne.selling.accounts.store import find_terms
from tonne.selling.catalogue.errors import PriceRoundsToZero, PriceUnavailable
from tonne.selling.catalogue.prices.price import PriceRequest, price
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders import store
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import FailureReason, Order, OrderKey, OrderStatus, OrderTax, tax_of
from tonne.selling.orders.move_order import move_order
from tonne.selling.orders.placing.spending import count_spending
from tonne.selling.orders.queue import postpone, run_due


class PriceWaiting:
    def __init__(self, database: Database, catalogues: Catalogues, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._catalogues = catalogues
        self._clock = clock
        self._settings = settings
        self._retry = timedelta(seconds=settings.pricing_retry_s)
        self._give_up = timedelta(seconds=settings.pricing_give_up_s)

    async def run_once(self) -> bool:
        """Try one due order of each mode; false if none is due."""
        return any([await self._run_once(mode) for mode in Mode])

    async def _run_once(self, mode: Mode) -> bool:
        return await run_due(
            self._database,
            self._clock,
            OrderStatus.RECEIVED,
            mode,
            self._price_orders,
            limit=1,
            failure_event="order_not_priced",
            retry_after=self._retry,
        )

    async def _price_orders(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        for order in await load_orders(tx, keys):
            await self._try(tx, order, now)

    async def _try(self, tx: Connection, order: Order, now: datetime) -> None:
        try:
            priced, tax = await self._price(tx, order)
        except (PriceUnavailable, PriceRoundsToZero):
            if now - order.created_at >= self._give_up:
                await _fail(tx, order, FailureReason.PRICE_UNAVAILABLE, now)
            else:
                await postpone(tx, [order.key], OrderStatus.RECEIVED, now + self._retry)
        except TonneError:
            # A retry is pointless: a bundle is gone, the value buys less than a gram, or a card cannot pay so little.
            await _fail(tx, order, FailureReason.NOT_PAYABLE, now)
        else:
            order = structs.replace(order, priced=priced, tax=tax)
            await store.price_order(tx, order)
            await _count(tx, order)
            await move_order(tx, order, OrderStatus.PLACED, now, next_attempt_at=order.due_at(now))

    async def _price(self, tx: Connection, order: Order) -> tuple[Priced, OrderTax]:
        requested = PriceRequest(
            mass_grams=order.requested_quantity_grams,
            value_minor=order.requested_value_minor,
            unit=order.quantity_trunc,
        ).with_stored_selection(order.bundle_selection)
        found = await find_terms(tx, order.scope, self._settings.seller_tax)
        terms = found.at_service(self._settings).paid_by(order.payment_method)
        if order.is_paid_at_checkout:
            terms = terms.at_checkout()
        priced = price(requested, terms, await self._catalogues.current(order.scope.mode))
        return priced, tax_of(priced, terms)


async def _count(tx: Connection, order: Order) -> None:
    """Count what the order costs against the limits. It was accepted, so it is not refused now."""
    terms, key_id = await find_terms(tx, order.scope), await store.find_key_of_order(tx, order.scope, order.id)
    of_key = None if key_id is None else await find_key_limit(tx, order.scope.organisation_id, key_id)
    limits = [*account_limits(order.scope, terms), *filter(None, [of_key])]
    await count_spending(tx, order, limits, is_refusing=False)


async def _fail(tx: Connection, order: Order, reason: FailureReason, now: datetime) -> None:
    await move_order(tx, structs.replace(order, failure_reason=reason), OrderStatus.FAILED, now)
