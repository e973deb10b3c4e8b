"""Accounts in other currencies: one conversion, the currency's own decimals."""

from collections.abc import Awaitable, Callable

import pytest

from tests.selling.orders.wire import assert_wire_form
from tests.support.api_client import ApiClient, codes
from tests.support.world import World, open_tenant
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode

Opener = Callable[[str], Awaitable[ApiClient]]


@pytest.fixture
def account_in(api: ApiClient, world: World, populated_db: Database) -> Opener:
    """A client of a new account in that currency."""

    async def open_in(currency: str) -> ApiClient:
        async with populated_db.transaction() as tx:
            tenant = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, currency)
        return api.as_key(tenant.key)

    return open_in


# By currency: decimals, then net price, gross price, offset cost and total cost of 1.5 t at 12.65 EUR net. The rates
# are 162, 0.332 and 1.08; gross is net over 0.9; prices are rounded half up, the total is rounded up.
EXPECTED = {
    "JPY": (0, ["2049", "2277", "3074", "3416"]),
    "KWD": (3, ["4.200", "4.667", "6.300", "7.001"]),
    "USD": (2, ["13.66", "15.18", "20.49", "22.77"]),
    "EUR": (2, ["12.65", "14.06", "18.98", "21.09"]),
}


@pytest.mark.parametrize("currency", EXPECTED)
async def test_an_order_is_priced_with_the_currencys_decimals(currency: str, account_in: Opener, world: World) -> None:
    decimals, prices = EXPECTED[currency]
    client = await account_in(currency)
    selection = [{"bundle_id": world.bundles_test["forest-mix"]}]
    order = await client.order(mass={"amount": "1.5", "unit": "t"}, bundle_selection=selection)
    assert_wire_form(order, decimals)
    (line,) = order["bundles"]
    assert [line["unit_price"], line["gross_unit_price"], order["offset_cost"], order["total_cost"]] == prices
    assert order["currency"] == currency
    bundle = (await client.get(f"/v1/bundles/{line['bundle_id']}")).json()
    assert [bundle["unit_price"], bundle["gross_unit_price"], bundle["currency"]] == [*prices[:2], currency]


async def test_a_quote_in_another_currency_names_the_rate(account_in: Opener) -> None:
    client = await account_in("KWD")
    quote = (await client.post("/v1/orders/by-value/quote", {"value": "10.005"})).json()
    assert quote["exchange_rate"] == {
        "base": "EUR",
        "quote": "KWD",
        "rate": "0.332",
        "source": "demo",
        "as_of": "2025-01-02T00:00:00.000Z",
    }
    assert quote["requested_value"] == "10.005"


@pytest.mark.parametrize(
    ("currency", "taken", "refused"),
    [("JPY", ["1", "500", "500.00"], ["0", "0.5", "500.5"]), ("KWD", ["0.001", "1.005"], ["0.0001", "1.0005"])],
)
async def test_a_value_has_no_more_decimals_than_its_currency(
    currency: str, taken: list[str], refused: list[str], account_in: Opener
) -> None:
    client = await account_in(currency)
    for value in taken:
        answer = await client.post("/v1/orders/by-value", {"value": value})
        assert answer.status_code == 201, value
        assert float(answer.json()["total_cost"]) <= float(value)
    for value in refused:
        answer = await client.post("/v1/orders/by-value", {"value": value})
        assert (answer.status_code, codes(answer)) == (400, ["order_value_invalid"]), value
