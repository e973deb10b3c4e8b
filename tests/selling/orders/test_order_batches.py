"""Batches of orders: each is placed or refused on its own."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db import group_commit
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.placing.place_orders import PlaceOrders

BATCH = "/v1/orders/batch"
TONNE = {"mass": {"amount": "1", "unit": "t"}}


async def results(api: ApiClient, body: Any) -> list[dict[str, Any]]:
    answer = await api.post(BATCH, body)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_orders_of_all_kinds_are_placed_and_bad_ones_spoil_nothing(
    api: ApiClient, services: Services, world: World
) -> None:
    earlier = await api.order(idempotency_key="earlier")
    first = next(iter(world.bundles_test.values()))
    orders: list[Any] = [
        {"estimate_id": await api.estimate(), "idempotency_key": "own"},
        {**TONNE, "metadata": {"n": 1.50}},
        {"value": "20.00", "beneficiary": {"name": "Fjord Bakery AS"}},
        {"bundle_masses": [{"bundle_id": first, **TONNE}]},
        {"estimate_id": "est_x"},
        {**TONNE, "mas": 1},
        {},
        "order",
        None,
        {**TONNE, "bundle_selection": [{"bundle_id": "bun_x"}]},
        {**TONNE, "idempotency_key": "earlier", "metadata": {"other": True}},
        {**TONNE, "idempotency_key": ""},
        {"value": "1", **TONNE},
    ]
    body = {"orders": orders, "idempotency_key": "batch"}
    first_run = await results(api, body)
    assert [each["status"] for each in first_run] == [201] * 4 + [400] * 6 + [200, 400, 400]
    assert [each["error"]["error_code"] for each in first_run if "error" in each] == [
        *("estimate_not_found", *["validation_error"] * 4, "bundle_selection_bundle_invalid"),
        *("validation_error", "validation_error"),
    ]
    assert first_run[1]["order"]["idempotency_key"] == "batch/1"
    assert first_run[0]["order"]["idempotency_key"] == "own"
    assert first_run[2]["order"]["beneficiary"] == {"name": "Fjord Bakery AS"}
    assert (first_run[10]["order"]["id"], first_run[10]["idempotency_mismatch"]) == (earlier["id"], True)
    assert first_run[5]["errors"][0]["field"] == "mas"
    for each in first_run[:4]:
        assert (await api.get(f"/v1/orders/{each['order']['id']}")).json() == each["order"]

    again = await results(api, body)
    for before, after in zip(first_run, again, strict=True):
        assert after.get("order") == before.get("order")
        assert after.get("error") == before.get("error")
    assert [each["status"] for each in again] == [200] * 4 + [400] * 6 + [200, 400, 400]
    assert [each["idempotent_replayed"] for each in again[:4]] == [True] * 4
    assert not any(each["idempotency_mismatch"] for each in again[:4])
    alone = await api.post("/v1/orders/by-mass", {**orders[1], "idempotency_key": "batch/1"})
    assert (alone.status_code, "idempotency-mismatch" in alone.headers) == (200, False)
    async with services.database.connection() as connection:
        keys = await connection.fetchval("SELECT array_agg(DISTINCT placed_by_key) FROM orders")
    assert keys == [world.ours_test.key_id]

    many = await results(api, {"orders": [TONNE] * 100})
    assert {each["status"] for each in many} == {201}
    assert len({each["order"]["id"] for each in many}) == 100
    twice = await results(api, {"orders": [{**TONNE, "idempotency_key": "same"}] * 3})
    assert sorted(each["status"] for each in twice) == [200, 200, 201]
    assert len({each["order"]["id"] for each in twice}) == 1


async def test_a_batch_itself_may_be_wrong(api: ApiClient) -> None:
    for body, field in (
        ({}, "orders"),
        ({"orders": []}, "orders"),
        ({"orders": [TONNE] * 101}, "orders"),
        ({"orders": {}}, "orders"),
        ({"orders": [TONNE], "idempotency_key": "k" * 251}, "idempotency_key"),
        ({"orders": [TONNE], "order": 1}, "order"),
    ):
        answer = await api.post(BATCH, body)
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), body
        assert answer.json()["error"]["field"] == field
    headed = await api.post(BATCH, {"orders": [TONNE]}, Idempotency_Key="head")
    assert headed.json()["data"][0]["order"]["idempotency_key"] == "head/0"


async def test_spending_limits_apply_in_the_order_of_the_batch(
    api: ApiClient, services: Services, world: World
) -> None:
    operator = Operator(services.database._url, secret_key=services.settings.secret_key)
    operator.does("account", "update", world.ours_test.scope.account_id, "--monthly-limit", "30.00")
    found = await results(api, {"orders": [TONNE, TONNE, TONNE, {"value": "4.00"}]})
    assert [each["status"] for each in found] == [201, 201, 403, 201]
    assert found[2]["error"]["error_code"] == "spending_limit_reached"


class TestRateLimit:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, rate_limit_per_second=0.01, rate_limit_burst=10)

    async def test_every_order_counts_as_a_request(self, api: ApiClient) -> None:
        assert (await api.post(BATCH, {"orders": [TONNE] * 8})).status_code == 200
        refused = await api.post(BATCH, {"orders": [TONNE] * 4})
        assert (refused.status_code, codes(refused)) == (429, ["rate_limited"])
        assert int(refused.headers["retry-after"]) > 100


async def test_others_get_the_event_loop_while_a_batch_is_read(
    api: ApiClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each order takes a quarter of a millisecond until it waits for its transaction."""
    turns, begun = 0, [0]
    place = services.place_orders.place

    async def count(*args: Any, **kwargs: Any) -> Any:
        begun.append(turns)
        return await place(*args, **kwargs)

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(PlaceOrders, "place", lambda _, *args, **kwargs: count(*args, **kwargs))
    others = asyncio.create_task(take_turns())
    try:
        assert {each["status"] for each in await results(api, {"orders": [TONNE] * 100})} == {201}
    finally:
        others.cancel()
    assert max(Counter(begun).values()) <= 4


async def test_orders_beyond_the_queue_of_an_organisation_are_refused_one_by_one(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MAX_WAITING", 8)
    found = Counter(each["status"] for each in await results(api, {"orders": [TONNE] * 100}))
    assert set(found) == {201, 429}
    assert found[201] >= 8


async def test_a_large_batch_takes_a_place_where_a_small_one_takes_none(
    services: Services, api: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, enter = list[bool](), services.admission.enter

    async def keep(name: str, *, takes_place: bool = True) -> int:
        places.append(takes_place)
        return await enter(name, takes_place=takes_place)

    monkeypatch.setattr(services.admission, "enter", keep)
    for number in (1, 400):
        await api.post("/v1/orders/batch", {"orders": [{"idempotency_key": f"large-{n}"} for n in range(number)]})
    assert places == [False, True]
