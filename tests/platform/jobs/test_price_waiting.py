"""Orders without a price are retried, placed once, and fail after the time limit."""

import asyncio
from datetime import timedelta
from decimal import Decimal

import httpx
import pytest

from tests.support.api_client import ApiClient
from tests.support.clock import START, ManualClock
from tests.support.orders import receive
from tests.support.world import TESTER, World, open_tenant
from tonne.apps.cli.operations.doctor import examine
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope
from tonne.selling.accounts.organisations.change_organisation import open_organisation
from tonne.selling.orders.model import Order

ADD_RATE = """
INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source) VALUES ('test', 'EUR', 'BRL', $1, 6.25, 'test')
"""
RETRY = timedelta(seconds=30)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def brazil(populated_db: Database, world: World) -> Scope:
    """An account in a currency for which there is no exchange rate yet."""
    async with populated_db.transaction() as tx:
        return (await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "BRL")).scope


async def _add_rate(db: Database) -> None:
    async with db.transaction() as tx:
        await tx.execute(ADD_RATE, START - timedelta(days=1))
        await tx.execute("UPDATE catalogues SET version = version + 1 WHERE mode = 'test'")


async def _status(db: Database, order: Order) -> str:
    async with db.connection() as connection:
        status: str = await connection.fetchval("SELECT status FROM orders WHERE id = $1", order.id)
    return status


async def _check_nothing_is_broken(db: Database) -> None:
    async with db.transaction() as tx:
        assert await examine(tx) == {}


async def test_an_order_is_not_tried_before_it_is_due(services: Services, brazil: Scope, clock: ManualClock) -> None:
    await receive(services, brazil, START)
    clock.now = START + RETRY - timedelta(milliseconds=1)
    assert not await services.price_waiting.run_once()


async def test_an_order_without_a_price_is_postponed_and_retried(
    services: Services, brazil: Scope, clock: ManualClock
) -> None:
    order = await receive(services, brazil, START)
    for attempt in range(1, 4):
        clock.now = START + attempt * RETRY
        assert await services.price_waiting.run_once()
        assert not await services.price_waiting.run_once()
        assert await _status(services.database, order) == "received"
    await _check_nothing_is_broken(services.database)


async def test_an_order_is_placed_as_soon_as_there_is_a_rate(
    services: Services, brazil: Scope, clock: ManualClock
) -> None:
    order = await receive(services, brazil, START, metadata='{"b" : 1, "a":2.50}')
    await _add_rate(services.database)
    clock.now = START + RETRY
    assert await services.price_waiting.run_once()
    assert await _status(services.database, order) == "placed"
    async with services.database.connection() as connection:
        row = await connection.fetchrow(
            "SELECT exchange_rate, exchange_rate_source, wire_document, next_attempt_at FROM orders WHERE id = $1",
            order.id,
        )
    assert row is not None
    assert (str(row["exchange_rate"]).rstrip("0"), row["exchange_rate_source"]) == ("6.25", "test")
    assert row["next_attempt_at"] == clock.now, "its payment is due at once"
    assert b'"metadata":{"b" : 1, "a":2.50}' in row["wire_document"]
    assert not await services.price_waiting.run_once()
    await _check_nothing_is_broken(services.database)


async def test_an_order_that_gets_no_price_in_time_fails(services: Services, brazil: Scope, clock: ManualClock) -> None:
    order = await receive(services, brazil, START)
    clock.now = START + timedelta(seconds=services.settings.pricing_give_up_s) - timedelta(milliseconds=1)
    await services.price_waiting.run_once()
    assert await _status(services.database, order) == "received"
    clock.now += RETRY
    await services.price_waiting.run_once()
    assert await _status(services.database, order) == "failed"
    await _check_nothing_is_broken(services.database)


async def test_an_order_whose_bundle_is_gone_fails_at_once(
    services: Services, world: World, clock: ManualClock
) -> None:
    order = await receive(services, world.ours_test.scope, START)
    async with services.database.transaction() as tx:
        selection = f'[{{"bundle_id": "{world.disabled_bundle_test}"}}]'
        await tx.execute("UPDATE orders SET bundle_selection = $1::jsonb", selection)
    clock.now = START + RETRY
    assert await services.price_waiting.run_once()
    assert await _status(services.database, order) == "failed"
    await _check_nothing_is_broken(services.database)


async def test_money_1_an_order_placed_before_the_first_import_waits_and_can_be_cancelled(
    db: Database, settings: Settings, clock: ManualClock
) -> None:
    """An inner join with the catalogue made such orders invisible to jobs and to cancelling."""
    services = Services(db, settings, clock)
    async with db.transaction() as tx:
        organisation = await open_organisation(tx, "Early", Decimal("0.10"), by=TESTER.at(START))
        tenant = await open_tenant(tx, organisation.id, Mode.TEST)
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        api = ApiClient(http, tenant.key)
        unpaid, cancelled = [await api.order(mass={"amount": "1", "unit": "t"}) for _ in range(2)]
        assert unpaid["status"] == "received"
        clock.now = START + RETRY
        while await services.price_waiting.run_once():
            assert clock.now == START + RETRY, "each is postponed"
        answer = await api.post(f"/v1/orders/{cancelled['id']}/cancel", {})
        assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")
        clock.now = START + timedelta(seconds=services.settings.pricing_give_up_s)
        assert await services.price_waiting.run_once()
        assert (await api.get(f"/v1/orders/{unpaid['id']}")).json()["status"] == "failed"
    await _check_nothing_is_broken(db)


async def test_several_workers_at_once_price_every_order_once(
    services: Services, brazil: Scope, clock: ManualClock
) -> None:
    orders = [await receive(services, brazil, START) for _ in range(12)]
    await _add_rate(services.database)
    clock.now = START + RETRY
    barrier = asyncio.Barrier(4)

    async def worker() -> int:
        await barrier.wait()
        count = 0
        while await services.price_waiting.run_once():
            count += 1
        return count

    done = await asyncio.gather(*(worker() for _ in range(4)))
    assert sum(done) == len(orders)
    assert {await _status(services.database, order) for order in orders} == {"placed"}
    await _check_nothing_is_broken(services.database)


async def test_an_order_that_cannot_be_read_does_not_block_the_others(
    services: Services, brazil: Scope, clock: ManualClock
) -> None:
    """The oldest is claimed first: without postponement no other order would ever be priced."""
    poisoned = await receive(services, brazil, START - timedelta(seconds=1))
    other = await receive(services, brazil, START)
    await _add_rate(services.database)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE orders SET bundle_selection = '[{}]' WHERE id = $1", poisoned.id)
    clock.now = START + RETRY
    for _ in range(3):
        try:
            await services.price_waiting.run_once()
        except Exception as error:  # noqa: BLE001 - the loop logs it and goes on, and so do we
            print(repr(error))  # noqa: T201 - shown when the test fails
    assert await _status(services.database, other) == "placed"
