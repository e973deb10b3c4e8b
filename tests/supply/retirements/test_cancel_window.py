"""Paid orders that wait for `fulfil_after`: nothing is allocated, tonnes are held, and exactly one of two wins."""

import asyncio
import random
from collections.abc import Coroutine
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from tests.money.invoices.billing import parse, text_of
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.money.refunds.reduce_order import ReductionRequest, reduce_order
from tonne.platform.documents.mail.stored_files import with_files
from tonne.platform.values.context import Mode, Scope, to_wire
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.store import add_admin
from tonne.selling.orders.errors import OrderFulfilled, ReductionInvalid, TransitionInvalid
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order
from tonne.selling.orders.release_order import release_order
from tonne.supply.registries.retire_test_order import RetireTestOrder
from tonne.supply.retirements.allocate_orders import AllocateOrders, allocate_orders
from tonne.supply.stock.holds.hold_store import sum_by_trust_any_account


class WindowShop(Shop):
    async def patient(self, beneficiary: str = "Ada") -> Scope:
        scope = await self.account(beneficiary)
        async with self.database.transaction() as tx:
            await change_account(tx, scope, AccountChange(fulfil_delay="24"), by=TESTER.at(self.clock()))
        return scope

    async def release(self, order: Order) -> Order:
        async with self.database.transaction() as tx:
            return await release_order(tx, order.scope, order.id, by=TESTER.at(self.clock()))

    async def held(self) -> dict[str, int]:
        rows = await self.fetch("SELECT order_id, sum(reserved_grams)::bigint AS grams FROM supply_holds GROUP BY 1")
        return {row["order_id"]: row["grams"] for row in rows}


@pytest.fixture
async def live(live: Shop) -> WindowShop:
    shop = WindowShop(live.services, live.world, live.clock, Mode.LIVE)
    await shop.sell("wind", {"A": 1})
    return shop


async def test_nothing_is_allocated_before_the_time_and_the_tonnes_are_held(live: WindowShop) -> None:
    lot_id = await live.supply("A", 2020, 5)
    patient = await live.buy_and_wait(await live.patient(), 4 * TONNE, "wind")
    await live.work()
    assert await live.held() == {patient.id: 4 * TONNE}
    async with live.database.connection() as connection:
        assert (await sum_by_trust_any_account(connection))["order"] == 4 * TONNE
    # Others get what is left.
    late = await live.buy(await live.account("Ben"), 2 * TONNE, "wind")
    await live.work()
    assert await live.statuses(patient, late) == ["paid", "paid"]
    live.clock.advance(hours=23, minutes=59)
    await live.work()
    assert await live.statuses(patient) == ["paid"]
    live.clock.advance(minutes=1)
    await live.work()
    assert (await live.statuses(patient, late), await live.held()) == (["retiring", "paid"], {})
    assert await live.fetchval("SELECT allocated_grams FROM lots WHERE id = $1", lot_id) == 4 * TONNE
    await live.check_supply()


async def test_the_database_refuses_to_allocate_before_the_time(live: WindowShop) -> None:
    await live.supply("A", 2020, 5)
    order = await live.buy_and_wait(await live.patient(), TONNE, "wind")
    with pytest.raises(TransitionInvalid):
        await live.database.commit(allocate_orders, [order], live.settings, live.clock())
    assert await live.statuses(order) == ["paid"]


async def test_a_hold_that_supply_does_not_cover_is_made_after_the_next_import(live: WindowShop) -> None:
    order = await live.buy_and_wait(await live.patient(), 2 * TONNE, "wind")
    await live.work()
    assert await live.held() == {}
    await live.supply("A", 2020, 5)
    await live.work()
    assert await live.held() == {order.id: 2 * TONNE}


async def test_a_reduction_gives_back_what_is_held(live: WindowShop) -> None:
    await live.supply("A", 2020, 5)
    order = await live.buy_and_wait(await live.patient(), 4 * TONNE, "wind")
    await live.work()
    await live.reduce(order, 1_500_000)
    assert await live.held() == {order.id: 2 * TONNE}
    await live.cancel(order)
    assert await live.held() == {}


async def test_a_released_order_is_fulfilled_at_once(live: WindowShop) -> None:
    await live.supply("A", 2020, 5)
    order = await live.buy_and_wait(await live.patient(), TONNE, "wind", manually=True)
    await live.work()
    assert (await live.shown(order))["fulfil_after"] == "manual"
    released = await live.release(order)
    assert (released.fulfil_after, released.fulfil_manually) == (live.clock(), False)
    # Again, as after a lost response.
    assert (await live.release(order)).fulfil_after == live.clock()
    await live.work()
    assert await live.statuses(order) == ["retiring"]
    with pytest.raises(OrderFulfilled):
        await live.release(order)
    assert await live.fetchval("SELECT count(*) FROM audit_log WHERE action = 'order.released'") == 1


async def test_an_order_that_nobody_releases_is_after_ninety_days_with_a_mail_before(live: WindowShop) -> None:
    await live.supply("A", 2020, 5)
    scope = await live.patient()
    async with live.database.transaction() as tx:
        await add_admin(tx, scope.organisation_id, "ada@ours.test", live.clock())
    paid_at = live.clock()
    order = await live.buy_and_wait(scope, TONNE, "wind", manually=True)
    for days in (1, 82):
        await live.work()
        await live.run_jobs(live.mail_orders)
        assert await live.fetchval("SELECT count(*) FROM mails") == 0
        live.clock.now = paid_at + timedelta(days=days)
    live.clock.advance(days=1)
    for _ in range(2):
        await live.work()
        await live.run_jobs(live.mail_orders)
        [row] = await live.fetch("SELECT message, recipients FROM mails")
        live.clock.advance(hours=1)
    mail = parse(await with_files(row["message"], live.services.originals.read))
    assert row["recipients"] == ["ada@ours.test"]
    assert "On 30 May 2026 that happens by itself" in text_of(mail)
    assert (await live.shown(order))["fulfil_after"].startswith("2026-05-30T")
    live.clock.advance(days=7)
    await live.work()
    assert await live.statuses(order) == ["retiring"]


