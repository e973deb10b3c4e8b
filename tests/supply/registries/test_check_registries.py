"""Registries that contradict the books are noticed, and nothing else is."""

import asyncio
from typing import Any

import pytest

from tests.supply.registries.test_retire_units import buy
from tests.supply.retirements.shop import KILOGRAM, REGISTRIES, TONNE, Shop
from tests.support.command import Operator
from tests.support.rounds import IS_LONG
from tonne.platform.values.context import Mode, replace
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.registries import simulated_store
from tonne.supply.registries.account_store import LotBooks
from tonne.supply.registries.compare_books import compare, expected_balance
from tonne.supply.registries.gateway import Answer, Holding, Instruction, NotRead
from tonne.supply.registries.simulated import SimulatedRegistry
from tonne.supply.stock.vintages import load_vintages_any_account


@pytest.fixture(params=[TONNE, KILOGRAM], ids=["sim-key", "sim-holding"])
async def unit(request: pytest.FixtureRequest, trial: Shop) -> int:
    await trial.sell("wind", {"A": 1}, granularity=request.param)
    await trial.supply("A", 2020, 10)
    await trial.supply("A", 2021, 10)
    return int(request.param)


async def look_for(shop: Shop, minutes: int) -> None:
    for _ in range(minutes):
        shop.clock.advance(minutes=1)
        await shop.work()
        await shop.services.check_registries.run_once()


async def paused(shop: Shop) -> list[str]:
    return [
        row["pause_reason"] for row in await shop.fetch("SELECT pause_reason FROM lots WHERE paused_at IS NOT NULL")
    ]


async def test_a_unit_that_somebody_else_retires_pauses_its_lot_within_15_minutes(
    trial: Shop, unit: int, operator: Operator
) -> None:
    await buy(trial, "Registry Drift", 2 * unit)
    await look_for(trial, 15)
    [reason] = await paused(trial)
    assert reason.endswith("has 1 unit fewer than the books.")
    [drift] = await trial.fetch("SELECT * FROM registry_drifts")
    assert (drift["units"], drift["confirmed_at"] is not None) == (1, True)
    async with trial.database.connection() as connection:
        offers = await load_vintages_any_account(connection, Mode.TEST)
    offered = offers[await trial.fetchval("SELECT project_id FROM lots WHERE id = $1", drift["lot_id"])]
    assert [bool(each.free_grams) for each in offered] == [False, True], "customers are not offered what is paused"
    order = await buy(trial, "Ada", unit)
    await trial.work()
    vintage = "SELECT lot.vintage FROM shares JOIN parcels ON parcels.id = parcel_id JOIN lots lot ON lot.id = lot_id "
    assert await trial.fetchval(vintage + "WHERE order_id = $1", order.id) == 2021, "the other lot supplies it"

    assert operator.runs("registry", "settle", drift["lot_id"], "--explained", "--reason", "A gift").returncode == 0
    assert await paused(trial) == []
    await look_for(trial, 15)
    assert await paused(trial) == [], "an explained difference is expected"


