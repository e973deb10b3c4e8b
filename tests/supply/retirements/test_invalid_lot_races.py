"""A lot is invalidated while credits of it are allocated, confirmed and certified, and while others invalidate it."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order
from tonne.supply.retirements.allocate_orders import allocate_orders, complete_orders
from tonne.supply.retirements.confirmations.work_list import Task
from tonne.supply.retirements.resupply.invalidate_lot import invalidate_lot
from tonne.supply.retirements.resupply.resupply_orders import Decision, resolve_lot_cases, resupply
from tonne.supply.stock.lots.lot_case_store import claim_cases
from tonne.supply.stock.parcels.confirm_retirements import Confirmation, confirm_retirements_any_account
from tonne.supply.stock.parcels.parcel_store import lock_parcels_any_account

REASON = "Cancelled."


async def meanwhile(shop: Shop, other: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start something that then waits for a lock of the caller's transaction."""
    task = asyncio.create_task(other)
    await shop.until_waiting_for_lock()
    return task


async def selling(shop: Shop, tonnes: int = 5) -> str:
    await shop.sell("wind", {"A": 1})
    return await shop.supply("A", 2020, tonnes)


async def invalidate(shop: Shop, tx: Connection, lot_id: str) -> None:
    await invalidate_lot(tx, lot_id, reason=REASON, by=TESTER.at(shop.clock.now))


async def allocate(shop: Shop, tx: Connection, order: Order) -> None:
    assert await lock_order(tx, order.scope, order.id) is not None
    await allocate_orders(tx, await load_orders(tx, [order.key]), shop.settings, shop.clock.now)


async def confirm(shop: Shop, tx: Connection, task: Task) -> None:
    await lock_parcels_any_account(tx, shop.mode, task.parcel_ids, [])
    confirmations = [
        Confirmation(id_, shop.clock.now.date(), "https://registry.verra.org/7") for id_ in task.parcel_ids
    ]
    await confirm_retirements_any_account(tx, shop.mode, confirmations, shop.clock.now)


async def test_the_order_that_is_being_allocated_is_found(live: Shop) -> None:
    lot_id = await selling(live)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    async with live.database.transaction() as tx:
        await allocate(live, tx, order)
        waiting = await meanwhile(live, live.invalidate(lot_id, REASON))
    assert [case.order_id for case in (await waiting).cases] == [order.id]
    await live.check_supply()


async def test_nothing_is_allocated_from_a_lot_that_is_being_invalidated(live: Shop) -> None:
    lot_id = await selling(live)
    account = await live.account("Ada")
    await live.buy(account, TONNE, "wind")
    await live.work()
    order = await live.buy(account, TONNE, "wind")
    async with live.database.transaction() as tx:
        await invalidate(live, tx, lot_id)
        waiting = await meanwhile(live, live.services.allocate_orders.run_once())
    await waiting
    assert await live.statuses(order) == ["paid"]
    await live.check_supply()


