"""Test credits are retired at the simulated registries, without a person."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import asyncpg
import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.world import TESTER
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.values.context import Mode, Scope
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind, Order
from tonne.supply.registries import instruction_store
from tonne.supply.registries.gateway import Instruction, Outcome, Repeat
from tonne.supply.registries.retire_units import LEASE
from tonne.supply.registries.rules import RESEND_AFTER
from tonne.supply.registries.simulated import SimulatedRegistry
from tonne.supply.retirements.rename_order import rename_order
from tonne.supply.stock.parcels.parcel_store import LOCK_PARCELS

# By independent SQL: what the registry has retired and the books have not, or the other way round, unit by unit.
DIFFERENCES = """
WITH theirs AS (
    SELECT lot.serial_block, unnest(retired.units) AS units FROM simulated_retirements retired
    JOIN simulated_holdings holding USING (registry_account) JOIN lots lot ON lot.id = holding.lot_id
    WHERE holding.id = retired.holding_id AND retired.state = 'retired' AND retired.reference <> ''
), ours AS (
    SELECT lot.serial_block, int8range(lot.first_number + parcel.start_grams / lot.unit_grams,
               lot.first_number + (parcel.start_grams + parcel.quantity_grams) / lot.unit_grams) AS units
    FROM parcels parcel JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
    WHERE parcel.mode = 'test' AND parcel.status = 'retired' AND lot.status = 'held'
), there AS (SELECT serial_block, range_agg(units) AS units FROM theirs GROUP BY serial_block),
   here AS (SELECT serial_block, range_agg(units) AS units FROM ours GROUP BY serial_block)
SELECT serial_block, there.units - here.units AS only_there, here.units - there.units AS only_here
FROM there FULL JOIN here USING (serial_block) WHERE there.units IS DISTINCT FROM here.units
"""
TWICE = """
SELECT one.key, other.key FROM simulated_retirements one
JOIN simulated_retirements other ON other.key > one.key AND other.units && one.units AND other.state = 'retired'
JOIN simulated_holdings a ON (a.registry_account, a.id) = (one.registry_account, one.holding_id)
JOIN simulated_holdings b ON (b.registry_account, b.id) = (other.registry_account, other.holding_id)
                         AND b.lot_id = a.lot_id
WHERE one.state = 'retired'
"""


async def check_books(shop: Shop) -> None:
    assert await shop.fetch(DIFFERENCES) == []
    assert await shop.fetch(TWICE) == []
    await shop.check_supply()


async def instructions(shop: Shop) -> list[dict[str, Any]]:
    rows = await shop.fetch("SELECT * FROM registry_instructions ORDER BY recorded_at, id")
    return [dict(row) for row in rows]


async def states(shop: Shop) -> list[tuple[str, int]]:
    return [(each["state"], each["in_doubt"]) for each in await instructions(shop)]


@pytest.fixture(params=[TONNE, KILOGRAM], ids=["sim-key", "sim-holding"])
async def unit(request: pytest.FixtureRequest, trial: Shop) -> int:
    """The size of a unit. Its registry holds a lot of 10 t."""
    await trial.sell("wind", {"A": 1}, granularity=request.param)
    await trial.supply("A", 2020, 10)
    return int(request.param)


async def buy(shop: Shop, buyer: str | Scope, grams: int) -> Order:
    return await shop.buy(await shop.account(buyer) if isinstance(buyer, str) else buyer, grams, "wind")


async def test_many_orders_of_one_beneficiary_are_one_instruction(trial: Shop, unit: int) -> None:
    ada, berta = await trial.account("Ada"), await trial.account("Berta")
    orders = [await trial.buy(buyer, unit, "wind") for buyer in (ada, berta, ada, ada, berta)]
    await trial.work()
    assert await trial.statuses(*orders) == ["complete"] * 5
    found = {each["beneficiary"]: each for each in await instructions(trial)}
    assert {name: (each["state"], each["unit_count"]) for name, each in found.items()} == {
        "Ada": ("retired", 3),
        "Berta": ("retired", 2),
    }
    assert found["Ada"]["reference"].startswith("T-")
    assert await trial.work_list() == []
    await check_books(trial)


async def test_a_registry_that_chooses_the_units_may_retire_those_of_others(trial: Shop, unit: int) -> None:
    """`sim-holding` retires the first five units, of which Berta's is one."""
    ada, berta = await trial.account("Ada"), await trial.account("Berta")
    orders = [
        await trial.buy(buyer, units * unit, "wind") for buyer, units in ((ada, 2), (berta, 1), (ada, 3), (berta, 1))
    ]
    await trial.work()
    assert await trial.statuses(*orders) == ["complete"] * 4
    assert [(each["unit_count"], each["problem"]) for each in await instructions(trial)] == [(5, None), (2, None)]
    await check_books(trial)


