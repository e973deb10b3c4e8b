"""Requests to registries while people settle them, pause or invalidate their lots, or payments are disputed."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from functools import partial

import pytest

from tests.supply.registries.test_retire_units import (
    DIFFERENCES,
    TWICE,
    buy,
    check_books,
    instructions,
    states,
    unit,
)
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.scene import RunsOnce
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.values.context import Actor, ActorKind
from tonne.selling.users.approvals import ApprovalFactor, Approver
from tonne.supply.registries import instruction_store, retire_units
from tonne.supply.registries.errors import RequestNotOpen, SettlementRefused
from tonne.supply.registries.gateway import Answer, Instruction, Outcome
from tonne.supply.registries.instruction_store import Open
from tonne.supply.registries.retire_units import LEASE, RetireUnits
from tonne.supply.registries.settle_request import (
    RequestFinding,
    RequestSettlement,
    approve_settlement,
    request_settlement,
)
from tonne.supply.registries.simulated import SimulatedRegistry
from tonne.supply.stock.parcels.instructed_parcels import pause_lot, resume_lot

__all__ = ["unit"]
NOT_RETIRED = RequestSettlement(finding=RequestFinding.NOT_RETIRED, reason="Nothing there")
ADA, BERTA = (Actor(ActorKind.USER, f"usr_{name}") for name in ("ada", "berta"))


async def say_not_retired(shop: Shop) -> str:
    """Nothing is booked until another person approves it. Returns the request."""
    [request] = await instructions(shop)
    by = ADA.at(shop.clock())
    await shop.database.commit(
        lambda tx: request_settlement(tx, request["id"], NOT_RETIRED, settings=shop.settings, by=by)
    )
    return str(request["id"])


async def approve(shop: Shop, request_id: str) -> None:
    approver = Approver(BERTA, "session", ApprovalFactor.SECOND_FACTOR)
    now = shop.clock()
    await shop.database.commit(
        lambda tx: approve_settlement(tx, request_id, approver=approver, settings=shop.settings, now=now)
    )


async def pass_time(shop: Shop, wait: timedelta, step: timedelta = timedelta(minutes=1)) -> None:
    seen = shop.clock.now
    while shop.clock.now - seen < wait:
        shop.clock.advance(seconds=step.total_seconds())
        await shop.work()


async def test_a_request_that_is_being_sent_again_is_not_settled(trial: Shop, unit: int) -> None:
    order = await buy(trial, "Registry Lost", 2 * unit)
    await trial.work()
    trial.clock.advance(minutes=11)
    request_id = await say_not_retired(trial)
    async with trial.database.transaction() as tx:
        claimed = await instruction_store.find_open(tx, request_id)
        assert claimed is not None
        assert await trial.services.retire_units._mark_asked(tx, claimed)
        approving = asyncio.create_task(approve(trial, request_id))
        await trial.until_waiting_for_lock()
    with pytest.raises(SettlementRefused, match="ten minutes after it was sent"):
        await approving
    assert await states(trial) == [("asked", 2)]
    await pass_time(trial, timedelta(minutes=25))
    assert await trial.statuses(order) == ["complete"]
    await check_books(trial)


@pytest.mark.parametrize("attempt", range(3))
async def test_a_worker_and_a_person_at_once_never_retire_twice(trial: Shop, unit: int, attempt: int) -> None:
    order = await buy(trial, "Registry Lost", 2 * unit)
    await trial.work()
    trial.clock.advance(minutes=11)
    request_id = await say_not_retired(trial)
    meet = asyncio.Barrier(2)

    async def worker() -> None:
        await meet.wait()
        await trial.services.retire_units.run_once()

    async def person() -> None:
        await meet.wait()
        await asyncio.sleep(attempt * 0.002)
        await approve(trial, request_id)

    _, settled = await asyncio.gather(worker(), person(), return_exceptions=True)
    assert settled is None or isinstance(settled, (SettlementRefused, RequestNotOpen))
    await pass_time(trial, timedelta(minutes=60))
    assert await trial.statuses(order) == ["complete"]
    assert await trial.fetchval("SELECT count(*) FROM simulated_retirements WHERE state = 'retired'") == 1
    await check_books(trial)


async def test_what_was_found_before_a_request_was_sent_again_does_not_count(trial: Shop, unit: int) -> None:
    await buy(trial, "Registry Lost", 2 * unit)
    await trial.work()
    trial.clock.advance(minutes=11)
    request_id = await say_not_retired(trial)
    await trial.execute("UPDATE registry_instructions SET sent_at = sent_at + interval '2 minutes'")
    trial.clock.advance(minutes=15)
    with pytest.raises(SettlementRefused, match="look at the registry again"):
        await approve(trial, request_id)
    await trial.execute("UPDATE registry_instructions SET sent_at = sent_at - interval '2 minutes', state = 'pending'")
    with pytest.raises(SettlementRefused, match="was answered since"):
        await approve(trial, request_id)


async def test_a_request_leaves_when_it_is_marked_as_sent(trial: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that are answered late do not delay the others: those are not marked yet."""
    for number in range(3):
        await trial.sell(f"wind{number}", {f"P{number}": 1})
        await trial.supply(f"P{number}", 2020, 10)
        await trial.buy(await trial.account(f"Buyer {number}"), TONNE, f"wind{number}")
    await trial.services.allocate_orders.run_once()
    delays: list[timedelta] = []

    async def times_out(_: SimulatedRegistry, instruction: Instruction) -> Answer:
        sent_at = await trial.fetchval("SELECT sent_at FROM registry_instructions WHERE id = $1", instruction.id)
        delays.append(trial.clock() - sent_at)
        trial.clock.advance(seconds=31)
        return Answer(outcome=Outcome.UNKNOWN)

    monkeypatch.setattr(SimulatedRegistry, "retire", times_out)
    monkeypatch.setattr(retire_units, "AT_ONCE", 1)
    for _ in range(3):
        await trial.services.retire_units.run_once()
        trial.clock.advance(seconds=LEASE.total_seconds())
    assert delays == [timedelta(0)] * 3


