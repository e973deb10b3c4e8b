"""Tax at checkout: shown before, charged with, and stored on the order."""

import re

import msgspec
import pytest

from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.support.api_client import ApiClient
from tests.support.scene import Scene
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.selling.accounts.tax.tax_profile import set_tax_profile


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, tax_treatment="standard", tax_rate="19", key_refresh_s=0.0)


async def exempt(services: Services, world: World) -> None:
    async with services.database.transaction() as tx:
        changes = {"treatment": TaxTreatment.EXEMPT}
        await set_tax_profile(tx, world.ours_test.scope.organisation_id, changes, by=TESTER.now())


async def test_a_customer_pays_the_sellers_tax_whatever_the_merchant_pays(
    services: Services, world: World, shopper: Shopper, link: OffsetLink, api: ApiClient
) -> None:
    await exempt(services, world)
    page = await shopper.open(f"/offset/{link.id}", quantity="3.333333")
    assert "The total includes the service fee and tax." in page.text
    price = await shopper.open(f"/offset/{link.id}/price", by="quantity", amount="3.333333")
    assert "Without tax" in price.text
    [shown] = re.findall(r'data-total="(\d+)"', price.text)
    address = await shopper.begin(link, amount="3.333333")
    payment = await shopper.open(address)
    [asked] = form_of(payment).values()["total"]
    assert "19%" in payment.text
    assert "Thank you" in (await shopper.pay(address)).text
    [order] = (await api.get(f"/v1/orders?offset_link_id={link.id}")).json()["data"]
    due, cost, tax = (round(float(order[name]) * 100) for name in ("amount_due", "total_cost", "tax"))
    assert (due, tax) == (cost + tax, round(cost * 0.19))
    scene = Scene(services)
    assert await scene.fetchval("SELECT amount_minor FROM charges") == due == int(shown) == int(asked)
    quote = (await api.post("/v1/orders/by-mass/quote", {"mass": {"amount": "3.333333", "unit": "t"}})).json()
    assert (quote["total_cost"], quote["tax"], quote["amount_due"]) == (
        order["total_cost"],
        "0.00",
        order["total_cost"],
    ), "the organisation itself is exempt"
    assert await scene.fetchval("SELECT tax_treatment FROM orders") == "standard"


async def test_a_budget_includes_the_tax(services: Services, shopper: Shopper, link: OffsetLink) -> None:
    await shopper.pay(await shopper.begin(link, by="value", amount="50"))
    assert await Scene(services).fetchval("SELECT amount_minor FROM charges") == 5000


async def test_a_changed_rate_is_shown_before_it_is_charged(
    services: Services, shopper: Shopper, link: OffsetLink
) -> None:
    page = await shopper.open(await shopper.begin(link, amount="2"))
    services.directory._settings = msgspec.structs.replace(services.settings, tax_rate="20")
    refused = await shopper.send(page)
    assert "The price has changed" in refused.text
    assert await Scene(services).fetchval("SELECT count(*) FROM orders") == 0


async def test_the_api_shows_tax_and_amount_due_of_a_checkout(services: Services, world: World, api: ApiClient) -> None:
    link = await make_link(services, world.ours_test.scope)
    body = {"offset_link_id": link.id, "quantity": "2", "email": "ann@example.com", "external_id": "A-1"}
    created = (await api.post("/v1/checkouts", body)).json()
    due, cost, tax = (round(float(created[name]) * 100) for name in ("amount_due", "total_cost", "tax"))
    assert due == cost + tax
    assert tax == round(cost * 0.19)