async def test_fractions_share_a_unit_that_is_retired_once(trial: Shop, unit: int) -> None:
    orders = [await buy(trial, f"Buyer {number}", unit // 4) for number in range(3)]
    await trial.work()
    later = await buy(trial, "Buyer 4", unit // 4)
    await trial.work()
    assert await trial.statuses(*orders, later) == ["complete"] * 4
    [instruction] = await instructions(trial)
    assert (instruction["unit_count"], instruction["state"]) == (1, "retired")
    await check_books(trial)


@pytest.mark.parametrize(
    ("beneficiary", "first", "wait"),
    [
        ("Registry Doubled", ("retired", 0), timedelta(0)),
        ("Registry Answer Lost", ("asked", 1), timedelta(seconds=10)),
        ("Registry Pending", ("pending", 0), timedelta(seconds=10)),
        ("Registry Late", ("asked", 1), timedelta(seconds=40)),
        ("Registry Lost", ("asked", 1), RESEND_AFTER + timedelta(seconds=10)),
        ("Registry Fewer", ("retired", 0), timedelta(0)),
    ],
)
async def test_what_the_network_does_is_found_out(
    trial: Shop, unit: int, beneficiary: str, first: tuple[str, int], wait: timedelta
) -> None:
    order = await buy(trial, beneficiary, 3 * unit)
    await trial.work()
    assert (await states(trial))[0] == first
    seen = trial.clock.now
    while trial.clock.now - seen < wait:
        trial.clock.advance(seconds=10)
        await trial.services.retire_units.run_once()
    await trial.work()
    assert await trial.statuses(order) == ["complete"]
    await check_books(trial)


async def test_a_refused_beneficiary_goes_to_the_desk(trial: Shop, unit: int) -> None:
    refused, other = await buy(trial, "Registry Declined", 2 * unit), await buy(trial, "Ada", unit)
    await trial.work()
    assert await trial.statuses(refused, other) == ["retiring", "complete"]
    [task] = await trial.work_list()
    assert (task.beneficiary, task.quantity_grams) == ("Registry Declined", 2 * unit)
    note = await trial.fetchval("SELECT DISTINCT desk_note FROM parcels WHERE desk_note IS NOT NULL")
    assert note.endswith("refused it: The beneficiary is not accepted.")
    await trial.confirm(task)
    await trial.work()
    assert await trial.statuses(refused) == ["complete"]


@pytest.mark.parametrize("beneficiary", ["Registry Insufficient", "Registry Pending Rejected"])
async def test_refusals_about_units(trial: Shop, unit: int, beneficiary: str) -> None:
    order = await buy(trial, beneficiary, 2 * unit)
    await trial.work()
    trial.clock.advance(seconds=10)
    await trial.work()
    assert await trial.statuses(order) == ["retiring"]
    paused = await trial.fetchval("SELECT count(*) FROM lots WHERE paused_at IS NOT NULL")
    on_desk = len(await trial.work_list())
    # Too few units contradict the books; a rejected retirement does not.
    assert (paused, on_desk) == ((1, 0) if beneficiary == "Registry Insufficient" else (0, 1))
    other = await buy(trial, "Ada", unit)
    await trial.work()
    assert await trial.statuses(other) == ["complete"], "other lots supply"
    await check_books(trial)


async def test_a_registry_that_serves_nothing_is_asked_again(trial: Shop, unit: int) -> None:
    await buy(trial, "Registry Busy", unit)
    await trial.work()
    assert await states(trial) == [("recorded", 0)]
    for _ in range(3):
        trial.clock.advance(minutes=2)
        await trial.work()
    assert await states(trial) == [("recorded", 0)]
    assert (await instructions(trial))[0]["problem"] == "Too many requests."


class Killed(BaseException):
    """As if the worker had been killed."""


@pytest.mark.parametrize("step", ["before the request", "after the request", "while booking"])
async def test_a_killed_worker_never_retires_twice(
    trial: Shop, unit: int, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await buy(trial, "Ada", 3 * unit)
    await trial.services.allocate_orders.run_once()
    retire = SimulatedRegistry.retire

    async def killed(self: SimulatedRegistry, instruction: Any) -> Any:
        if step != "before the request":
            await retire(self, instruction)
        raise Killed

    async def killed_booking(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if step == "while booking":
            patch.setattr("tonne.supply.registries.retire_units.book_answers", killed_booking)
        else:
            patch.setattr(SimulatedRegistry, "retire", killed)
        with pytest.raises(Killed):
            await trial.services.retire_units.run_once()
    assert await states(trial) == [("asked", 1)]
    assert await trial.services.retire_units.run_once() is False, "the lease of the worker that was killed holds"
    for _ in range(30):
        trial.clock.advance(seconds=LEASE.total_seconds())
        await trial.work()
    assert await trial.statuses(order) == ["complete"]
    assert await trial.fetchval("SELECT count(*) FROM simulated_retirements") == 1
    await check_books(trial)


async def test_workers_at_once_ask_once(trial: Shop, unit: int) -> None:
    ada, berta = await trial.account("Ada"), await trial.account("Berta")
    orders = [await trial.buy(buyer, unit, "wind") for buyer in (ada, berta) * 3]
    await trial.services.allocate_orders.run_once()
    meet = asyncio.Barrier(4)

    async def work() -> None:
        await meet.wait()
        for _ in range(10):
            await trial.services.retire_units.run_once()

    await asyncio.gather(*(work() for _ in range(4)))
    await trial.work()
    assert await trial.statuses(*orders) == ["complete"] * 6
    await check_books(trial)


async def test_a_holding_has_one_open_instruction(trial: Shop, unit: int) -> None:
    await buy(trial, "Registry Pending", unit)
    await trial.work()
    with pytest.raises(asyncpg.UniqueViolationError, match="registry_instructions_open"):
        await trial.execute(
            'INSERT INTO registry_instructions SELECT (jsonb_populate_record(each, \'{"id": "x", '
            '"reference": "y"}\')).* FROM registry_instructions each'
        )


async def test_what_the_registry_is_asked_for_cannot_change(trial: Shop, unit: int) -> None:
    order = await buy(trial, "Registry Pending", unit)
    await trial.work()
    [parcel] = await trial.fetch("SELECT id FROM parcels")
    line = f"{parcel['id']},test-A-1 101,2026-03-01,https://registry.verra.org/1"
    with pytest.raises(SheetInvalid, match="the registry is being asked to retire the parcel"):
        await trial.confirm_file(["parcel_id,serial,retired_on,retirement_url", line])
    name = Beneficiary("Another", BeneficiaryKind.ORGANISATION)
    rename = partial(rename_order, reason="A typo", settings=trial.settings, by=TESTER.at(trial.clock.now))
    with pytest.raises(TransitionInvalid, match="The registry is being asked"):
        await trial.database.commit(rename, order.scope, order.id, name)


ROUND_THE_CHECK = (
    "UPDATE registry_accounts SET mode = 'live' WHERE id = 'sim-key'",
    "INSERT INTO registry_accounts VALUES ('other', 'live', 'simulated')",
    "INSERT INTO registry_accounts VALUES ('sim-other', 'live', 'simulated')",
    "UPDATE lots SET registry_account = 'sim-key', holding_id = id WHERE mode = 'live'",
    "UPDATE registry_instructions SET mode = 'live'",
    "UPDATE registry_instructions SET mode = 'live', lot_id = (SELECT id FROM lots WHERE mode = 'live' LIMIT 1)",
    "UPDATE registry_accounts SET id = 'live-key'",
    "INSERT INTO registry_accounts (id, mode, adapter) VALUES ('isometric', 'live', 'simulated')",
    "UPDATE registry_accounts SET adapter = 'isometric' WHERE id = 'sim-key'",
    "UPDATE parcels SET instruction_id = (SELECT id FROM registry_instructions LIMIT 1) WHERE mode = 'live'",
    "UPDATE parcels SET mode = 'live' WHERE mode = 'test'",
    "UPDATE lots SET mode = 'live' WHERE mode = 'test'",
)
# As a restore does it that does not check foreign keys. What connects the modes by these alone is left out.
RESTORED = ROUND_THE_CHECK[:6]


async def test_live_credits_never_reach_a_simulated_registry(live: Shop, trial: Shop) -> None:
    for shop in (live, trial):
        await shop.sell("wind", {"A": 1})
        await shop.supply("A", 2020, 10)
    for shop in (live, trial):
        await buy(shop, "Registry Pending", TONNE)
        await shop.work()
    assert [each["mode"] for each in await instructions(live)] == ["test"]
    [task] = await live.work_list()
    assert task.beneficiary == "Registry Pending", "without a registry, live lots go to the desk"
    for sql in ROUND_THE_CHECK:
        with pytest.raises(asyncpg.IntegrityConstraintViolationError):
            await live.execute(sql)
    for sql in RESTORED:
        with pytest.raises(asyncpg.CheckViolationError):
            await live.execute(f"SET LOCAL session_replication_role = replica; {sql}")
    files = live.lot_file("A", 2021, 5)
    for column, value in (("registry_account", "sim-key"), ("holding_id", "lot_x")):
        [head, line] = files[FileKind.LOTS]
        with pytest.raises(SheetInvalid, match=column):
            await live.import_files({FileKind.LOTS: [f"{head},{column}", f"{line},{value}"]})
    asked = Instruction(
        mode=Mode.LIVE,
        id="rin_1",
        registry_account="sim-key",
        lot_id="lot",
        holding_id="lot",
        units=((1, 2),),
        beneficiary="Ada",
        reference="T-1",
    )
    answer = await SimulatedRegistry(live.database, "sim-key", Repeat.KEY, live.clock).retire(asked)
    assert answer.outcome is Outcome.UNAVAILABLE


async def test_allocation_never_waits_for_a_parcel_that_waits_for_a_lot(trial: Shop, unit: int) -> None:
    """Lots are locked before parcels."""
    await buy(trial, "Ada", unit)
    await trial.services.allocate_orders.run_once()
    async with trial.database.transaction() as tx:
        await tx.execute("SELECT id FROM lots FOR UPDATE")
        retiring = asyncio.create_task(trial.services.retire_units.run_once())
        if unit == TONNE:
            assert await asyncio.wait_for(retiring, 10)
        else:
            # The lot gets another holding.
            await trial.until_waiting_for_lock()
        await tx.execute("SELECT id FROM parcels FOR UPDATE NOWAIT")
    assert await retiring
    await check_books(trial)


@pytest.mark.parametrize("others", [(), ("Ada",), ("Ada", "Registry Other Serials")])
async def test_a_registry_may_retire_units_of_the_free_end(trial: Shop, unit: int, others: tuple[str, ...]) -> None:
    """The lot is cut there: its parcels and free units stay where they are."""
    names = ("Registry Other Serials", *others)
    orders = [await buy(trial, name, 2 * unit) for name in names]
    await trial.work()
    later = await buy(trial, "Berta", 3 * unit)
    await trial.work()
    assert await trial.statuses(*orders, later) == ["complete"] * (len(orders) + 1)
    assert [each["problem"] for each in await instructions(trial)] == [None] * len(await instructions(trial))
    rows = await trial.fetch(
        "SELECT lot.last_number - lot.first_number + 1 AS units FROM lots lot JOIN projects project "
        "ON project.mode = lot.mode AND project.id = lot.project_id "
        "WHERE lot.mode = 'test' AND project.registry_project_id = 'A'"
    )
    assert sum(row["units"] for row in rows) == 10 * TONNE // unit
    assert len(rows) > 1
    await check_books(trial)
    for _ in range(3):
        trial.clock.advance(minutes=6)
        await trial.services.check_registries.run_once()
    assert await trial.fetch("SELECT * FROM registry_drifts") == []


async def test_a_holding_of_which_the_first_unit_stays_is_split_again(trial: Shop, unit: int) -> None:
    """Found by the kill test: what was left had the id of what was left before."""
    for name in ("Registry Other Serials", "Registry Pending Rejected", "Registry Other Serials"):
        order = await buy(trial, name, 2 * unit)
        await trial.work()
        trial.clock.advance(seconds=10)
        await trial.work()
        assert await trial.statuses(order) == ["retiring" if name.endswith("Rejected") else "complete"]
    await check_books(trial)


async def test_a_parcel_that_is_split_off_does_not_hold_up_answers(trial: Shop, unit: int) -> None:
    """Found by the kill test: two workers with answers to the same requests waited for each other."""
    await buy(trial, "Registry Busy", unit)
    await trial.work()
    [request] = await instructions(trial)
    async with trial.database.transaction() as splitting, trial.database.transaction() as tx:
        # What the foreign key of a new parcel locks.
        await splitting.execute("SELECT id FROM registry_instructions FOR KEY SHARE")
        await tx.execute("SET LOCAL lock_timeout = '2s'")
        assert await instruction_store.lock(tx, request["id"]) is not None


async def test_a_retirement_does_not_read_the_retired_parcels_of_its_lot(trial: Shop) -> None:
    """A lot may have a hundred thousand of them."""
    vintage = [["prj_a"], [2024]]
    async with trial.database.transaction() as tx:
        # Reading all rows is made expensive, as it is with many.
        await tx.execute("SET LOCAL enable_seqscan = off")
        plan = await tx.fetch(f"EXPLAIN {LOCK_PARCELS}", "test", ["par_a"], *vintage, [], [], [])
    assert "parcels_unretired" in "\n".join(line[0] for line in plan)