async def test_a_request_that_was_delayed_here_is_not_sent(trial: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await trial.sell("wind", {"A": 1})
    await buy(trial, "Ada", TONNE)
    await trial.services.allocate_orders.run_once()
    mark_asked = RetireUnits._mark_asked

    async def slow(self: RetireUnits, tx: Connection, claimed: Open) -> datetime | None:
        marked = await mark_asked(self, tx, claimed)
        trial.clock.advance(seconds=LEASE.total_seconds() + 1)
        return marked

    with monkeypatch.context() as patch:
        patch.setattr(RetireUnits, "_mark_asked", slow)
        await trial.services.retire_units.run_once()
    assert await states(trial) == [("recorded", 0)]
    assert await trial.fetch("SELECT * FROM simulated_retirements") == []


@pytest.mark.parametrize(("beneficiary", "lost"), [("Registry Answer Lost", 2), ("Registry Pending Rejected", 0)])
async def test_credits_of_an_invalid_lot_wait_for_the_answer(
    trial: Shop, unit: int, beneficiary: str, lost: int
) -> None:
    order = await buy(trial, beneficiary, 2 * unit)
    await trial.work()
    lot_id = await trial.fetchval("SELECT lot_id FROM parcels")
    await trial.supply("A", 2021, 10)
    await trial.invalidate(lot_id, "Cancelled.")
    await trial.work()
    assert await trial.case_states(lot_id) == {order.id: "resupply"}
    assert await trial.fetchval("SELECT count(*) FROM parcels") == 1, "no other credits yet"
    await trial.check_supply()
    trial.clock.advance(seconds=10)
    await trial.work()
    assert await trial.case_states(lot_id) == {order.id: "resupplied"}
    rows = await trial.fetch("SELECT units FROM registry_drifts WHERE cause = 'invalid'")
    assert [row["units"] for row in rows] == [lost] * bool(lost)
    trial.clock.advance(minutes=1)
    await trial.work()
    tasks = await trial.work_list()
    if tasks:
        await trial.confirm(*tasks)
        await trial.work()
    assert await trial.statuses(order) == ["complete"]
    # What a person confirms is not at the simulated registry.
    await (trial.check_supply() if tasks else check_books(trial))


async def test_units_of_an_invalid_lot_that_cannot_be_booked(trial: Shop) -> None:
    """Units that no parcel of the request has: its orders get other credits, too."""
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    order = await buy(trial, "Registry Answer Lost", TONNE)
    await trial.work()
    lot_id = await trial.fetchval("SELECT lot_id FROM parcels")
    await trial.supply("A", 2021, 10)
    await trial.invalidate(lot_id, "Cancelled.")
    await trial.execute("UPDATE simulated_retirements SET units = '{[109,110)}'")
    trial.clock.advance(seconds=10)
    await trial.work()
    assert await trial.case_states(lot_id) == {order.id: "resupplied"}
    assert await trial.fetchval("SELECT units FROM registry_drifts WHERE cause = 'invalid'") == 1
    await trial.check_supply()


@pytest.mark.parametrize("obstacle", ["invalid", "paused", "disputed"])
async def test_a_request_that_was_not_sent_is_given_back(trial: Shop, unit: int, obstacle: str) -> None:
    order = await buy(trial, "Registry Busy", 2 * unit)
    await trial.work()
    assert await states(trial) == [("recorded", 0)]
    lot_id = await trial.fetchval("SELECT lot_id FROM parcels")
    if obstacle == "invalid":
        await trial.invalidate(lot_id, "Cancelled.")
    elif obstacle == "paused":
        await trial.database.commit(pause_lot, lot_id, "Units are missing", trial.clock())
    else:
        await trial.execute("UPDATE orders SET has_open_dispute = true")
    trial.clock.advance(minutes=1)
    await trial.services.retire_units.run_once()
    [given_back] = await instructions(trial)
    assert (given_back["state"], given_back["problem"][:9]) == ("declined", "Not sent:")
    assert await trial.fetchval("SELECT count(instruction_id) FROM parcels") == 0
    await trial.check_supply()
    await trial.work()
    if obstacle == "invalid":
        assert await trial.case_states(lot_id) == {order.id: "resupplied"}
    else:
        assert len(await instructions(trial)) == 1, "it is not asked for"
    await trial.execute("UPDATE orders SET has_open_dispute = false")
    await trial.database.commit(resume_lot, lot_id)
    await trial.work()
    assert await states(trial) == [("declined", 0), ("recorded", 0)]


async def test_units_of_a_paused_lot_take_no_fractions(live: Shop) -> None:
    await live.sell("wind", {"A": 1})
    lots = [await live.supply("A", year, 5) for year in (2020, 2021)]
    ada = await live.account("Ada")
    await live.buy(ada, TONNE // 4, "wind")
    await live.buy_at_checkout(ada, TONNE // 4, "wind")
    await live.work()
    await live.confirm(*await live.work_list())
    shared = "SELECT lot_id FROM parcels ORDER BY opened_at, id"
    assert {row["lot_id"] for row in await live.fetch(shared)} == {lots[0]}
    await live.database.commit(pause_lot, lots[0], "Units are missing", live.clock())
    before = await live.fetchval("SELECT sum(allocated_grams) FROM parcels")
    orders = [await live.buy(ada, TONNE // 4, "wind"), await live.buy_at_checkout(ada, TONNE // 4, "wind")]
    await live.work()
    assert "paid" not in await live.statuses(*orders)
    of_paused = "SELECT sum(allocated_grams) FROM parcels WHERE lot_id = $1"
    assert await live.fetchval(of_paused, lots[0]) == before
    await live.check_supply()


async def test_jobs_and_people_at_once_do_not_block_each_other(trial: Shop, unit: int) -> None:
    """A lot is invalidated, another imported, while credits are allocated and retired."""
    ada, berta = await trial.account("Ada"), await trial.account("Registry Answer Lost")
    orders = [await trial.buy(buyer, unit, "wind") for buyer in (ada, berta) * 4]
    await trial.services.allocate_orders.run_once()
    lot_id = await trial.fetchval("SELECT DISTINCT lot_id FROM parcels")
    reduced, cancelled = [await trial.buy_and_wait(ada, 2 * unit, "wind", manually=True) for _ in range(2)]
    meet = asyncio.Barrier(9)

    async def work(job: RunsOnce) -> None:
        await meet.wait()
        for _ in range(6):
            await job.run_once()

    async def person(step: Callable[[], Awaitable[object]]) -> None:
        await meet.wait()
        await step()

    services = trial.services
    await asyncio.gather(
        work(services.retire_units),
        work(services.retire_units),
        work(services.allocate_orders),
        work(services.resupply_orders),
        work(services.check_registries),
        person(partial(trial.reduce, reduced, unit)),
        person(partial(trial.cancel, cancelled)),
        person(partial(trial.invalidate, lot_id, "Cancelled.")),
        person(partial(trial.supply, "A", 2021, 10)),
    )
    await pass_time(trial, timedelta(minutes=15))
    assert await trial.statuses(*orders) == ["complete"] * len(orders)
    assert await trial.statuses(reduced, cancelled) == ["paid", "cancelled"]
    assert await trial.fetchval("SELECT quantity_grams FROM orders WHERE id = $1", reduced.id) == unit
    # Of the invalid lot, a registry may have retired other units than those that its orders had.
    block = await trial.fetchval("SELECT serial_block FROM lots WHERE id = $1", lot_id)
    assert {row["serial_block"] for row in await trial.fetch(DIFFERENCES)} <= {block}
    assert await trial.fetch(TWICE) == []
    await trial.check_supply()


async def test_a_person_cannot_book_what_a_registry_is_asked_to_retire(trial: Shop) -> None:
    """A line of the desk with serials of an open request: these would move to another parcel."""
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    declined, asked = [await buy(trial, name, 2 * TONNE) for name in ("Registry Declined", "Registry Pending")]
    await trial.services.allocate_orders.run_once()
    await trial.services.retire_units.run_once()
    await trial.services.retire_units.run_once()
    assert await states(trial) == [("declined", 0), ("pending", 0)]
    [task] = await trial.work_list()
    heads = "parcel_id,serial,retired_on,retirement_url"
    line = f"{task.parcel_id},test-A-1 103–104,{trial.clock.now.date()},https://registry.verra.org/1"
    with pytest.raises(SheetInvalid, match="the registry is being asked to retire the serials"):
        await trial.confirm_file([heads, line])
    await trial.confirm(task)
    await pass_time(trial, timedelta(minutes=2))
    assert await trial.statuses(declined, asked) == ["complete"] * 2
    await trial.check_supply()


@pytest.mark.parametrize("retired", ["{[101,104)}", "{[103,106)}"])
async def test_more_than_was_asked_for_is_a_difference(trial: Shop, retired: str) -> None:
    """Whether the units that were asked for are among them or not."""
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    ada, berta = [
        await buy(trial, name, 2 * TONNE + extra) for name, extra in (("Registry Answer Lost", 0), ("Berta", TONNE))
    ]
    await trial.services.allocate_orders.run_once()
    await trial.services.retire_units.run_once()
    await trial.execute("UPDATE simulated_retirements SET units = $1::text::int8multirange", retired)
    trial.clock.advance(seconds=10)
    await trial.services.retire_units.run_once()
    await trial.services.allocate_orders.run_once()
    assert await trial.statuses(ada, berta) == ["complete", "retiring"]
    drifts = await trial.fetch("SELECT units, cause FROM registry_drifts")
    assert [tuple(row) for row in drifts] == [(1, "difference")]
    assert await trial.fetchval("SELECT count(*) FROM lots WHERE paused_at IS NOT NULL") == 1
    await trial.check_supply()
