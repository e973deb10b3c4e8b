"""Live and test gateways are never mixed: a payment of the other mode pays for nothing."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.money.cards.card_scene import CardScene
from tests.money.cards.gateways.fake_stripe import FakeStripe, fake_stripe, intent, page, respond
from tests.money.cards.gateways.fake_stripe_pages import fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import KEY, LIVE_KEY, request
from tests.money.cards.gateways.page_requests import charge_on_page, gateway_at, page_request
from tests.money.cards.page_scene import PageScene
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.cards.gateways.card import CardNotFound, ChargeOutcome, PageNotOpened, StoredCard
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.gateways.metered_gateway import card_gateways
from tonne.platform.db.database import Database
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import Mode, replace

CARD = StoredCard("cus_1", "pm_1")
LIVE = replace(request(CARD), mode=Mode.LIVE)
OTHER_MODE = "no charge is captured in the other mode than its order's"


@pytest.fixture
async def stripe_api() -> AsyncIterator[FakeStripe]:
    async with fake_stripe() as made:
        yield made


@pytest.mark.parametrize("key", ["sk_test_123", "rk_test_123", "pk_test_123"])
def test_money_8_a_test_key_is_refused_by_the_settings(key: str) -> None:
    with pytest.raises(
        SettingsError, match="key of Stripe's test mode: its test cards would pay for live orders"
    ) as told:
        load_settings({"TONNE_STRIPE_SECRET_KEY": key})
    assert key not in str(told.value)


@pytest.mark.parametrize("key", ["sk_123", "pk_live_123", "live_123", "sk_live_", "sk_live_1 2"])
def test_money_8_a_key_whose_mode_is_not_known_is_refused_by_the_settings(key: str) -> None:
    with pytest.raises(SettingsError, match="starts with sk_live_ or rk_live_"):
        load_settings({"TONNE_STRIPE_SECRET_KEY": key})


@pytest.mark.parametrize("key", ["sk_live_123", "rk_live_123"])
def test_live_keys_are_accepted(key: str) -> None:
    assert load_settings({"TONNE_STRIPE_SECRET_KEY": key}).stripe_secret_key == key


async def test_money_8_no_gateway_is_made_with_a_test_key(populated_db: Database, settings: Settings) -> None:
    with pytest.raises(ValueError, match="must be a live key"):
        card_gateways(populated_db, msgspec.structs.replace(settings, stripe_secret_key=KEY))


@pytest.mark.parametrize("key", ["sk_test_123", "rk_test_123"])
async def test_money_8_a_live_order_is_never_charged_with_a_test_key(stripe_api: FakeStripe, key: str) -> None:
    stripe_api.respond_with(respond(200, intent()))
    gateway = StripeCardGateway(key, stripe_api.url)
    charged = await gateway.charge(LIVE)
    assert (charged.kind, charged.code) == (ChargeOutcome.UNAVAILABLE, "mode_mismatch")
    with pytest.raises(PageNotOpened, match="the Stripe key is a test key"):
        await gateway.open_page(page_request(replace(charge_on_page(), mode=Mode.LIVE)))
    assert stripe_api.requests == []
    await gateway.close()


async def test_money_8_a_live_order_is_never_charged_by_the_simulated_gateway(populated_db: Database) -> None:
    simulated = SimulatedCardGateway(populated_db)
    good = replace(LIVE, source=StoredCard("cus_1", "4242424242424242"))
    charged = await simulated.charge(good)
    assert (charged.kind, charged.code) == (ChargeOutcome.UNAVAILABLE, "mode_mismatch")
    assert (await simulated.look_up(good)).kind is ChargeOutcome.NOT_FOUND


async def test_money_8_the_result_states_the_mode_of_the_payment(stripe_api: FakeStripe) -> None:
    gateway = StripeCardGateway(LIVE_KEY, stripe_api.url)
    for livemode, mode in ((True, Mode.LIVE), (False, Mode.TEST)):
        found = intent(livemode=livemode, metadata={"charge_id": LIVE.id})
        stripe_api.respond_with(respond(200, found), page(found))
        assert (await gateway.charge(LIVE)).mode is mode
        assert (await gateway.look_up(LIVE)).mode is mode
    await gateway.close()


async def test_money_8_a_card_of_the_other_mode_is_not_stored(stripe_api: FakeStripe) -> None:
    card = {"brand": "visa", "last4": "4242", "exp_month": 4, "exp_year": 2049}
    method = {"id": "pm_1", "object": "payment_method", "type": "card", "customer": "cus_1", "card": card}
    stripe_api.respond_with(respond(200, {**method, "livemode": False}))
    gateway = StripeCardGateway(LIVE_KEY, stripe_api.url)
    with pytest.raises(CardNotFound, match="does not belong to Stripe's live mode"):
        await gateway.describe(CARD)
    await gateway.close()


@pytest.fixture
async def pages(populated_db: Database, settings: Settings, world: World) -> AsyncIterator[PageScene]:
    clock = ManualClock()
    async with fake_stripe_pages(clock) as fake, gateway_at(fake.url, clock=clock, key=LIVE_KEY) as gateway:
        made = PageScene(Services(populated_db, settings, clock), world.ours_live, clock)
        made.at_stripe(fake, gateway)
        yield made


async def test_money_8_a_page_of_the_other_mode_is_not_shown(pages: PageScene) -> None:
    order, charge = await pages.begin()
    page = await pages.open_page(charge)
    pages.pages.sessions[page.session_id]["livemode"] = False
    with pytest.raises(PageNotOpened, match="other mode for a live order"):
        await pages.open_page(charge)
    assert await pages.status(order) == "placed"


@pytest.mark.parametrize("told_by", [("session", "intent"), ("session",), ("intent",)])
async def test_money_8_a_test_payment_never_pays_for_a_live_order(pages: PageScene, told_by: tuple[str, ...]) -> None:
    order, charge, page = await pages.at_the_page()
    fake = pages.pages
    fake.pay(page.session_id)
    [paid] = fake.intents.values()
    if "intent" in told_by:
        paid["livemode"] = False
    if "session" in told_by:
        fake.sessions[page.session_id]["livemode"] = False
    await pages.work_for(minutes=3)
    assert await pages.status(order) == "placed"
    [row] = await pages.charges(order)
    assert (row["status"], row["code"], row["reference"]) == ("mismatched", "mode_mismatch", paid["id"])
    [place] = (await pages.breaches())[OTHER_MODE]
    assert charge.id in place
    assert paid["id"] in place


async def test_money_8_a_live_payment_never_pays_for_a_test_order(services: Services, world: World) -> None:
    scene = CardScene(services, world.ours_test)
    order = await scene.order()

    async def charge_live(asked: object) -> object:
        result = await scene.gateway.inner.charge(asked)  # type: ignore[arg-type]
        return replace(result, mode=Mode.LIVE)

    scene.gateway.faults.append(charge_live)  # type: ignore[arg-type]
    assert await scene.work()
    assert await scene.outcomes(order) == [("mismatched", "captured")]
    assert await scene.status(order) == "placed"
    assert OTHER_MODE in await scene.breaches()
