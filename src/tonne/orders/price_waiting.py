"""Orders that could not be priced when they came are tried again until they can be, or the time is up."""

from dataclasses import replace
from datetime import datetime, timedelta

import msgspec
import structlog

from tonne.accounts.store import find_terms
from tonne.base.clock import Clock
from tonne.base.errors import TonneError
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.catalog.errors import PriceUnavailable
from tonne.catalog.pricing import Priced
from tonne.catalog.selection import BundleChoiceIn
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Connection, Database
from tonne.orders import store
from tonne.orders.load_orders import OrderKey, claim_due_any_account, load_orders, postpone
from tonne.orders.model import Order, OrderStatus
from tonne.orders.move_order import move_order
from tonne.orders.place_order import Wanted, price

_log = structlog.get_logger()


class PriceWaiting:
    def __init__(self, database: Database, catalogues: Catalogues, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._catalogues = catalogues
        self._clock = clock
        self._retry = timedelta(seconds=settings.pricing_retry_s)
        self._give_up = timedelta(seconds=settings.pricing_give_up_s)

    async def run_once(self) -> bool:
        """Try one due order, in one transaction that holds its row; false when none is due."""
        async with self._database.transaction() as tx:
            now = self._clock()
            claimed = await self._claim(tx, now)
            if not claimed:
                return False
            try:
                # A savepoint: an order that cannot even be read is put off, and does not stand in the others' way.
                async with tx.transaction():
                    for order in await load_orders(tx, claimed):
                        await self._try(tx, order, now)
            except Exception:  # noqa: BLE001 - whatever it is, the next order must have its turn
                _log.exception("order_not_priced", order_id=claimed[0].id)
                await postpone(tx, claimed, OrderStatus.RECEIVED, now + self._retry)
        return True

    async def _claim(self, tx: Connection, now: datetime) -> list[OrderKey]:
        for mode in Mode:
            if claimed := await claim_due_any_account(tx, OrderStatus.RECEIVED, mode, now, limit=1):
                return claimed
        return []

    async def _try(self, tx: Connection, order: Order, now: datetime) -> None:
        try:
            priced = await self._price(tx, order)
        except PriceUnavailable:
            if now - order.created_at >= self._give_up:
                await move_order(tx, order, OrderStatus.FAILED, now)
            else:
                await postpone(
                    tx, [OrderKey(order.scope.account_id, order.id)], OrderStatus.RECEIVED, now + self._retry
                )
        except TonneError:
            # What was asked for cannot be sold any more, whenever we try: a bundle is gone, or the value buys nothing.
            await move_order(tx, order, OrderStatus.FAILED, now)
        else:
            order = replace(order, priced=priced)
            await store.price_order(tx, order)
            await move_order(tx, order, OrderStatus.PLACED, now, next_attempt_at=order.due_at(now))

    async def _price(self, tx: Connection, order: Order) -> Priced:
        choices = order.bundle_selection
        wanted = Wanted(
            mass_grams=order.requested_quantity_grams,
            value_minor=order.requested_value_minor,
            choices=None if choices is None else [msgspec.convert(choice, BundleChoiceIn) for choice in choices],
        )
        return price(wanted, await find_terms(tx, order.scope), await self._catalogues.current(order.scope.mode))
