"""Paid orders get their grams: whole units, shared units, backorders. Each test is a story with dates."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.world import World
from tonne.accounts.model import PaymentMethod
from tonne.app import House
from tonne.base.scope import Scope
from tonne.catalog.selection import BundleChoiceIn
from tonne.cli.doctor import examine
from tonne.orders.load_orders import load_order
from tonne.orders.model import Order, OrderStatus
from tonne.orders.move_order import mark_paid
from tonne.orders.place_order import Request, Wanted, compose_order, place_order, price_if_possible

MARCH = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
Buy = Callable[[Scope, str, int], Awaitable[Order]]


@pytest.fixture
def buy(house: House) -> Buy:
    """Places and pays an order of so many grams of one bundle."""

    async def work(scope: Scope, bundle_id: str, grams: int) -> Order:
        terms = await house.directory.terms_of(scope)
        catalogue = await house.catalogues.current(scope.mode)
        wanted = Wanted(mass_grams=grams, choices=[BundleChoiceIn(bundle_id, None)])
        request = Request(wanted, None, "{}", b"d")
        order = compose_order(scope, request, terms, priced=price_if_possible(wanted, terms, catalogue), now=MARCH)
        async with house.database.transaction() as tx:
            await place_order(tx, order, b"d", retry_after=timedelta(0))
            return await mark_paid(tx, order, MARCH)

    return work


async def check_all_is_well(house: House) -> None:
    async with house.database.transaction() as tx:
        assert await examine(tx) == {}


async def status_of(house: House, order: Order) -> OrderStatus:
    async with house.database.connection() as connection:
        found = await load_order(connection, order.scope, order.id)
    assert found is not None
    assert found.payment_method is PaymentMethod.INVOICE
    return found.status


async def test_in_test_mode_a_paid_order_completes_by_itself(house: House, world: World, buy: Buy) -> None:
    order = await buy(world.ours_test.scope, world.bundles_test["forest-mix"], 3_250_000)
    assert await house.allocate_orders.run_once()
    assert await status_of(house, order) is OrderStatus.COMPLETE
    await check_all_is_well(house)
