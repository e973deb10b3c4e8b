"""3-D Secure and new cards of live accounts, with a stand-in for what localstripe lacks of Stripe."""

from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp
import httpx
import msgspec
import pytest

from tests.money.cards.gateways.fake_stripe_cards import (
    CUSTOMER,
    DECLINED,
    GOOD,
    NEEDS_AUTHENTICATION,
    FakeStripeCards,
    fake_stripe_cards,
)
from tests.money.cards.payer import PayerScene, payer_scene
from tests.support.clock import ManualClock
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.stored_cards import describe_card, store_card
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

KEY = "sk_live_x"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stripe() -> AsyncIterator[FakeStripeCards]:
    async with fake_stripe_cards() as fake:
        yield fake


@pytest.fixture
def settings(settings: Settings, stripe: FakeStripeCards) -> Settings:
    return msgspec.structs.replace(settings, stripe_secret_key=KEY, stripe_api_base=stripe.url)


class LivePayer(PayerScene):
    async def place(self, method: str = NEEDS_AUTHENTICATION) -> Order:
        await self.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", self.scope.account_id)
        gateways = self.services.card_gateways
        card = await describe_card(gateways, Mode.LIVE, CUSTOMER, method)
        async with self.database.transaction() as tx:
            await store_card(tx, self.scope, card, by=TESTER.at(self.clock()))
        order = await self.place_order(self.scope)
        await self.work_all()
        return order

    async def work_all(self) -> None:
        await self.run_jobs(self.services.charge_cards[Mode.LIVE], self.services.mail_card_problems)


@pytest.fixture
async def payer(services: Services, world: World, clock: ManualClock) -> AsyncIterator[LivePayer]:
    async with payer_scene(services, world.ours_live, clock) as scene:
        live = LivePayer(services, world.ours_live, clock, scene.http)
        await live.add_admin()
        yield live
    for gateway in services.card_gateways.values():
        await gateway.close()


async def _go(page: httpx.Response, answer: str = "") -> str:
    """Follow the page that leads to the gateway; returns the path to which the payer comes back."""
    assert "Taking you to" in page.text
    url = page.text.partition('<a href="')[2].partition('"')[0]
    query = f"?answer={answer}" if answer else ""
    async with aiohttp.ClientSession() as session, session.get(f"{url}{query}", allow_redirects=False) as response:
        return response.headers["Location"].removeprefix("http://tonne.test")


async def test_the_same_payment_intent_is_confirmed_through_its_redirect(
    payer: LivePayer, stripe: FakeStripeCards
) -> None:
    order = await payer.place()
    path = (await payer.links())["Confirm the payment"]
    back = await _go(await payer.submit(await payer.open(path)), "complete")
    assert back.startswith(f"{path}?confirmed=1&payment_intent=pi_")
    done = await payer.open(back)
    assert "Thank you" in done.text, "looked up at once"
    assert await payer.status(order) == "paid"
    assert list(stripe.intents) == stripe.confirmed == stripe.captured
    assert await payer.outcomes(order) == [("captured", "captured")]
    await payer.check_invariants()


async def test_a_failed_authentication_can_be_repeated_on_the_same_intent(
    payer: LivePayer, stripe: FakeStripeCards
) -> None:
    order = await payer.place()
    path = (await payer.links())["Confirm the payment"]
    failed = await payer.open(await _go(await payer.submit(await payer.open(path)), "fail"))
    assert "The bank did not confirm the payment" in failed.text
    assert await payer.status(order) == "placed"
    assert "Thank you" in (await payer.open(await _go(await payer.submit(failed), "complete"))).text
    assert len(stripe.intents) == 1
    assert len(stripe.confirmed) == 2


async def test_leaving_the_bank_and_coming_back_uses_the_same_redirect(
    payer: LivePayer, stripe: FakeStripeCards
) -> None:
    await payer.place()
    path = (await payer.links())["Confirm the payment"]
    await payer.submit(await payer.open(path))
    again = await payer.submit(await payer.open(path))
    assert "Thank you" in (await payer.open(await _go(again, "complete"))).text
    assert len(stripe.confirmed) == 1, "an intent in requires_action cannot be confirmed again"


async def test_a_decline_after_the_confirmation_is_retried_later(payer: LivePayer, stripe: FakeStripeCards) -> None:
    order = await payer.place()
    path = (await payer.links())["Confirm the payment"]
    page = await payer.open(await _go(await payer.submit(await payer.open(path)), "no_money"))
    assert "The card has insufficient funds. We'll try again automatically." in page.text
    assert await payer.outcomes(order) == [("failed", "declined")]
    assert await payer.due_at(order) == payer.clock() + timedelta(hours=1)
    assert stripe.captured == []


async def test_the_intent_is_cancelled_before_the_order_fails(
    payer: LivePayer, stripe: FakeStripeCards, clock: ManualClock
) -> None:
    order = await payer.place()
    clock.advance(days=7)
    await payer.work_all()
    assert await payer.status(order) == "failed"
    assert list(stripe.intents) == stripe.cancelled
    await payer.check_invariants()


