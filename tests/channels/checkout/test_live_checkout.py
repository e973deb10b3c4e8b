"""Live payments on the gateway's page."""

import asyncio
import html
import re
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest

from tests.channels.checkout.scene import Rows, age, work
from tests.channels.checkout.shopper import Shopper, form_of, make_link
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.settings.settings import Settings


@pytest.fixture
async def stripe() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as pages:
        yield pages


@pytest.fixture
def settings(settings: Settings, stripe: FakeStripePages) -> Settings:
    return msgspec.structs.replace(settings, stripe_secret_key=LIVE_KEY, stripe_api_base=stripe.url)


@pytest.fixture(autouse=True)
async def _closing(services: Services) -> AsyncIterator[None]:
    yield
    for gateway in services.card_gateways.values():
        await gateway.close()


@pytest.fixture
async def link(services: Services, world: World) -> OffsetLink:
    return await make_link(services, world.ours_live.scope)


# Settles every charge before its page is recorded.
GIVE_UP = """
CREATE FUNCTION give_up() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE charges SET status = 'failed', outcome = 'not_found', next_attempt_at = NULL WHERE id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER give_up BEFORE UPDATE OF session_id ON charges
FOR EACH ROW WHEN (pg_trigger_depth() = 0) EXECUTE FUNCTION give_up();
"""


def leads_to(page: httpx.Response) -> str:
    """The target of the automatic redirect."""
    [url] = re.findall(r'http-equiv="refresh" content="0; url=([^"]+)"', page.text)
    return html.unescape(str(url))


async def come_back(shopper: Shopper, services: Services, address: str) -> httpx.Response:
    """Return from the gateway's page, and run the worker."""
    await shopper.open(f"{address}?paid=1")
    await work(services)
    return await shopper.open(address)


async def test_a_live_payment_is_made_on_the_gateways_page(
    services: Services, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    page = await shopper.open(address)
    assert "card_number" not in page.text
    assert "Test mode" not in page.text
    leaving = await shopper.send(page)
    [session] = stripe.sessions.values()
    assert leads_to(leaving) == session["url"]
    [total] = form_of(page).values()["total"]
    assert (session["amount_total"], session["customer_email"]) == (int(total), "ann@example.com")
    stripe.pay(session["id"])
    assert "Thank you" in (await come_back(shopper, services, address)).text
    [order] = await rows("SELECT status, total_cost_minor FROM orders")
    assert order["total_cost_minor"] == int(total)
    assert order["status"] in {"paid", "retiring"}
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["captured"]


async def test_repeated_clicks_open_one_payment_page(
    shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    page = await shopper.open(await shopper.begin(link))
    answers = await asyncio.gather(*(shopper.send(page) for _ in range(6)))
    answers.append(await shopper.send(page))
    assert len(stripe.sessions) == 1
    assert len(await rows("SELECT id FROM orders")) == len(await rows("SELECT id FROM charges")) == 1
    assert {leads_to(answer) for answer in answers if answer.status_code == 200} == {
        session["url"] for session in stripe.sessions.values()
    }


async def test_leaving_the_gateways_page_without_paying_leads_back_to_it(
    shopper: Shopper, stripe: FakeStripePages, link: OffsetLink
) -> None:
    address = await shopper.begin(link)
    first = leads_to(await shopper.pay(address))
    waiting = await shopper.open(address)
    assert "Open the payment page again" in waiting.text
    assert leads_to(await shopper.send(waiting)) == first
    assert len(stripe.sessions) == 1


async def test_an_expired_payment_page_is_replaced(
    services: Services, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    await shopper.pay(address)
    [session_id] = stripe.sessions
    stripe.expire(session_id)
    again = await come_back(shopper, services, address)
    assert "The payment page expired" in again.text
    await shopper.send(again)
    stripe.pay([each for each in stripe.sessions if each != session_id][0])  # noqa: RUF015 - exactly one
    assert "Thank you" in (await come_back(shopper, services, address)).text
    assert len(await rows("SELECT id FROM orders")) == 1
    statuses = [row["status"] for row in await rows("SELECT status FROM charges ORDER BY attempt")]
    assert statuses == ["failed", "captured"]


async def test_a_payment_after_the_cancellation_is_refunded(
    services: Services, world: World, shopper: Shopper, stripe: FakeStripePages, rows: Rows
) -> None:
    address = await shopper.begin(await make_link(services, world.ours_live.scope))
    await shopper.pay(address)
    [order] = await rows("SELECT id FROM orders")
    cancelled = await shopper.http.post(
        f"/v1/orders/{order['id']}/cancel", headers={"Authorization": f"Bearer {world.ours_live.key}"}
    )
    assert cancelled.status_code == 200
    [session] = stripe.sessions.values()
    stripe.pay(session["id"])
    await age(services, "UPDATE charges SET next_attempt_at = now() - interval '1 s'")
    assert "This order was cancelled" in (await come_back(shopper, services, address)).text
    [charge] = await rows("SELECT status, reference FROM charges")
    assert charge["status"] == "refunded"
    assert stripe.given_back(charge["reference"]) == session["amount_total"]


async def test_an_expired_payment_page_cancels_the_order(
    services: Services, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    address = await shopper.begin(link)
    await shopper.pay(address)
    await age(services)
    await services.close_checkouts.run_once()
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["placed"], "the page is still open"
    [session_id] = stripe.sessions
    stripe.expire(session_id)
    await age(services)
    await age(services, "UPDATE charges SET next_attempt_at = now() - interval '1 s'")
    await work(services)
    await age(services)
    await work(services)
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["cancelled"]


async def test_there_is_no_redirect_to_a_page_whose_charge_was_settled_meanwhile(
    services: Services, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    """Simulates a race: the worker settles the charge before the page is recorded."""
    address = await shopper.begin(link)
    page = await shopper.open(address)
    await age(services, GIVE_UP)
    answer = await shopper.send(page)
    assert len(stripe.sessions) == 1
    assert "refresh" not in answer.text
    assert form_of(answer).action.endswith("/pay"), "the person may try again"
    assert [row["status"] for row in await rows("SELECT status FROM charges")] == ["failed"]


async def test_a_test_link_never_uses_the_live_gateway(
    services: Services, world: World, shopper: Shopper, stripe: FakeStripePages
) -> None:
    test_link = await make_link(services, world.ours_test.scope)
    assert "Thank you" in (await shopper.pay(await shopper.begin(test_link))).text
    assert stripe.requests == []