@pytest.mark.parametrize("what", ["reduce", "cancel", "release"])
async def test_whoever_comes_after_the_allocation_is_refused(live: WindowShop, what: str) -> None:
    await live.supply("A", 2020, 5)
    order = await live.buy_and_wait(await live.patient(), TONNE, "wind")
    asked = {"reduce": lambda: live.reduce(order, TONNE // 2), "cancel": lambda: live.cancel(order)}
    ends_at = live.clock() + timedelta(hours=24)
    async with live.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        # It was asked for in time, and waits for the lock.
        second = asyncio.create_task(asked.get(what, lambda: live.release(order))())
        await live.until_waiting_for_lock()
        await allocate_orders(tx, [locked], live.settings, ends_at)
    with pytest.raises(OrderFulfilled):
        await second
    assert await live.statuses(order) == ["retiring"]
    assert await live.fetchval("SELECT count(*) FROM order_reductions") == 0


async def test_a_worker_leaves_out_an_order_that_is_being_reduced(live: WindowShop) -> None:
    await live.supply("A", 2020, 5)
    order = await live.buy_and_wait(await live.patient(), 3 * TONNE, "wind")
    async with live.database.transaction() as tx:
        request, by = ReductionRequest(TONNE), TESTER.at(live.clock())
        await reduce_order(tx, order.scope, order.id, request, settings=live.settings, by=by)
        live.clock.advance(hours=24)
        await live.services.allocate_orders.run_once()
    assert await live.statuses(order) == ["paid"]
    await live.work()
    assert await live.statuses(order) == ["retiring"]
    assert await live.fetchval("SELECT sum(quantity_grams) FROM shares") == TONNE


async def test_two_reductions_at_once_come_one_after_the_other(live: WindowShop) -> None:
    await live.supply("A", 2020, 9)
    order = await live.buy_and_wait(await live.patient(), 8 * TONNE, "wind")
    results = await asyncio.gather(*(live.reduce(order, grams * TONNE) for grams in (6, 3)), return_exceptions=True)
    # If that to 3 t was first, the other one would increase the order.
    assert [type(each) for each in results if isinstance(each, Exception)] in ([], [ReductionInvalid])
    assert (await live.shown(order))["quantity"] == "3"
    await live.check_supply()


async def test_at_the_end_of_the_wait_each_request_counts_or_is_refused(live: WindowShop) -> None:
    """Released, cancelled, reduced twice and allocated by two workers at the same moment, in any order."""
    chance = random.Random(7)  # noqa: S311 - repeatable
    lot_id = await live.supply("A", 2020, 99)
    scope, ends_at = await live.patient(), live.clock() + timedelta(hours=24)
    later = ManualClock(ends_at)
    worker = AllocateOrders(live.database, later, live.settings)
    sold, ends = 0, set()
    for _ in range(8):
        order = await live.buy_and_wait(scope, 8 * TONNE, "wind")
        attempts: list[Coroutine[Any, Any, object]]
        attempts = [live.release(order), live.cancel(order), live.reduce(order, 6 * TONNE), live.reduce(order, TONNE)]
        attempts += [worker.run_once(), worker.run_once()]
        chance.shuffle(attempts)
        results = await asyncio.gather(*attempts[: chance.randint(3, 6)], return_exceptions=True)
        for attempt in attempts:
            attempt.close()
        failures = {type(each) for each in results if isinstance(each, Exception)}
        assert failures <= {OrderFulfilled, ReductionInvalid, TransitionInvalid}
        # An order that a request has changed under a worker is tried again later.
        later.advance(hours=1)
        await worker.run_once()
        shown = await live.shown(order)
        grams = await live.fetchval("SELECT coalesce(sum(quantity_grams), 0) FROM shares WHERE order_id = $1", order.id)
        wanted = 0 if shown["status"] == "cancelled" else int(Decimal(shown["quantity"]) * TONNE)
        assert grams == wanted, results
        sold += grams
        ends.add((shown["status"], shown["quantity"]))
    assert len({status for status, _ in ends}) == 2, "some are cancelled, some fulfilled"
    assert await live.fetchval("SELECT allocated_grams FROM lots WHERE id = $1", lot_id) == sold
    assert await live.held() == {}
    await live.check_supply()


async def test_test_helpers_end_the_wait(trial: Shop, services: Services) -> None:
    await trial.sell("wind", {"A": 1})
    scope = await trial.account("Ada", auto_advance=False)
    placed = await trial.place(scope, TONNE, "wind")
    await trial.execute("UPDATE orders SET fulfil_manually = true WHERE id = $1", placed.id)
    async with trial.database.connection() as connection:
        [loaded] = await load_orders(connection, [placed.key])
    order = await trial.pay(loaded)
    shown = msgspec.json.decode(
        await RetireTestOrder(trial.database, trial.clock, trial.settings, services.retire_units).complete(
            scope, order.id
        )
    )
    assert (shown["status"], shown["fulfil_after"]) == ("complete", to_wire(trial.clock()))
