"""A quote has the prices of the order, and writes nothing."""

import pytest

from tests.platform.http.writes import ORDERS, count_rows, valid_bodies
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.platform.db.database import Database

SHARED = (
    "type",
    "currency",
    "quantity",
    "offset_cost",
    "commission",
    "total_cost",
    "bundles",
    "estimate_id",
    "requested_quantity",
    "requested_value",
)


@pytest.mark.parametrize("path", ORDERS)
async def test_a_quote_equals_the_order_and_writes_nothing(
    path: str, api: ApiClient, world: World, populated_db: Database
) -> None:
    bundles = list(world.bundles_test.values())
    selection = [{"bundle_id": bundles[0], "percentage": "12.5"}, {"bundle_id": bundles[1], "percentage": "87.5"}]
    plain = (await valid_bodies(api))[path]
    for body in (plain, plain | {"bundle_selection": selection}):
        before = await count_rows(populated_db)
        quote = await api.post(f"{path}/quote", body | {"idempotency_key": "unused", "metadata": {"a": 1}})
        assert quote.status_code == 200
        assert await count_rows(populated_db) == before
        order = (await api.post(path, body)).json()
        assert {name: quote.json()[name] for name in SHARED} == {name: order[name] for name in SHARED}
        assert quote.json()["fee_rate"] == "0.1"
        assert quote.json()["exchange_rate"] is None


async def test_a_quote_ignores_an_idempotency_key_that_is_used(api: ApiClient) -> None:
    await api.order(idempotency_key="k")
    body = {"mass": {"amount": "2", "unit": "t"}, "idempotency_key": "k"}
    answer = await api.post("/v1/orders/by-mass/quote", body)
    assert (answer.status_code, answer.json()["quantity"]) == (200, "2")
    assert "idempotent-replayed" not in answer.headers


async def test_interface_7_a_quote_also_calls_its_amounts_estimated(api: ApiClient) -> None:
    mass = {"mass": {"amount": "2", "unit": "t"}}
    quote = (await api.post("/v1/orders/by-mass/quote", mass)).json()
    estimate = (await api.post("/v1/estimates", mass)).json()
    for each in (quote, estimate["quote"]):
        for name in ("quantity", "offset_cost", "commission", "total_cost"):
            assert each[f"estimated_{name}"] == each[name]