async def test_nothing_is_noticed_in_a_day_without_a_difference(trial: Shop, unit: int) -> None:
    """Of three hours, and of a whole day in `make test-random`."""
    names = ("Ada", "Registry Pending", "Registry Answer Lost", "Registry Late", "Registry Fewer", "Registry Busy")
    buyers = [await trial.account(name) for name in names]
    for hour in range(24 if IS_LONG else 3):
        first = 2 * hour % len(buyers)
        for buyer in buyers[first : first + 2]:
            await buy(trial, buyer, unit if hour % 2 else unit // 4)
        for _ in range(12):
            trial.clock.advance(minutes=5)
            await trial.services.allocate_orders.run_once()
            await trial.services.retire_units.run_once()
            await trial.services.check_registries.run_once()
            assert await trial.fetch("SELECT * FROM registry_drifts WHERE confirmed_at IS NOT NULL") == []
    assert await paused(trial) == []


async def test_nothing_is_noticed_while_500_lots_have_open_requests(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    [heads, _] = trial.lot_file("A", 2020, 2)[FileKind.LOTS]
    lots = [f"{REGISTRIES[TONNE]},A,2020,test-{number},1,2,held,," for number in range(500)]
    await trial.import_files({FileKind.LOTS: [heads, *lots]})
    names = ("Registry Pending", "Registry Answer Lost", "Registry Late", "Registry Lost")
    orders = [await buy(trial, name, 250 * TONNE) for name in names]
    await trial.services.allocate_orders.run_once()
    most = 0
    for _ in range(6):
        for _ in range(5):
            await trial.services.retire_units.run_once()
        most = max(most, await trial.fetchval("SELECT count(*) FROM registry_instructions WHERE closed_at IS NULL"))
        await trial.services.check_registries.run_once()
        assert await trial.fetch("SELECT * FROM registry_drifts") == []
        trial.clock.advance(minutes=5)
    assert most == 500
    await trial.work()
    assert await trial.statuses(*orders) == ["complete"] * 4


async def audited(shop: Shop) -> list[str]:
    """What the worker has done at a registry that people should be able to find."""
    rows = await shop.fetch("SELECT action FROM audit_log WHERE actor = 'system:retire_units' ORDER BY id")
    return [row["action"] for row in rows]


async def retire_there(shop: Shop, lot_id: str, first: int, last: int) -> None:
    """Somebody does at the registry, without a request of ours."""
    units = f"{{[{first},{last}]}}"
    await shop.execute(
        "INSERT INTO simulated_retirements (registry_account, key, reference, holding_id, units, beneficiary, state, "
        "created_at) SELECT registry_account, $1 || $2, '', id, $2::text::int8multirange, 'Somebody else', 'retired', "
        "$3::timestamptz FROM simulated_holdings WHERE lot_id = $1",
        lot_id,
        units,
        shop.clock.now,
    )
    taken = "UPDATE simulated_holdings SET active = active - $2::text::int8multirange WHERE lot_id = $1"
    await shop.execute(taken, lot_id, units)


async def test_a_lot_is_paused_before_its_account_is_locked(trial: Shop, unit: int) -> None:
    """Found by the kill test: what books answers has locked lots when it comes to accounts."""
    await buy(trial, "Ada", unit)
    await trial.work()
    lot_id = await trial.fetchval("SELECT min(lot_id) FROM simulated_holdings WHERE NOT is_used")
    await trial.execute("UPDATE simulated_holdings SET active = active - int8multirange(int8range(110, 111))")
    trial.clock.advance(minutes=5)
    await trial.services.check_registries.run_once()
    trial.clock.advance(minutes=5)
    async with trial.database.transaction() as tx:
        await tx.execute("SELECT id FROM lots FOR NO KEY UPDATE")
        looking = asyncio.create_task(trial.services.check_registries.run_once())
        await trial.until_waiting_for_lock()
        await tx.execute("SELECT id FROM registry_accounts FOR NO KEY UPDATE NOWAIT")
    assert await looking
    assert await trial.fetchval("SELECT paused_at IS NOT NULL FROM lots WHERE id = $1", lot_id)


def books(asked: int = 0, **changes: int) -> list[LotBooks]:
    facts = {"here_units": 10, "asked_units": asked, "desk_units": 0, "explained_units": 0} | changes
    return [LotBooks(lot_id="lot", holding_id="h", is_moving=False, is_invalid=False, **facts)]


def there(count: int, holding_id: str = "h") -> list[Holding]:
    return [Holding(holding_id, "lot", ((1, count),))]


def differing(lots: list[LotBooks], holdings: list[Holding]) -> dict[str, int]:
    return {each.subject_id: each.units for each in compare(lots, holdings)}


def test_an_open_request_explains_exactly_its_units() -> None:
    assert differing(books(), there(10)) == {}
    assert differing(books(3), there(7)) == differing(books(3), there(10)) == {}
    assert differing(books(3), there(8)) == {"lot": 2}
    assert differing(books(), there(12)) == {"lot": -2}
    assert differing(books(explained_units=1), there(9)) == {}
    assert differing(books(), []) == {"lot": 10}


def test_units_at_the_desk_may_be_retired_one_by_one() -> None:
    assert [differing(books(desk_units=2), there(count)) for count in (10, 9, 8)] == [{}] * 3
    assert differing(books(desk_units=2), there(7)) == {"lot": 3}
    assert differing(books(3, desk_units=1), there(6)) == {}


def test_what_a_request_has_split_off_belongs_to_its_lot() -> None:
    assert differing(books(3), there(7, "child")) == {}
    assert differing(books(), there(7, "child")) == {"lot": 10, "child": -7}


def test_a_balance_is_compared_only_while_nothing_is_under_way() -> None:
    assert expected_balance(books(explained_units=1), {"x": -4}) == 13
    assert [expected_balance(books(**{name: 1}), {}) for name in ("asked", "desk_units")] == [None, None]


async def look_ups(shop: Shop, hours: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The accounts whose holdings were compared in so many hours."""
    seen: list[str] = []
    list_holdings = SimulatedRegistry.list_holdings
    read_balance = SimulatedRegistry.read_balance

    async def counted(self: SimulatedRegistry) -> Any:
        seen.append(self._account)
        return await list_holdings(self)

    async def balance(self: SimulatedRegistry) -> int:
        count = len(seen)
        total = await read_balance(self)
        del seen[count:]
        return total

    monkeypatch.setattr(SimulatedRegistry, "list_holdings", counted)
    monkeypatch.setattr(SimulatedRegistry, "read_balance", balance)
    for _ in range(hours * 6):
        shop.clock.advance(minutes=10)
        await shop.services.check_registries.run_once()
    return seen


async def test_holdings_are_compared_daily_and_when_the_balance_differs(
    trial: Shop, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = "sim-key" if unit == TONNE else "sim-holding"
    await buy(trial, "Ada", unit)
    await trial.work()
    trial.clock.advance(minutes=10)
    await trial.services.check_registries.run_once()
    assert await look_ups(trial, 12, monkeypatch) == []
    lot_id = await trial.fetchval("SELECT id FROM lots WHERE vintage = 2021 AND registry_account = $1", account)
    await retire_there(trial, lot_id, 101, 101)
    assert account in await look_ups(trial, 1, monkeypatch)
    [reason] = await paused(trial)
    assert reason == f"{account} has 1 unit fewer than the books."


async def test_what_no_lot_has_is_a_difference_until_it_is_imported_or_explained(
    trial: Shop, unit: int, operator: Operator
) -> None:
    account = "sim-key" if unit == TONNE else "sim-holding"
    await buy(trial, "Ada", unit)
    await trial.work()
    await trial.execute(
        "INSERT INTO simulated_holdings SELECT $1, 'extra', min(lot_id), '{[1,5]}' FROM simulated_holdings "
        "WHERE registry_account = $1",
        account,
    )
    await look_for(trial, 15)
    [drift] = await trial.fetch("SELECT * FROM registry_drifts")
    assert (drift["cause"], drift["holding_id"], drift["units"], drift["unit_grams"]) == ("surplus", "extra", -5, unit)
    assert await paused(trial) == [], "no lot is concerned"
    assert "extra" in operator.runs("registry", "differences").stdout
    settled = operator.runs("registry", "settle", drift["id"], "--explained", "--reason", "For ourselves")
    assert settled.returncode == 0
    await look_for(trial, 15)
    assert await trial.fetchval("SELECT count(*) FROM registry_drifts WHERE closed_at IS NULL") == 0
    await trial.execute("UPDATE simulated_holdings SET active = '{[1,7]}' WHERE id = 'extra'")
    await look_for(trial, 15)
    assert await trial.fetchval("SELECT units FROM registry_drifts WHERE closed_at IS NULL") == -2
    await trial.execute("DELETE FROM simulated_holdings WHERE id = 'extra'")
    await look_for(trial, 5)
    assert await trial.fetchval("SELECT count(*) FROM registry_drifts WHERE closed_at IS NULL") == 0, "it is gone"


async def test_a_refusal_that_contradicts_the_books_is_a_difference(trial: Shop, unit: int, operator: Operator) -> None:
    await buy(trial, "Registry Insufficient", 2 * unit)
    await trial.work()
    [drift] = await trial.fetch("SELECT * FROM registry_drifts")
    assert (drift["cause"], drift["units"], drift["confirmed_at"] is not None) == ("refused", 2, True)
    assert await audited(trial) == ["registry_request.refused", "lot.paused"]
    assert operator.runs("registry", "settle", drift["id"], "--corrected", "--reason", "Bought more").returncode == 0
    assert await paused(trial) == []


async def test_more_units_than_were_asked_for_pause_the_lot(
    trial: Shop, unit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    retire = SimulatedRegistry.retire

    async def retire_more(self: SimulatedRegistry, asked: Instruction) -> Answer:
        answer = await retire(self, asked)
        return replace(answer, units=(*answer.units, (150, 151)))

    monkeypatch.setattr(SimulatedRegistry, "retire", retire_more)
    await buy(trial, "Ada", 2 * unit)
    await trial.work()
    assert await audited(trial) == ["lot.paused"]
    [reason] = await paused(trial)
    assert "has retired 2 units more than T-" in reason


async def test_units_of_an_invalid_lot_that_are_retired_after_all_are_a_difference(trial: Shop, unit: int) -> None:
    await buy(trial, "Registry Pending", 2 * unit)
    await trial.work()
    [request] = await trial.fetch("SELECT lot_id FROM registry_instructions")
    await trial.invalidate(request["lot_id"], "Sold twice")
    for _ in range(3):
        trial.clock.advance(seconds=30)
        await trial.work()
    [drift] = await trial.fetch("SELECT * FROM registry_drifts")
    assert (drift["cause"], drift["lot_id"], drift["units"]) == ("invalid", request["lot_id"], 2)
    await look_for(trial, 15)
    assert await trial.fetchval("SELECT count(*) FROM registry_drifts") == 1, "what an invalid lot has does not matter"


async def test_what_a_person_retires_at_the_registry_is_no_difference(trial: Shop, unit: int) -> None:
    order = await buy(trial, "Registry Declined", 2 * unit)
    await trial.work()
    [task] = await trial.work_list()
    await retire_there(trial, task.lot_id, task.first_number, task.last_number)
    await look_for(trial, 15)
    assert await paused(trial) == []
    await trial.confirm(task)
    await look_for(trial, 15)
    assert await trial.statuses(order) == ["complete"]
    assert await paused(trial) == []


async def test_the_operator_sees_accounts_and_requests(trial: Shop, unit: int, operator: Operator) -> None:
    await buy(trial, "Registry Pending", unit)
    await trial.work()
    account = "sim-key" if unit == TONNE else "sim-holding"
    await trial.services.check_registries.run_once()
    assert account in operator.runs("registry", "list").stdout
    [request] = await trial.fetch("SELECT id, reference FROM registry_instructions")
    assert "pending" in operator.runs("registry", "requests").stdout
    assert request["reference"] in operator.runs("registry", "show", request["id"]).stdout
    assert operator.runs("registry", "retry", request["id"]).returncode == 0
    assert operator.runs("registry", "check", account).returncode == 0
    await trial.work()
    refused = operator.runs("registry", "retry", request["id"])
    assert (refused.returncode, "No request" in refused.stderr) == (2, True)
    assert operator.runs("registry", "settle", "lot_x", "--corrected", "--reason", "x").returncode == 2


def shown(shop: Shop) -> dict[str, float]:
    """The metrics of the account that the shop uses."""
    found = [each.snapshot() for each in shop.services.check_registries.metrics]
    return {each.name.removeprefix("tonne_registry_"): max(max(values) for _, values in each.series) for each in found}


async def test_metrics_say_what_is_late(trial: Shop, unit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def not_read(_: SimulatedRegistry) -> int:
        raise NotRead("The token has expired.")

    await buy(trial, "Registry Lost", unit)
    await trial.work()
    await trial.services.check_registries.run_once()
    assert shown(trial)["last_look_seconds"] == 0
    monkeypatch.setattr(SimulatedRegistry, "read_balance", not_read)
    for _ in range(7):
        trial.clock.advance(minutes=1)
        await trial.services.check_registries.run_once()
    found = shown(trial)
    assert {found["in_doubt_seconds"] // 60, found["last_look_seconds"] // 60, found["waiting_seconds"] // 60} == {7}
    await trial.execute("UPDATE registry_accounts SET looked_at = NULL")
    trial.clock.advance(minutes=5)
    await trial.services.check_registries.run_once()
    assert shown(trial)["last_look_seconds"] == float("inf")
    assert await trial.fetchval("SELECT DISTINCT problem FROM registry_accounts") == "The token has expired."


async def test_a_look_does_not_deposit_what_is_retired_at_the_same_time(trial: Shop, unit: int) -> None:
    """Found by the kill test: the simulated registry then had units that it had retired."""
    account, lot = "sim-key" if unit == TONNE else "sim-holding", await trial.fetchval("SELECT max(id) FROM lots")
    async with trial.database.transaction() as tx:
        await simulated_store.deposit(tx, account, lot)
        looking = asyncio.create_task(trial.database.commit(simulated_store.deposit, account, None))
        await trial.until_waiting_for_lock()
        await simulated_store.use(tx, account, lot, ((101, 101),), splits=False)
        await tx.execute(
            "INSERT INTO simulated_retirements SELECT $1, 'rin_1', 'T-1', $2, '{[101,101]}', 'Ada', 'retired', NULL, "
            "NULL, NULL, $3::timestamptz",
            account,
            lot,
            trial.clock.now,
        )
    await looking
    active = await trial.fetchval("SELECT lower(active) FROM simulated_holdings WHERE id = $1", lot)
    assert active == 102
