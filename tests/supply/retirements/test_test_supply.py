"""Test supply does not run out for anybody, except for an account that asks for it."""

import asyncio
from typing import Any

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.supply.retirements.test_endpoints import pay, simulate
from tests.support.api_client import ApiClient, codes
from tonne.apps.wiring.app import Services
from tonne.platform.values.amounts import MAX_GRAMS
from tonne.platform.values.context import Mode

LOTS = """
SELECT lot.serial, lot.first_number, lot.last_number, lot.vintage FROM lots lot
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE lot.mode = 'test' AND project.registry_project_id = $1 ORDER BY lot.id
"""


async def test_security_5_nobody_can_empty_the_test_supply(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1, "B": 2})
    await trial.supply("A", 2020, 10)
    ann = await trial.account("Ann")
    # One customer buys the largest quantities there are, each more than all test lots have.
    large = [await trial.buy(ann, MAX_GRAMS, "wind") for _ in range(12)]
    await trial.work()
    assert await trial.statuses(*large) == ["complete"] * 12
    # Another organisation notices nothing.
    other = await trial.account("Other", of=trial.world.theirs_test.scope)
    order = await trial.buy(other, 100 * TONNE + 300, "wind")
    assert order.lines[0].insufficient_available_quantity is False
    await trial.work()
    assert await trial.statuses(order) == ["complete"]
    bundle = (await trial.services.catalogues.current(Mode.TEST)).bundles[trial.bundle_id("wind")]
    assert bundle.free_grams == MAX_GRAMS
    await trial.check_invariants()


async def test_added_lots_continue_the_serial_numbers_of_a_block_of_their_own(trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2019, 3)
    ann = await trial.account("Ann")
    order = await trial.buy(ann, 5 * TONNE, "wind")
    await trial.work()
    [large] = [await trial.buy(ann, 1_000_001 * TONNE, "wind")]
    await trial.work()
    found = [tuple(row) for row in await trial.fetch(LOTS, "A")]
    assert found == [
        ("test-A-1 101–103", 101, 103, 2019),
        ("TEST-A-2019 1–1000000", 1, 1_000_000, 2019),
        ("TEST-A-2019 1000001–2000000", 1_000_001, 2_000_000, 2019),
    ]
    lines = (await trial.certificate(order))["lines"]
    assert [(line["serial_range"], line["quantity"], line["vintage"]) for line in lines] == [
        ("test-A-1 101–103", "3", "2019"),
        ("TEST-A-2019 1–2", "2", "2019"),
    ]
    facts = {(line["country"], line["methodology"], line["registry"]) for line in lines}
    assert facts == {("Kenya", "ACM2", "Our Registry")}
    [first, second] = (await trial.certificate(large))["lines"]
    assert (first["serial_range"], second["serial_range"]) == ("TEST-A-2019 3–1000000", "TEST-A-2019 1000001–1000003")
    await trial.check_invariants()


async def test_a_project_without_lots_is_supplied(trial: Shop) -> None:
    await trial.sell("air", {"K": 1}, granularity=KILOGRAM)
    order = await trial.buy(await trial.account("Ann"), 1_500, "air")
    await trial.work()
    [line, _] = (await trial.certificate(order))["lines"]
    assert line["serial_range"] == "TEST-K-2025 1"
    await trial.check_invariants()


async def test_workers_that_add_lots_at_the_same_time_do_not_collide(
    trial: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.supply.retirements.allocate_orders.BATCH", 1)
    await trial.sell("one", {"A": 1})
    await trial.sell("two", {"A": 1})
    ann = await trial.account("Ann")
    orders = [await trial.buy(ann, MAX_GRAMS, "one" if number % 2 else "two") for number in range(12)]
    meet = asyncio.Barrier(4)

    async def work() -> None:
        services = Services(trial.database, trial.services.settings, clock=trial.clock)
        await meet.wait()
        while await services.allocate_orders.run_once():
            pass

    await asyncio.gather(*(work() for _ in range(4)))
    await trial.work()
    assert await trial.statuses(*orders) == ["complete"] * 12
    await trial.check_invariants()


async def flags(api: ApiClient, amount: str, bundle_id: str) -> dict[str, Any]:
    body = {"mass": {"amount": amount, "unit": "t"}, "bundle_selection": [{"bundle_id": bundle_id}]}
    quote = (await api.post("/v1/orders/by-mass/quote", body)).json()
    order = await api.order(**body)
    [flag] = [line["insufficient_available_quantity"] for line in order["bundles"]]
    assert [line["insufficient_available_quantity"] for line in quote["bundles"]] == [flag]
    return {"id": order["id"], "short": flag}


async def test_an_account_can_simulate_short_supply(api: ApiClient, trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    bundle_id, scope = trial.bundle_id("wind"), trial.world.ours_test.scope
    await simulate(api, "2.5")
    assert (await api.get(f"/v1/bundles/{bundle_id}")).json()["available_quantity"] == "2.5"
    small, large = await flags(api, "2.5", bundle_id), await flags(api, "2.500001", bundle_id)
    assert (small["short"], large["short"]) == (False, True)
    theirs = api.as_key(trial.world.theirs_test.key)
    assert (await flags(theirs, "3", bundle_id))["short"] is False
    for each in (large, small):
        await pay(trial, scope, each["id"])

    async def statuses() -> list[str]:
        return [(await api.get(f"/v1/orders/{each['id']}")).json()["status"] for each in (small, large)]

    await trial.work()
    assert await statuses() == ["complete", "paid"]
    await simulate(api, "3")
    await trial.work()
    assert await statuses() == ["complete", "complete"]
    await simulate(api, "0")
    assert (await flags(api, "0.000001", bundle_id))["short"] is True
    await simulate(api, None)
    assert (await flags(api, "100000", bundle_id))["short"] is False


async def test_the_helper_refuses_live_keys_and_invalid_quantities(api: ApiClient, trial: Shop) -> None:
    path, live = "/v1/test-helpers/supply", api.as_key(trial.world.ours_live.key)
    answer = await live.http.put(path, json={"available_quantity": "1"}, headers=live._headers({}))
    assert (answer.status_code, codes(answer)) == (404, ["route_not_found"])
    for body in ({"available_quantity": "-1"}, {"available_quantity": "many"}, {"available": "1"}):
        answer = await api.http.put(path, json=body, headers=api._headers({}))
        assert (answer.status_code, set(codes(answer))) == (400, {"validation_error"})
    answer = await api.http.put(path, json={"available_quantity": "999999999999"}, headers=api._headers({}))
    assert answer.json() == {"available_quantity": "100000000"}
    answer = await api.http.put(path, json={}, headers=api._headers({}))
    assert answer.json() == {"available_quantity": None}
