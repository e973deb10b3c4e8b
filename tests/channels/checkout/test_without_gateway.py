"""Live links of a service that has no card gateway."""

import httpx
import msgspec

from tests.channels.checkout.links import LINKS, create, put
from tests.channels.checkout.scene import Rows
from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app

TITLE = {"title": "Offset your flight"}


async def test_people_a7_a_live_link_cannot_be_created_or_enabled(world: World, api: ApiClient) -> None:
    live = ApiClient(api.http, world.ours_live.key)
    refused = await live.post(LINKS, TITLE)
    assert (refused.status_code, codes(refused)) == (409, ["offset_link_not_payable"])
    assert refused.json()["error"]["field"] == "enabled"
    link = await create(live, enabled=False)
    refused = await put(live, link["id"], TITLE)
    assert (refused.status_code, codes(refused)) == (409, ["offset_link_not_payable"])
    assert (await put(live, link["id"], {"title": "Another", "enabled": False})).status_code == 200


async def test_people_a7_an_enabled_link_can_still_be_changed_and_disabled(
    services: Services, world: World, api: ApiClient
) -> None:
    live = ApiClient(api.http, world.ours_live.key)
    link = await make_link(services, world.ours_live.scope)
    assert (await put(live, link.id, {"title": "Another"})).status_code == 200
    assert (await put(live, link.id, {"title": "Another", "enabled": False})).status_code == 200
    assert (await put(live, link.id, {"title": "Another"})).status_code == 409


async def test_test_links_need_no_gateway(api: ApiClient) -> None:
    assert (await create(api))["enabled"] is True


async def test_people_a7_the_page_says_that_the_seller_takes_no_cards(
    services: Services, world: World, shopper: Shopper, rows: Rows
) -> None:
    link = await make_link(services, world.ours_live.scope)
    page = await shopper.open(f"/offset/{link.id}", quantity="1")
    assert page.status_code == 503
    assert "The seller cannot take card payments yet" in page.text
    assert "<form" not in page.text
    assert (await shopper.open(f"/offset/{link.id}/price", quantity="1")).status_code == 503
    token = form_of(await shopper.open(f"/offset/{(await make_link(services, world.ours_test.scope)).id}"))
    answer = await shopper.http.post(f"/offset/{link.id}", data=token.values(amount="1", email="ann@example.com"))
    assert answer.status_code == 503
    assert await rows("SELECT id FROM checkouts") == []


async def test_people_a7_a_checkout_from_before_the_gateway_was_removed_shows_no_button(
    services: Services, world: World, shopper: Shopper, rows: Rows
) -> None:
    link = await make_link(services, world.ours_live.scope)
    with_gateway = Services(services.database, msgspec.structs.replace(services.settings, stripe_secret_key=LIVE_KEY))
    other = Shopper(httpx.AsyncClient(transport=_transport(with_gateway), base_url="http://tonne.test"))
    address = await other.begin(link)
    old = await other.open(address)
    shopper.http.cookies = other.http.cookies
    page = await shopper.open(address)
    assert "The seller cannot take card payments yet" in page.text
    assert "<form" not in page.text
    refused = await shopper.send(old)
    assert refused.status_code == 422
    assert "The seller cannot take card payments yet" in refused.text
    assert await rows("SELECT id FROM orders") == []
    await other.http.aclose()
    for gateway in with_gateway.card_gateways.values():
        await gateway.close()


def _transport(services: Services) -> httpx.ASGITransport:
    return httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