async def test_a_confirmation_that_races_the_end_pays_the_order(
    payer: LivePayer, stripe: FakeStripeCards, clock: ManualClock
) -> None:
    order = await payer.place()
    path = (await payer.links())["Confirm the payment"]
    await _go(await payer.submit(await payer.open(path)), "complete")
    clock.advance(days=8)
    await payer.work_all()
    assert await payer.status(order) == "paid"
    assert stripe.cancelled == []


async def test_a_card_entered_on_the_gateways_page_pays_the_declined_orders(
    payer: LivePayer, stripe: FakeStripeCards
) -> None:
    orders = [await payer.place(DECLINED), await payer.place(DECLINED)]
    path = (await payer.links())["Enter another card"]
    leaving = await payer.submit(await payer.open(path))
    stored = await payer.open(await _go(leaving))
    assert "The card is stored." in stored.text
    await payer.work_all()
    assert {await payer.status(order) for order in orders} == {"paid"}
    assert len(stripe.captured) == 2
    assert (
        await payer.fetchval("SELECT method FROM account_cards WHERE account_id = $1", payer.scope.account_id) == GOOD
    )
    [entry] = await payer.fetch("SELECT details FROM audit_log WHERE actor = 'payer:card_page'")
    assert entry is not None
    await payer.check_invariants()


async def test_the_worker_finds_the_card_of_a_payer_who_does_not_come_back(
    payer: LivePayer, stripe: FakeStripeCards, clock: ManualClock
) -> None:
    order = await payer.place()
    path = (await payer.links())["Enter another card"]
    await payer.submit(await payer.open(path))
    [session_id] = stripe.sessions
    update = payer.services.update_card
    clock.advance(minutes=5)
    assert await update.run_once()
    assert await payer.status(order) == "placed", "the page is still open"
    stripe.complete_setup(session_id)
    clock.advance(minutes=5)
    assert await update.run_once()
    clock.advance(minutes=5)
    assert not await update.run_once()
    await payer.work_all()
    assert await payer.status(order) == "paid"
    assert stripe.cancelled == ["pi_1"], "the charge that waited for a confirmation ended first"
    assert len(stripe.captured) == 1
    await payer.check_invariants()


async def test_a_session_of_another_account_stores_nothing(
    payer: LivePayer, stripe: FakeStripeCards, clock: ManualClock
) -> None:
    await payer.place(DECLINED)
    await payer.submit(await payer.open((await payer.links())["Enter another card"]))
    [session_id] = stripe.sessions
    stripe.complete_setup(session_id)
    stripe.sessions[session_id]["client_reference_id"] = "acc_other"
    clock.advance(minutes=5)
    await payer.services.update_card.run_once()
    assert await payer.fetchval("SELECT method FROM account_cards") == DECLINED


async def test_opening_the_form_again_leads_to_the_same_page(payer: LivePayer, stripe: FakeStripeCards) -> None:
    """A second page would hide the first: a card that the payer enters there would be lost."""
    order = await payer.place(DECLINED)
    path = (await payer.links())["Enter another card"]
    first = await payer.submit(await payer.open(path))
    await payer.submit(await payer.open(path))
    assert len(stripe.sessions) == 1
    assert "The card is stored." in (await payer.open(await _go(first))).text
    await payer.work_all()
    assert await payer.status(order) == "paid"


async def test_after_the_page_has_expired_the_form_opens_another(payer: LivePayer, stripe: FakeStripeCards) -> None:
    await payer.place(DECLINED)
    path = (await payer.links())["Enter another card"]
    await payer.submit(await payer.open(path))
    [session_id] = stripe.sessions
    form = await payer.open(path)
    stripe.sessions[session_id] |= {"status": "expired", "url": None}
    assert "The card is stored." in (await payer.open(await _go(await payer.submit(form)))).text
    assert len(stripe.sessions) == 2


async def test_a_card_that_stripe_no_longer_has_ends_the_page(
    payer: LivePayer, stripe: FakeStripeCards, clock: ManualClock
) -> None:
    """Otherwise the payer would see an error whenever they open the link, and the worker would try forever."""
    await payer.place(DECLINED)
    path = (await payer.links())["Enter another card"]
    stripe.entered = "pm_removed"
    back = await _go(await payer.submit(await payer.open(path)))
    shown = await payer.open(back)
    assert shown.status_code == 200
    assert "The card is stored." not in shown.text
    assert await payer.fetchval("SELECT method FROM account_cards") == DECLINED
    clock.advance(minutes=5)
    assert not await payer.services.update_card.run_once()
    stripe.entered = GOOD
    assert "The card is stored." in (await payer.open(await _go(await payer.submit(await payer.open(path))))).text


async def test_the_page_is_shown_while_stripe_cannot_describe_the_card(
    payer: LivePayer, stripe: FakeStripeCards, clock: ManualClock
) -> None:
    await payer.place(DECLINED)
    path = (await payer.links())["Enter another card"]
    stripe.entered = "pm_unreadable"
    back = await _go(await payer.submit(await payer.open(path)))
    assert (await payer.open(back)).status_code == 200
    stripe.sessions[next(iter(stripe.sessions))]["setup_intent"]["payment_method"] = GOOD
    clock.advance(minutes=5)
    assert await payer.services.update_card.run_once()
    assert await payer.fetchval("SELECT method FROM account_cards") == GOOD
