"""Supply is held while a customer is on the payment page: nobody is charged for credits that are not there."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

import httpx
import msgspec
import pytest

from tests.channels.checkout.scene import Rows, age, work
from tests.channels.checkout.shopper import Shopper, form_of, make_link, signed
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import ManualClock
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.model import CheckoutStatus
from tonne.channels.checkout.order_checkout import Buyer, holding
from tonne.channels.checkout.store import find_checkout
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, replace, utc_now
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.errors import OfferChanged
from tonne.supply.stock.errors import LotInUse
from tonne.supply.stock.lots.lots import withdraw_lot

NO_LIMITS = {
    "hold_organisation_percent": 100,
    "hold_anonymous_percent": 100,
    "hold_anonymous_tonnes": 1000,
    "hold_small_percent": 0,
}
HELD = "SELECT quantity_grams, reserved_grams FROM supply_holds ORDER BY checkout_id"
CAPTURED = """
SELECT coalesce(sum(orders.quantity_grams), 0) AS grams FROM orders
JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id
WHERE charges.status = 'captured'
"""
# Our clock has no microseconds: in the same millisecond, nothing would be due yet.
LOOK_UP = "UPDATE charges SET next_attempt_at = now() - interval '1 second' WHERE status = 'pending'"
EXPIRE = "UPDATE supply_holds SET expires_at = now() - interval '1 second'"
REFUSED = "Nothing was charged. Choose a smaller amount or another option."
MAY_WAIT, LEAVING = "Delivery may take longer.", "Taking you to the payment page"


def result_of(answer: httpx.Response) -> str:
    """What became of pressing "Pay"."""
    [found] = [
        name for text, name in ((MAY_WAIT, "told"), (LEAVING, "paying"), (REFUSED, "refused")) if text in answer.text
    ]
    return found


@pytest.fixture
async def stripe() -> AsyncIterator[FakeStripePages]:
    async with fake_stripe_pages() as pages:
        yield pages


@pytest.fixture
def limits() -> dict[str, int]:
    return NO_LIMITS


@pytest.fixture
def settings(settings: Settings, stripe: FakeStripePages, limits: dict[str, int]) -> Settings:
    gateway = {"stripe_secret_key": LIVE_KEY, "stripe_api_base": stripe.url}
    return msgspec.structs.replace(settings, **gateway, **limits, trusted_proxies="127.0.0.1")


@pytest.fixture(autouse=True)
async def _closing(services: Services) -> AsyncIterator[None]:
    yield
    for gateway in services.card_gateways.values():
        await gateway.close()


@pytest.fixture
async def shop(services: Services, world: World) -> Shop:
    """A bundle with ten tonnes."""
    shop = Shop(services, world, ManualClock(utc_now()), Mode.LIVE)
    await shop.sell("wind", {"A": 1})
    await shop.supply("A", 2020, 10, retired=True)
    return shop


@pytest.fixture
async def link(services: Services, world: World, shop: Shop) -> OffsetLink:
    return await make_link(services, world.ours_live.scope, bundle_selection=offer(shop, "wind"))


def offer(shop: Shop, *bundles: str) -> list[dict[str, str]]:
    return [{"bundle_id": shop.bundle_id(name)} for name in bundles]


async def pay_page(shopper: Shopper, link: OffsetLink, amount: str = "1") -> httpx.Response:
    """The page on which the customer presses "Pay"."""
    return await shopper.open(await shopper.begin(link, amount=amount))


async def look_up(services: Services) -> None:
    await age(services, LOOK_UP)
    await work(services)


async def test_money_5_never_more_is_captured_than_there_is(
    shop: Shop, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    services = shop.services
    pages = [await pay_page(shopper, link) for _ in range(25)]
    answers = await asyncio.gather(*(shopper.send(page) for page in pages))
    assert Counter(map(result_of, answers)) == {"paying": 10, "told": 15}
    # Five pay before any worker runs.
    for session_id in list(stripe.sessions)[:5]:
        stripe.pay(session_id)
    await look_up(services)
    # Those who were told try again: the other five tonnes are still held.
    for page, answer in zip(pages, answers, strict=True):
        if result_of(answer) == "told":
            assert result_of(await shopper.send(page)) == "told"
    for session_id in list(stripe.sessions)[5:]:
        stripe.pay(session_id)
    await look_up(services)
    [captured] = await rows(CAPTURED)
    assert captured["grams"] == 10 * TONNE
    assert Counter(row["status"] for row in await rows("SELECT status FROM orders")) == {"complete": 10}
    assert await rows(HELD) == []
    await shop.check_invariants()


# More than one customer may hold, and more than all of them together.
@pytest.mark.parametrize("limits", [NO_LIMITS | {f"hold_anonymous_{each}": 1} for each in ("tonnes", "percent")])
async def test_a_limit_of_holds_is_not_told_as_a_lack_of_credits(shopper: Shopper, link: OffsetLink) -> None:
    answer = await shopper.send(await pay_page(shopper, link, "2"))
    notice = answer.text.partition('id="may-wait">')[2].partition("</p>")[0]
    assert (result_of(answer), "in stock" in answer.text) == ("told", False)
    assert not any(map(str.isdigit, notice)), "nobody learns what is left"


async def test_held_grams_are_not_free_for_others(
    shop: Shop, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    services = shop.services
    await shopper.send(await pay_page(shopper, link, "8"))
    bundle = (await services.catalogues.current(Mode.LIVE)).bundles[shop.bundle_id("wind")]
    assert bundle.free_grams == 2 * TONNE
    # An order by API is flagged, and waits although it is paid first.
    other = await shop.buy(await shop.account("Ada"), 5 * TONNE, "wind")
    assert other.lines[0].insufficient_available_quantity is True
    small = await shop.buy(await shop.account("Berta"), 2 * TONNE, "wind")
    await work(services)
    assert await shop.statuses(other, small) == ["paid", "complete"]
    # Another customer can begin: those who hold it may not pay.
    assert result_of(await shopper.send(await pay_page(shopper, link))) == "told"
    [session_id] = stripe.sessions
    stripe.pay(session_id)
    await look_up(services)
    assert [row["status"] for row in await rows("SELECT status FROM orders WHERE email IS NOT NULL")] == ["complete"]
    assert await shop.statuses(other) == ["paid"]
    await shop.check_invariants()


async def test_a_failed_payment_releases_what_was_held_and_another_try_holds_it_again(
    services: Services, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    page = await pay_page(shopper, link, "10")
    await shopper.send(page)
    assert [(row["quantity_grams"], row["reserved_grams"]) for row in await rows(HELD)] == [(10 * TONNE, 10 * TONNE)]
    [first] = stripe.sessions
    stripe.expire(first)
    await look_up(services)
    assert await rows(HELD) == []
    again = await shopper.open(form_of(page).action.removesuffix("/pay"))
    await shopper.send(again)
    assert len(await rows(HELD)) == 1
    await work(services)
    assert len(await rows(HELD)) == 1, "the failure of the first charge does not end the second hold"
    [second] = [each for each in stripe.sessions if each != first]
    stripe.pay(second)
    await look_up(services)
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["complete"]


async def test_a_hold_expires_unless_a_charge_is_open(
    shop: Shop, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    services = shop.services
    await shopper.send(await pay_page(shopper, link, "10"))
    await age(services, EXPIRE)
    await work(services)
    assert len(await rows(HELD)) == 1, "the page at the gateway may still be paid"
    [session_id] = stripe.sessions
    stripe.expire(session_id)
    await look_up(services)
    assert await rows(HELD) == []
    # A process that died before the order was placed leaves a hold without an order.
    await shopper.send(await pay_page(shopper, link, "10"))
    await age(services, "UPDATE supply_holds SET checkout_id = 'chk_gone', order_id = NULL")
    await work(services)
    assert len(await rows(HELD)) == 1
    await age(services, EXPIRE)
    await work(services)
    assert await rows(HELD) == []
    await shop.check_invariants()


async def test_a_cancelled_order_holds_nothing(
    services: Services, world: World, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    await shopper.send(await pay_page(shopper, link, "10"))
    [order] = await rows("SELECT id FROM orders")
    headers = {"Authorization": f"Bearer {world.ours_live.key}"}
    assert (await shopper.http.post(f"/v1/orders/{order['id']}/cancel", headers=headers)).status_code == 200
    await services.release_holds.run_once()
    assert await rows(HELD) == []


async def test_a_price_that_changed_holds_nothing(
    services: Services, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    page = await pay_page(shopper, link, "10")
    await age(services, "UPDATE bundles SET unit_price_minor = unit_price_minor + 100")
    await age(services, "UPDATE catalogues SET version = version + 1")
    assert "The price has changed from" in (await shopper.send(page)).text
    assert await rows(HELD) == []


async def test_money_5_two_bundles_over_one_project_are_checked_together(
    services: Services, world: World, shop: Shop, shopper: Shopper, rows: Rows
) -> None:
    await shop.sell("also", {"A": 1})
    # A mix with percentages: both are chosen when the page opens.
    mix = [{**each, "percentage": "50"} for each in offer(shop, "wind", "also")]
    both = await make_link(services, world.ours_live.scope, bundle_selection=mix)
    answer = await shopper.choose(both, amount="20")
    assert answer.status_code == 422
    assert "Not enough of The wind and The also. Choose a smaller amount or another option." in answer.text
    # Ten tonnes are possible. When one is gone at the moment of paying, nothing is charged.
    page = await pay_page(shopper, both, "10")
    await shop.buy(await shop.account("Ada"), TONNE, "wind")
    await work(services)
    refused = await shopper.send(page)
    assert refused.status_code == 422
    assert f"Not enough of The wind and The also. {REFUSED}" in refused.text
    assert await rows("SELECT id FROM charges") == await rows(HELD) == []


async def test_a_fraction_reserves_a_whole_unit(services: Services, shop: Shop, shopper: Shopper, rows: Rows) -> None:
    """Customers of different accounts cannot share a unit of a lot that is not retired yet."""
    await shop.sell("sun", {"S": 1})
    await shop.supply("S", 2020, 1)
    links = [
        await make_link(services, await shop.account(name), bundle_selection=offer(shop, "sun"))
        for name in ("Ada", "Berta")
    ]
    pages = [await pay_page(shopper, link, "0.4") for link in links]
    answers = [await shopper.send(page) for page in pages]
    assert [result_of(answer) for answer in answers] == ["paying", "told"]
    assert [(row["quantity_grams"], row["reserved_grams"]) for row in await rows(HELD)] == [(400_000, TONNE)]


async def test_a_lot_that_is_held_is_not_withdrawn(
    services: Services, shop: Shop, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    await shopper.send(await pay_page(shopper, link, "4"))
    [lot] = await rows("SELECT lots.id FROM lots JOIN supply_holds USING (mode, project_id)")
    with pytest.raises(LotInUse, match="Customers who are paying now hold tonnes"):
        async with services.database.transaction() as tx:
            await withdraw_lot(tx, lot["id"], reason="Wrong file.", by=TESTER.now())
    await age(services, "DELETE FROM supply_holds")
    async with services.database.transaction() as tx:
        await withdraw_lot(tx, lot["id"], reason="Wrong file.", by=TESTER.now())
    await shop.check_invariants()


async def test_a_project_whose_tonnes_are_held_stays_in_its_bundle(
    shop: Shop, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink
) -> None:
    """Otherwise the order would be paid and wait for another project, and its tonnes would stay held."""
    assert (await shopper.send(await pay_page(shopper, link, "3"))).status_code == 200
    with pytest.raises(SheetInvalid, match="hold tonnes of a project that is removed: import again in 35 minutes"):
        await shop.sell("wind", {"B": 1})
    stripe.pay(next(iter(stripe.sessions)))
    await look_up(shop.services)
    await shop.sell("wind", {"B": 1})
    await shop.check_invariants()


async def test_a_payment_that_fails_does_not_release_what_a_later_one_holds(
    shop: Shop, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    """Two tabs with the same checkout: the price changes in one, while the other is about to place the order."""
    services = shop.services
    await shopper.begin(link, amount="3")
    [row] = await rows("SELECT token_hash FROM checkouts")
    async with services.database.connection() as connection:
        checkout = await find_checkout(connection, row["token_hash"])
    assert checkout is not None
    terms = (await services.directory.terms_of(checkout.scope)).paid_by(PaymentMethod.CARD)
    basis = terms, await services.catalogues.current(Mode.LIVE)
    now = utc_now()

    def hold(at: datetime) -> AbstractAsyncContextManager[object]:
        return holding(services.database, checkout, basis, buyer=Buyer("::1"), settings=services.settings, now=at)

    async def fail_after(*later: AbstractAsyncContextManager[object]) -> None:
        async with hold(now):
            for each in later:
                async with each:
                    pass
            raise OfferChanged

    with pytest.raises(OfferChanged):
        await fail_after()
    assert await rows(HELD) == []
    with pytest.raises(OfferChanged):
        await fail_after(hold(now + timedelta(seconds=1)))
    assert [row["quantity_grams"] for row in await rows(HELD)] == [3 * TONNE]


async def test_a_hold_names_the_order_that_another_tab_has_placed_meanwhile(
    shop: Shop, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    """Otherwise the order would be paid, and what is held for it would be for nobody."""
    services = shop.services
    await shopper.send(await pay_page(shopper, link, "3"))
    stripe.expire(next(iter(stripe.sessions)))
    await look_up(services)
    [row] = await rows("SELECT token_hash, order_id FROM checkouts")
    async with services.database.connection() as connection:
        checkout = await find_checkout(connection, row["token_hash"])
    assert checkout is not None
    as_it_was = replace(checkout, status=CheckoutStatus.OPEN, order_id=None)
    terms = (await services.directory.terms_of(checkout.scope)).paid_by(PaymentMethod.CARD)
    basis = terms, await services.catalogues.current(Mode.LIVE)
    buyer = Buyer("::1")
    async with holding(services.database, as_it_was, basis, buyer=buyer, settings=services.settings, now=utc_now()):
        [held] = await rows("SELECT order_id, charges_before FROM supply_holds")
    assert (held["order_id"], held["charges_before"]) == (row["order_id"], 1)
    await work(services)
    assert len(await rows(HELD)) == 1, "the charge that failed before does not end it"


@pytest.mark.parametrize("limits", [{}])
async def test_who_cannot_hold_an_amount_is_told_before_paying(
    shop: Shop, shopper: Shopper, stripe: FakeStripePages, link: OffsetLink, rows: Rows
) -> None:
    services = shop.services
    await shop.supply("A", 2021, 90, retired=True)
    page = await pay_page(shopper, link, "12")
    told = await shopper.send(page)
    assert result_of(told) == "told"
    assert "get all of your money back" in told.text
    assert await rows("SELECT id FROM orders") == await rows(HELD) == []
    # The second press pays, without a hold. The order gets what is free.
    assert result_of(await shopper.send(told)) == "paying"
    assert await rows(HELD) == []
    [series] = [each for each in services.checkout_page.payment.metrics[0].snapshot().series if each[0][1] == "paying"]
    assert series == (("amount", "paying"), [1.0])
    stripe.pay(next(iter(stripe.sessions)))
    await look_up(services)
    assert [row["status"] for row in await rows("SELECT status FROM orders")] == ["complete"]
    # Now the address has paid for 12 t, and can hold as much; also in other letters.
    known = await shopper.open(await shopper.begin(link, amount="12", email="ANN@example.com"))
    assert result_of(await shopper.send(known)) == "paying"
    assert [row["trust"] for row in await rows("SELECT trust FROM supply_holds")] == ["known"]
    await age(services, "DELETE FROM supply_holds")
    await age(services, "UPDATE orders SET refunded_minor = 1")
    assert result_of(await shopper.send(await pay_page(shopper, link, "12"))) == "told"


@pytest.mark.parametrize("limits", [{}])
async def test_the_merchant_vouches_for_checkouts_of_its_server_and_for_signed_amounts(
    shop: Shop, world: World, shopper: Shopper, link: OffsetLink, rows: Rows
) -> None:
    await shop.supply("A", 2021, 90, retired=True)
    once = signed(link, quantity="20", external_id="sale 1")
    many_times = signed(link, quantity="20")
    any_amount = signed(link, external_id="sale 2")
    results = []
    for query in (once, many_times, any_amount):
        begun = await shopper.begin(link, query=query, **({} if "quantity" in query else {"amount": "20"}))
        results.append(result_of(await shopper.send(await shopper.open(begun))))
    assert results == ["paying", "told", "told"]
    headers = {"Authorization": f"Bearer {world.ours_live.key}"}
    body = {"offset_link_id": link.id, "quantity": "15", "email": "eve@example.com"}
    made = await shopper.http.post("/v1/checkouts", json=body, headers=headers)
    assert made.status_code == 201, made.text
    address = made.json()["url"].removeprefix(shop.services.settings.base_url)
    assert result_of(await shopper.send(await shopper.open(address))) == "paying"
    assert [row["trust"] for row in await rows("SELECT trust FROM supply_holds")] == ["trusted", "trusted"]
    await shop.services.release_holds.run_once()
    held = shop.services.release_holds.metrics[0].snapshot().series
    assert held == [(("trusted",), [35 * TONNE]), (("known",), [0]), (("anonymous",), [0]), (("order",), [0])]
