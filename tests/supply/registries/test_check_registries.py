"""Registries that contradict the books are noticed, and nothing else is."""

import pytest

from tests.supply.registries.test_retire_units import buy
from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.command import Operator
from tonne.supply.registries.account_store import LotBooks
from tonne.supply.registries.check_registries import compare
from tonne.supply.registries.gateway import Holding


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
    assert reason.endswith("has 1 units fewer than the books.")
    [drift] = await trial.fetch("SELECT * FROM registry_drifts")
    assert (drift["units"], drift["confirmed_at"] is not None) == (1, True)
    order = await buy(trial, "Ada", unit)
    await trial.work()
    vintage = "SELECT lot.vintage FROM shares JOIN parcels ON parcels.id = parcel_id JOIN lots lot ON lot.id = lot_id "
    assert await trial.fetchval(vintage + "WHERE order_id = $1", order.id) == 2021, "the other lot supplies it"

    assert operator.runs("registry", "settle", drift["lot_id"], "--explained", "--reason", "A gift").returncode == 0
    assert await paused(trial) == []
    await look_for(trial, 15)
    assert await paused(trial) == [], "an explained difference is expected"


async def test_nothing_is_noticed_in_a_day_without_a_difference(trial: Shop, unit: int) -> None:
    names = ("Ada", "Registry Pending", "Registry Answer Lost", "Registry Late", "Registry Fewer", "Registry Busy")
    buyers = [await trial.account(name) for name in names]
    for hour in range(24):
        await buy(trial, buyers[hour % len(buyers)], unit if hour % 2 else unit // 4)
        for _ in range(6):
            trial.clock.advance(minutes=10)
            await trial.services.allocate_orders.run_once()
            await trial.services.retire_units.run_once()
            await trial.services.check_registries.run_once()
    assert await trial.fetch("SELECT * FROM registry_drifts WHERE confirmed_at IS NOT NULL") == []
    assert await paused(trial) == []


def test_an_open_request_explains_exactly_its_units() -> None:
    def books(asked: int, **changes: int) -> list[LotBooks]:
        facts = {"unit_grams": TONNE, "here_units": 10, "asked_units": asked, "explained_units": 0} | changes
        return [LotBooks("lot", "h", is_moving=False, **facts)]

    def there(count: int) -> list[Holding]:
        return [Holding("h", "lot", ((1, count),))]

    assert compare(books(0), there(10)) == {}
    assert compare(books(3), there(7)) == compare(books(3), there(10)) == {}
    assert compare(books(3), there(8)) == {"lot": 2}
    assert compare(books(0), there(12)) == {"lot": -2}
    assert compare(books(0, explained_units=1), there(9)) == {}
    assert compare(books(0), []) == {"lot": 10}


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
