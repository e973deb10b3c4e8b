"""Prices that can be paid: what a card can be charged, prices that round to zero, rates that are too old."""

import re
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.channels.checkout.shopper import Shopper, make_link
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.platform.http.writes import count_rows
from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START, ManualClock
from tests.support.world import Tenant, World, open_tenant
from tonne.apps.wiring.app import Services
from tonne.money.cards.gateways.stripe_responses import to_stripe_amount
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, charge_unit, minimum_charge
from tonne.platform.values.context import Mode

SET_RATE = """
INSERT INTO exchange_rates (mode, base, quote, as_of, rate, source) VALUES ($1, 'EUR', $2, $3, $4, 'test')
"""
BY_CARD = "UPDATE accounts SET payment_method = 'card' WHERE id = $1"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With a card gateway: live links are closed without one. No test here calls it."""
    return msgspec.structs.replace(settings, stripe_secret_key=LIVE_KEY)


@pytest.fixture(autouse=True)
async def _closing(services: Services) -> AsyncIterator[None]:
    yield
    for gateway in services.card_gateways.values():
        await gateway.close()


class Opener:
    def __init__(self, api: ApiClient, database: Database, organisation_id: str) -> None:
        self.api, self.database, self.organisation_id = api, database, organisation_id

    async def open(self, mode: Mode, currency: str, *, by_card: bool = False) -> ApiClient:
        """A client of a new account."""
        return self.api.as_key((await self.open_tenant(mode, currency, by_card=by_card)).key)

    async def open_tenant(self, mode: Mode, currency: str, *, by_card: bool = False) -> Tenant:
        async with self.database.transaction() as tx:
            tenant = await open_tenant(tx, self.organisation_id, mode, currency)
            if by_card:
                await tx.execute(BY_CARD, tenant.scope.account_id)
        return tenant

    async def set_rate(self, mode: Mode, currency: str, rate: float, **ago: int) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(SET_RATE, mode, currency, START - timedelta(**ago), rate)


@pytest.fixture
def accounts(api: ApiClient, populated_db: Database, world: World) -> Opener:
    return Opener(api, populated_db, world.ours_test.scope.organisation_id)


@pytest.fixture
def shopper(browser: Any) -> Shopper:
    return Shopper(browser)


def mass(amount: str, unit: str = "t") -> dict[str, Any]:
    return {"mass": {"amount": amount, "unit": unit}}


@pytest.mark.parametrize("currency", sorted(DECIMALS))
def test_money_10_every_multiple_of_the_unit_can_be_charged_at_stripe(currency: str) -> None:
    unit, least = charge_unit(currency), minimum_charge(currency)
    assert least % unit == 0
    for amount_minor in (least, least + unit, 12_340_000 + 7 * unit):
        assert to_stripe_amount(amount_minor, currency) is not None, amount_minor


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("currency", ["KWD", "BHD", "JOD", "OMR", "TND"])
async def test_money_10_card_totals_are_rounded_up_in_both_modes_and_on_quotes_too(
    mode: Mode, currency: str, accounts: Opener
) -> None:
    await accounts.set_rate(mode, currency, 0.3337)
    card, invoice = await accounts.open(mode, currency, by_card=True), await accounts.open(mode, currency)
    rounded = 0
    for amount in ("0.11", "0.123", "1.105697", "77.777"):
        paid_by_card = await card.order(**mass(amount))
        quote = (await card.post("/v1/orders/by-mass/quote", mass(amount))).json()
        billed = await invoice.order(**mass(amount))
        total, exact = (int(order["total_cost"].replace(".", "")) for order in (paid_by_card, billed))
        assert total % 10 == 0
        assert 0 <= total - exact < 10
        rounded += total != exact
        assert quote["total_cost"] == paid_by_card["total_cost"]
        assert paid_by_card["offset_cost"] == billed["offset_cost"]
        assert to_stripe_amount(total, currency) is not None
    assert rounded, "no total had to be rounded, so this proves nothing"


async def test_money_10_by_value_the_maximum_is_first_rounded_down(accounts: Opener) -> None:
    client = await accounts.open(Mode.TEST, "KWD", by_card=True)
    order = (await client.post("/v1/orders/by-value", {"value": "10.009"})).json()
    assert (order["total_cost"], order["requested_value"]) == ("10.000", "10.009")


@pytest.mark.parametrize("mode", Mode)
async def test_money_22_orders_below_the_minimum_charge_are_refused_for_cards_only(
    mode: Mode, accounts: Opener, populated_db: Database, services: Services
) -> None:
    services.directory._settings = msgspec.structs.replace(services.settings, small_card_orders="refuse")
    card, invoice = await accounts.open(mode, "EUR", by_card=True), await accounts.open(mode, "EUR")
    estimate = (await card.post("/v1/estimates", mass("10", "kg"))).json()
    # An estimate may be ordered together with others one day, so it still shows its price.
    assert estimate["quote"]["total_cost"] != "0.00"
    before = await count_rows(populated_db)
    for path, body in {
        "/v1/orders/by-estimate": {"estimate_id": estimate["id"]},
        "/v1/orders/by-mass": mass("10", "kg"),
        "/v1/orders/by-value": {"value": "0.49"},
    }.items():
        for address in (path, f"{path}/quote"):
            refused = await card.post(address, body)
            assert (refused.status_code, codes(refused)) == (400, ["charge_too_small"]), address
            error = refused.json()["error"]
            assert "The minimum for a card payment is 0.50 EUR" in error["message"]
            smallest = (await card.post("/v1/orders/by-value/quote", {"value": error["minimum"]})).json()
            assert (smallest["amount_due"], smallest["quantity"]) == ("0.50", error["quantity_at_minimum"])
            exact = {"mass": {"amount": error["quantity_at_minimum"], "unit": "t"}}
            assert (await card.post("/v1/orders/by-mass/quote", exact)).json()["amount_due"] == "0.50"
    assert await count_rows(populated_db) == before
    assert (await card.post("/v1/orders/by-value", {"value": "0.50"})).json()["total_cost"] == "0.50"
    assert (await invoice.post("/v1/orders/by-value", {"value": "0.01"})).status_code == 201


@pytest.mark.parametrize("mode", Mode)
async def test_money_22_a_checkout_below_the_minimum_charge_says_so_at_once(
    mode: Mode, services: Services, shopper: Shopper, world: World
) -> None:
    tenant = world.ours_test if mode is Mode.TEST else world.ours_live
    link = await make_link(services, tenant.scope)
    page = await shopper.open(f"/offset/{link.id}", by="value", amount="0.40")
    assert "The minimum for a card payment is €0.50" in page.text
    # One click fills in the smallest amount that a card can pay.
    assert re.search(r"€0.50 retires [0-9.]+.kg</button>", page.text)
    offered = await shopper.open(f"/offset/{link.id}", suggested="value:0.50")
    assert "The minimum for a card payment" not in offered.text
    refused = await shopper.choose(link, by="value", amount="0.40")
    assert refused.status_code == 422
    assert "The minimum for a card payment is €0.50" in refused.text
    assert (await shopper.choose(link, by="value", amount="0.50")).status_code == 303


async def test_money_11_a_price_that_rounds_to_zero_is_refused_everywhere(
    accounts: Opener, services: Services, shopper: Shopper, populated_db: Database
) -> None:
    await accounts.set_rate(Mode.TEST, "KWD", 0.0000334)
    tenant = await accounts.open_tenant(Mode.TEST, "KWD")
    client = accounts.api.as_key(tenant.key)
    link = await make_link(services, tenant.scope)
    estimate = await client.post("/v1/estimates", mass("1"))
    assert (estimate.status_code, estimate.json()["quote"]) == (201, None)
    before = await count_rows(populated_db)
    for path, body in {
        "/v1/orders/by-estimate": {"estimate_id": estimate.json()["id"]},
        "/v1/orders/by-mass": mass("1000"),
        "/v1/orders/by-value": {"value": "10"},
    }.items():
        for address in (path, f"{path}/quote"):
            refused = await client.post(address, body)
            assert (refused.status_code, codes(refused)) == (409, ["price_rounds_to_zero"]), address
            assert "rounds to zero in KWD" in refused.json()["error"]["message"]
    assert await count_rows(populated_db) == before
    assert "rounds to zero in KWD" in (await shopper.open(f"/offset/{link.id}", quantity="1000")).text
    bundles = (await client.get("/v1/bundles")).json()["data"]
    assert None in {bundle["unit_price"] for bundle in bundles}
    assert "0.000" not in {bundle["unit_price"] for bundle in bundles}


async def test_money_11_a_rate_that_is_too_old_stops_live_pricing_only(
    accounts: Opener, services: Services, clock: ManualClock, shopper: Shopper
) -> None:
    for mode in Mode:
        await accounts.set_rate(mode, "NOK", 11.8, days=32)
    tenant, test = await accounts.open_tenant(Mode.LIVE, "NOK"), await accounts.open(Mode.TEST, "NOK")
    live, link = accounts.api.as_key(tenant.key), await make_link(services, tenant.scope)
    assert "There is no price in NOK right now." in (await shopper.open(f"/offset/{link.id}", quantity="1")).text
    assert (await test.order())["status"] == "placed"
    received = await live.order()
    assert received["status"] == "received"
    quote = await live.post("/v1/orders/by-mass/quote", mass("1"))
    assert (quote.status_code, codes(quote)) == (409, ["price_unavailable"])
    assert "is too old: it is of 2026-09-30" in quote.json()["error"]["message"]
    assert (await live.get("/v1/bundles")).json()["data"][0]["unit_price"] is None
    await accounts.set_rate(Mode.LIVE, "NOK", 11.9, days=31)
    assert (await live.order())["status"] == "placed", "31 days are not too old"
    clock.advance(minutes=2)
    assert await services.price_waiting.run_once()
    assert (await live.get(f"/v1/orders/{received['id']}")).json()["status"] == "received"
    await accounts.set_rate(Mode.LIVE, "NOK", 12, days=1)
    clock.advance(minutes=2)
    assert await services.price_waiting.run_once()
    assert (await live.get(f"/v1/orders/{received['id']}")).json()["status"] == "placed"


async def test_money_22_an_estimate_whose_cost_overflows_is_refused(accounts: Opener, populated_db: Database) -> None:
    await accounts.set_rate(Mode.TEST, "IRR", 900_000_000)
    client = await accounts.open(Mode.TEST, "IRR")
    before = await count_rows(populated_db)
    refused = await client.post("/v1/estimates", mass("100000000"))
    assert (refused.status_code, codes(refused), fields(refused)) == (400, ["estimate_mass_invalid"], ["mass.amount"])
    assert await count_rows(populated_db) == before


async def test_money_22_an_estimate_whose_cost_overflows_later_has_no_quote(accounts: Opener) -> None:
    client = await accounts.open(Mode.TEST, "IRR")
    estimate = (await client.post("/v1/estimates", mass("100000000"))).json()
    await accounts.set_rate(Mode.TEST, "IRR", 900_000_000)
    shown = await client.get(f"/v1/estimates/{estimate['id']}")
    assert (shown.status_code, shown.json()["quote"]) == (200, None)
