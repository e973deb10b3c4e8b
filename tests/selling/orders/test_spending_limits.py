"""Spending limits and the minimum order."""

import asyncio
import json
from datetime import UTC, date, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.selling.orders.test_waiting_for_a_price import import_rate
from tests.support.api_client import ApiClient, codes
from tests.support.clock import ManualClock
from tests.support.command import Operator
from tests.support.world import World, open_tenant
from tonne.apps.wiring.app import Services
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.amounts import parse_amounts
from tonne.platform.values.context import Clock, Mode
from tonne.platform.values.spending_limit import month_of, next_month

# One tonne of the default bundles costs 12.62 EUR.
TONNE = {"mass": {"amount": "1", "unit": "t"}}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Changes of accounts and keys take effect at once."""
    return msgspec.structs.replace(settings, key_refresh_s=0.0)


@pytest.fixture
def clock() -> Clock:
    return ManualClock(datetime(2026, 11, 30, 23, 0, tzinfo=UTC))


@pytest.fixture
def operator(services: Services) -> Operator:
    return Operator(services.database._url, secret_key=services.settings.secret_key)


async def test_an_account_orders_up_to_its_limit(
    api: ApiClient, operator: Operator, world: World, clock: ManualClock
) -> None:
    account_id = world.ours_test.scope.account_id
    first = await api.order(idempotency_key="first")
    operator.does("account", "update", account_id, "--monthly-limit", "30.00")
    await api.order()
    refused = await api.post("/v1/orders/by-mass", TONNE)
    assert (refused.status_code, codes(refused)) == (403, ["spending_limit_reached"])
    assert refused.json()["error"]["message"] == (
        "The account may order for 30.00 EUR per calendar month (UTC). 25.24 EUR are spent in 2026-11, and this order "
        "of 12.62 EUR would exceed the limit. It resets at 2026-12-01T00:00:00.000Z."
    )
    replayed = await api.post("/v1/orders/by-mass", {**TONNE, "idempotency_key": "first"})
    assert (replayed.status_code, replayed.json()["id"]) == (200, first["id"]), "replays pass"
    assert (await api.post("/v1/orders/by-value", {"value": "4.00"})).status_code == 201, "what is left may be ordered"
    facts = operator.facts("account", "show", account_id)
    assert facts["monthly limit"] == "30.00 EUR"
    # A cancelled order no longer counts.
    assert (await api.post(f"/v1/orders/{first['id']}/cancel", {})).status_code == 200
    await api.order()
    assert (await api.post("/v1/orders/by-mass", TONNE)).status_code == 403
    clock.advance(hours=1)
    await api.order()
    operator.does("account", "update", account_id, "--monthly-limit", "none")
    for _ in range(3):
        await api.order()


async def test_a_key_orders_up_to_its_limit_in_one_currency(api: ApiClient, operator: Operator, world: World) -> None:
    ours = world.ours_test
    other_key = api.as_key(operator.does("key", "create", ours.scope.account_id))
    assert operator.does("key", "limit", ours.key_id, "20") == f"The monthly limit of {ours.key_id} is 20.00 EUR."
    listed = operator.does("key", "list", ours.scope.organisation_id, "--json")
    limits = {key["id"]: (key["monthly_limit"], key["currency"]) for key in map(json.loads, listed.splitlines())}
    assert limits[ours.key_id] == ("20.00", "EUR")
    assert "20.00 EUR" in operator.does("key", "list", ours.scope.organisation_id)
    await api.order()
    refused = await api.post("/v1/orders/by-mass", TONNE)
    assert (refused.status_code, codes(refused)) == (403, ["spending_limit_reached"])
    assert refused.json()["error"]["message"].startswith("The API key may order for 20.00 EUR")
    # It counts what the key orders for any account of the organisation.
    refused = await api.post("/v1/orders/by-mass", TONNE, Service_Account=ours.client_account_id)
    assert codes(refused) == ["spending_limit_reached"]
    await other_key.order()
    words = ("--mode", "test", "--currency", "USD")
    dollars = operator.does("account", "create", ours.scope.organisation_id, "US", *words)
    refused = await api.post("/v1/orders/by-value", {"value": "1.00"}, Service_Account=dollars)
    assert "has a monthly limit in EUR" in refused.json()["error"]["message"]
    assert operator.does("key", "limit", ours.key_id, "none").endswith("is none.")
    await api.order()
    assert "tonne key list" in operator.is_refused("key", "limit", "key_nope", "1")
    assert "Give an amount in EUR" in operator.is_refused("key", "limit", ours.key_id, "1.001")


async def test_orders_at_the_same_time_cannot_exceed_the_limit(
    api: ApiClient, operator: Operator, world: World
) -> None:
    operator.does("account", "update", world.ours_test.scope.account_id, "--monthly-limit", "40")
    operator.does("key", "limit", world.ours_test.key_id, "30")
    answers = await asyncio.gather(*(api.post("/v1/orders/by-mass", TONNE) for _ in range(12)))
    assert sorted(answer.status_code for answer in answers) == [201] * 2 + [403] * 10


async def test_an_order_that_waits_for_a_price_counts_when_it_is_priced(
    api: ApiClient, operator: Operator, services: Services, world: World, clock: ManualClock
) -> None:
    async with services.database.transaction() as tx:
        tenant = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "NOK")
    norwegian = api.as_key(tenant.key)
    operator.does("account", "update", tenant.scope.account_id, "--monthly-limit", "200")
    waiting = [await norwegian.order() for _ in range(2)]
    assert {order["status"] for order in waiting} == {"received"}
    await import_rate(services.database)
    clock.advance(seconds=31)
    while await services.price_waiting.run_once():
        pass
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT status, total_cost_minor FROM orders")
        spent = await connection.fetchval("SELECT spent_minor FROM monthly_spending")
    assert [row["status"] for row in rows] == ["placed", "placed"], "accepted orders are not refused later"
    assert spent == sum(row["total_cost_minor"] for row in rows) > 20_000
    refused = await norwegian.post("/v1/orders/by-value", {"value": "10.00"})
    assert codes(refused) == ["spending_limit_reached"]


async def test_orders_below_the_minimum_are_refused(
    services: Services, api: ApiClient, operator: Operator, world: World
) -> None:
    services.directory._settings = msgspec.structs.replace(services.settings, minimum_order="EUR 10.00")
    for path, body in (
        ("/v1/orders/by-value", {"value": "9.99"}),
        ("/v1/orders/by-mass/quote", {"mass": {"amount": "1", "unit": "kg"}}),
    ):
        refused = await api.post(path, body)
        assert (refused.status_code, codes(refused)) == (400, ["below_minimum_order"])
        assert "The minimum for an order is 10.00 EUR: choose a larger amount." in refused.json()["error"]["message"]
    await api.order()
    account_id = world.ours_test.scope.account_id
    operator.does("account", "update", account_id, "--minimum-order", "2.00")
    assert (await api.post("/v1/orders/by-value", {"value": "9.99"})).status_code == 201, "the account's own applies"
    assert codes(await api.post("/v1/orders/by-value", {"value": "1.99"})) == ["below_minimum_order"]


def test_the_setting_is_a_list_of_amounts() -> None:
    settings = load_settings({"TONNE_MINIMUM_ORDER": "EUR 5.00, JPY 500 ,KWD 1.5"})
    assert settings.minimum_orders == {"EUR": 500, "JPY": 500, "KWD": 1500}
    for wrong in ("EUR", "EUR 1.001", "XXX 1", "EUR 1, EUR 2", "EUR -1"):
        with pytest.raises(SettingsError, match="TONNE_MINIMUM_ORDER"):
            load_settings({"TONNE_MINIMUM_ORDER": wrong})
    assert parse_amounts("") == {}


@given(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001 - hypothesis adds the zone
def test_a_moment_is_in_its_month(moment: datetime) -> None:
    month = month_of(moment)
    start = datetime(month.year, month.month, 1, tzinfo=UTC)
    assert start <= moment < next_month(month)
    assert next_month(month) - start <= timedelta(days=31)
    assert month_of(next_month(month)) != month
    assert isinstance(month, date)