async def test_a_retired_unit_with_room_is_not_shared_while_its_lot_is_invalidated(live: Shop) -> None:
    lot_id = await selling(live, 1)
    account = await live.account("Shop")
    await live.buy_at_checkout(account, 400_000, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    order = await live.buy_at_checkout(account, 100_000, "wind")
    async with live.database.transaction() as tx:
        await invalidate(live, tx, lot_id)
        waiting = await meanwhile(live, live.services.allocate_orders.run_once())
    await waiting
    assert await live.statuses(order) == ["paid"]
    await live.check_supply()


async def test_a_confirmation_comes_first(live: Shop) -> None:
    lot_id = await selling(live)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    (task,) = await live.work_list()
    async with live.database.transaction() as tx:
        await confirm(live, tx, task)
        waiting = await meanwhile(live, live.invalidate(lot_id, REASON))
    await waiting
    # It was retired, but has no certificate: it gets other credits.
    await live.supply("A", 2021, 5)
    await live.work()
    assert await live.case_states(lot_id) == {order.id: "resupplied"}
    assert await live.statuses(order) == ["retiring"]
    await live.check_supply()


async def test_a_confirmation_comes_too_late(live: Shop) -> None:
    lot_id = await selling(live)
    await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    tasks = await live.work_list()
    async with live.database.transaction() as tx:
        await invalidate(live, tx, lot_id)
        waiting = await meanwhile(live, live.confirm(*tasks))
    with pytest.raises(SheetInvalid, match="was invalidated"):
        await waiting
    await live.check_supply()


async def test_a_certificate_that_is_being_issued_is_found(live: Shop) -> None:
    lot_id = await selling(live)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    invalidation = await live.look_at_while(order, live.invalidate(lot_id, REASON))
    (case,) = invalidation.cases
    assert (case.state, case.certificate_number) == ("undecided", (await live.certificate(order))["number"])
    await live.check_supply()


async def test_no_certificate_is_issued_while_the_lot_is_invalidated(live: Shop) -> None:
    lot_id = await selling(live)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    async with live.database.transaction() as tx:
        await invalidate(live, tx, lot_id)
        # The worker skips the order, which is locked.
        await live.services.allocate_orders.run_once()
    async with live.database.transaction() as tx:
        await lock_order(tx, order.scope, order.id)
        await complete_orders(tx, [order.key], live.settings, live.clock.now)
    assert await live.statuses(order) == ["retiring"]
    await live.check_supply()


async def test_two_operators_invalidate_the_same_lot(live: Shop) -> None:
    lot_id = await selling(live)
    await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    done = await asyncio.gather(live.invalidate(lot_id, "One."), live.invalidate(lot_id, "Two."))
    assert sorted(each.was_invalid for each in done) == [False, True]
    await live.check_supply()


async def test_two_workers_supply_each_order_once(live: Shop) -> None:
    lot_id = await selling(live, 20)
    accounts = [await live.account(f"Buyer {number}") for number in range(6)]
    orders = [await live.buy(account, 1_300_000, "wind") for account in accounts]
    await live.work()
    await live.invalidate(lot_id, REASON)
    await live.supply("A", 2021, 20)
    jobs = [live.services.resupply_orders.run_once() for _ in range(8)]
    await asyncio.gather(*jobs)
    await live.work()
    assert await live.case_states(lot_id) == dict.fromkeys((order.id for order in orders), "resupplied")
    await live.check_supply()


class Killed(Exception):
    """The process dies, and its transaction is rolled back."""


async def test_a_worker_that_dies_loses_nothing(live: Shop) -> None:
    """Between the steps: after the invalidation, during the supply, after it, and while the certificate is issued."""
    lot_id = await selling(live)
    order = await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    await live.work()
    await live.invalidate(lot_id, REASON)
    await live.supply("A", 2021, 5)
    async with live.database.transaction() as tx:
        await resolve_lot_cases(tx, lot_id, None, Decision.RESUPPLY, by=TESTER.at(live.clock.now))
    with contextlib.suppress(Killed):
        async with live.database.transaction() as tx:
            (case,) = await claim_cases(tx, live.clock.now, 1)
            await resupply(tx, case, live.settings, live.clock.now)
            raise Killed
    assert await live.case_states(lot_id) == {order.id: "resupply"}
    await live.check_supply()
    await live.services.resupply_orders.run_once()
    assert await live.case_states(lot_id) == {order.id: "retiring"}
    await live.check_supply()
    await live.confirm(*await live.work_list())
    with contextlib.suppress(Killed):
        async with live.database.transaction() as tx:
            assert await claim_cases(tx, live.clock.now, 1)
            raise Killed
    await live.work()
    assert await live.case_states(lot_id) == {order.id: "reissued"}
    assert [state for _, state in await live.certificate_states(order)] == ["valid", "replaced"]
    await live.check_supply()


async def test_customers_who_are_paying_lose_what_they_hold(live: Shop) -> None:
    lot_id = await selling(live, 10)
    await live.buy(await live.account("Ada"), TONNE, "wind")
    await live.work()
    await live.supply("A", 2021, 2)
    hold = """
        INSERT INTO supply_holds (account_id, checkout_id, bundle_id, project_id, organisation_id, mode, kind, trust,
                                  client_hash, quantity_grams, reserved_grams, charges_before, expires_at)
        SELECT 'acc_1', $1, 'bun_1', id, 'org_1', mode, 'checkout', 'anonymous', sha256(''), $2, $2, 0, $3
        FROM projects WHERE registry_project_id = 'A' AND mode = 'live'
    """
    for number, tonnes in enumerate((2, 5), 1):
        await live.execute(hold, f"chk_{number}", tonnes * TONNE, live.clock.now)
        live.clock.advance(minutes=1)
    assert (await live.invalidate(lot_id, REASON)).lost_holds == ["chk_2"]
    assert await live.fetchval("SELECT array_agg(checkout_id) FROM supply_holds") == ["chk_1"]
