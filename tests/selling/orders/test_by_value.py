"""Orders by value: the value is the most that is spent, fee included."""

from decimal import Decimal

import pytest

from tests.platform.http.writes import count_rows
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

BY_VALUE = ("/v1/orders/by-value", "/v1/orders/by-value/quote")


async def test_an_order_by_value_never_costs_more_than_its_value(api: ApiClient, world: World) -> None:
    bundles = list(world.bundles_test.values())
    for value in ("0.01", "0.02", "0.10", "1", "7.67", "7.68", "99.99", "100.00", "12345.67", "1000000"):
        for count in (1, 3, 6):
            selection = [{"bundle_id": bundle} for bundle in bundles[:count]]
            answer = await api.post("/v1/orders/by-value", {"value": value, "bundle_selection": selection})
            assert answer.status_code == 201, answer.text
            order = answer.json()
            assert order["type"] == "value"
            assert Decimal(order["requested_value"]) == Decimal(value)
            assert Decimal(order["total_cost"]) <= Decimal(value)
            assert Decimal(order["offset_cost"]) <= Decimal(order["total_cost"])
            # What is left over buys less than a gram of each bundle: under a cent here, and rounding up takes a cent.
            assert Decimal(order["total_cost"]) >= Decimal(value) - Decimal("0.01")


async def test_the_requested_value_is_shown_with_the_currencys_decimals(api: ApiClient) -> None:
    for value, shown in (("100", "100.00"), ("100.5", "100.50"), ("007.10", "7.10"), ("1.000000", "1.00")):
        answer = await api.post("/v1/orders/by-value", {"value": value})
        assert answer.json()["requested_value"] == shown
        assert answer.json()["requested_quantity"] is None


async def test_one_bundle_by_value_buys_the_value_over_its_gross_price(api: ApiClient, world: World) -> None:
    selection = [{"bundle_id": world.bundles_test["wind-power"]}]
    answer = await api.post("/v1/orders/by-value", {"value": "7976.80", "bundle_selection": selection})
    order = answer.json()
    assert (order["quantity"], order["total_cost"], order["offset_cost"]) == ("1040", "7976.80", "7176.00")


@pytest.mark.parametrize("value", ["0", "0.00", "0.001", "0.009", "10.001", "1.005"])
async def test_a_value_below_a_cent_or_with_a_part_of_one_is_refused(
    value: str, api: ApiClient, populated_db: Database
) -> None:
    before = await count_rows(populated_db)
    for path in BY_VALUE:
        answer = await api.post(path, {"value": value})
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["order_value_invalid"], ["value"])
    assert await count_rows(populated_db) == before


async def test_a_value_that_buys_less_than_a_gram_is_refused(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    async with populated_db.connection() as connection:
        await connection.execute("UPDATE bundles SET unit_price_minor = 1000000000 WHERE slug = 'durable-removal'")
    before = await count_rows(populated_db)
    selection = [{"bundle_id": world.bundles_test["durable-removal"]}]
    for path in BY_VALUE:
        answer = await api.post(path, {"value": "0.01", "bundle_selection": selection})
        assert (answer.status_code, codes(answer)) == (400, ["order_value_invalid"])
    assert await count_rows(populated_db) == before


async def test_a_value_that_buys_more_than_the_most_is_refused(api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for path in BY_VALUE:
        answer = await api.post(path, {"value": "999999999999999.99"})
        assert (answer.status_code, codes(answer)) == (400, ["order_quantity_invalid"])
    assert await count_rows(populated_db) == before
