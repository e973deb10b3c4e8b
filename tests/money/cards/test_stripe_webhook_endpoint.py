"""Live orders charged through localstripe, and the events that Stripe sends."""

import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.money.cards.card_scene import CardScene, total
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY, Behaviour, StripeUnderTest, stripe_under_test
from tests.money.cards.gateways.localstripe_server import localstripe
from tests.support.api_client import codes
from tests.support.clock import START, ManualClock
from tests.support.orders import place
from tests.support.refund_jobs import RefundJobs
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services, build_app
from tonne.money.cards.charge_cards import ChargeCards
from tonne.money.cards.gateways.card import StoredCard
from tonne.money.cards.model import RetrySchedule
from tonne.money.cards.stored_cards.stored_cards import describe_card, store_card
from tonne.money.invoices.card_payment.take_collections import TakeCollections
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

SECRET = "whsec_" + "s" * 32
OTHER_SECRET = "whsec_" + "o" * 32
ADDRESS = "/gateways/stripe/webhook"


@pytest.fixture(scope="module")
def stripe_url() -> Iterator[str]:
    with localstripe() as url:
        yield url


@pytest.fixture
async def subject(stripe_url: str) -> AsyncIterator[StripeUnderTest]:
    async with stripe_under_test(stripe_url, LIVE_KEY) as subject:
        yield subject


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def services(populated_db: Database, settings: Settings, clock: ManualClock) -> Services:
    return Services(populated_db, msgspec.structs.replace(settings, stripe_webhook_secret=SECRET), clock)


@pytest.fixture
async def http(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


class LiveScene(CardScene):
    """The same with the cards of localstripe."""

    def at_stripe(self, subject: StripeUnderTest) -> None:
        self.gateways = {"stripe": subject.gateway}
        self.worker = ChargeCards(
            self.database,
            self.clock,
            self.gateways,
            Mode.LIVE,
            RetrySchedule(self.settings),
            TakeCollections(self.settings),
        )
        self.refunds = RefundJobs(self.database, self.gateways, self.clock, RetrySchedule(self.settings))

    async def order_with(self, card: StoredCard) -> Order:
        await self.pay_by_card(None)
        stored = await describe_card(self.gateways, Mode.LIVE, card.customer, card.method)
        async with self.database.transaction() as tx:
            await store_card(tx, self.scope, stored, by=TESTER.at(self.clock()))
        return await place(self.services, self.scope, self.clock())


@pytest.fixture
def scene(services: Services, world: World, clock: ManualClock, subject: StripeUnderTest) -> LiveScene:
    scene = LiveScene(services, world.ours_live, clock)
    scene.at_stripe(subject)
    return scene


def _event(
    charge_id: str | None, event_type: str = "payment_intent.succeeded", *, livemode: bool = True, **fields: Any
) -> bytes:
    about = {"id": "pi_1", "object": "payment_intent", "metadata": {"charge_id": charge_id}, **fields}
    event = {"id": "evt_1", "object": "event", "type": event_type, "livemode": livemode, "data": {"object": about}}
    return json.dumps(event).encode()


def _signature(body: bytes, secret: str = SECRET, at: int | None = None) -> str:
    moment = int(time.time()) if at is None else at
    digest = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={moment},v1={digest}"


async def _send(http: httpx.AsyncClient, body: bytes, signature: str | None = None) -> httpx.Response:
    headers = {"Stripe-Signature": _signature(body) if signature is None else signature}
    return await http.post(ADDRESS, content=body, headers={**headers, "Content-Type": "application/json"})


async def test_an_order_is_paid_through_stripe(scene: LiveScene, subject: StripeUnderTest) -> None:
    card = await subject.card()
    order = await scene.order_with(card)
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert await subject.taken(card) == [total(order)]
    [charge] = await scene.charges(order)
    assert (charge["gateway"], charge["status"], charge["amount_minor"]) == ("stripe", "captured", total(order))
    assert charge["reference"].startswith("pi_")
    assert await scene.breaches() == {}


async def test_a_decline_at_stripe_is_retried_on_schedule(scene: LiveScene, subject: StripeUnderTest) -> None:
    order = await scene.order_with(await subject.card(Behaviour.SOFT))
    assert await scene.work()
    assert await scene.outcomes(order) == [("failed", "declined")]
    assert await scene.due_at(order) == START + timedelta(hours=1)


async def test_an_order_cancelled_while_stripe_charges_it_is_refunded(
    scene: LiveScene, subject: StripeUnderTest
) -> None:
    order = await scene.order_with(await subject.card())
    answers = await scene.worker.call_gateways(await scene.worker.claim())
    await scene.cancel(order)
    await scene.worker.settle(answers)
    assert await scene.refunds.run_once()
    [charge] = await scene.charges(order)
    assert charge["status"] == "refunded"
    assert await subject.given_back(charge["reference"]) == total(order)


async def test_an_event_makes_its_charge_due_at_once(
    scene: LiveScene, subject: StripeUnderTest, http: httpx.AsyncClient
) -> None:
    card = await subject.card()
    order = await scene.order_with(card)
    await scene.worker.call_gateways(await scene.worker.claim())
    # The worker dies. Without the event, the charge would be looked up in two minutes.
    assert not await scene.work()
    [charge] = await scene.charges(order)
    body = _event(charge["id"], amount_received=1)
    for _ in range(2):
        answer = await _send(http, body)
        assert (answer.status_code, answer.json()) == (200, {"received": True})
    assert await scene.status(order) == "placed", "the event itself proves nothing"
    assert await scene.work()
    assert await scene.status(order) == "paid"
    assert await subject.taken(card) == [total(order)]
    assert (await _send(http, body)).status_code == 200, "Stripe repeats itself"
    assert not await scene.work()
    assert await scene.breaches() == {}


async def test_a_false_event_changes_nothing(
    scene: LiveScene, subject: StripeUnderTest, http: httpx.AsyncClient
) -> None:
    """A signed event about a charge that was never made: the look-up finds nothing."""
    order = await scene.order_with(await subject.card())
    await scene.worker.claim()
    [charge] = await scene.charges(order)
    await _send(http, _event(charge["id"]))
    assert await scene.work()
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("pending", "not_found")]


@pytest.mark.parametrize(
    "signature",
    [
        "",
        "t=1,v1=00",
        "nonsense",
        "t=x,v1=é",
        _signature(_event("chg_1"), secret=OTHER_SECRET),
        _signature(_event("chg_1"), at=int(time.time()) - 3600),
        _signature(_event("chg_2")),
    ],
    ids=["none", "too-old-and-wrong", "nonsense", "no-time", "another-secret", "an-hour-old", "another-event"],
)
async def test_an_event_without_a_fresh_signature_is_refused(http: httpx.AsyncClient, signature: str) -> None:
    body = _event("chg_1")
    answer = await http.post(ADDRESS, content=body, headers={b"Stripe-Signature": signature.encode()})
    assert (answer.status_code, codes(answer)) == (400, ["signature_invalid"])


async def test_an_unsigned_event_is_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post(ADDRESS, content=_event("chg_1"))
    assert (answer.status_code, codes(answer)) == (400, ["signature_invalid"])


async def test_forged_events_do_not_use_up_the_share_of_real_ones(
    services: Services, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both come from one network here, as behind a proxy whose address is not trusted."""
    charged, entered = list[str](), services.admission.enter

    async def enter(name: str, *, takes_place: bool = True) -> int:
        charged.append(name)
        return await entered(name, takes_place=takes_place)

    monkeypatch.setattr(services.admission, "enter", enter)
    body = _event("chg_1")
    assert (await _send(http, body, _signature(body))).status_code == 200
    for forged in ("t=1,v1=x", "", "v1=" + "0" * 64, _signature(body, secret=OTHER_SECRET), _signature(body + b" ")):
        assert (await _send(http, body, forged)).status_code == 400
    assert charged == ["stripe"] + ["127.0.0.1"] * 5


async def test_an_old_signature_made_with_the_right_secret_is_refused(http: httpx.AsyncClient) -> None:
    body = _event("chg_1")
    answer = await _send(http, body, _signature(body, at=int(time.time()) - 301))
    assert (answer.status_code, codes(answer)) == (400, ["signature_invalid"])


async def test_an_event_does_not_make_a_simulated_charge_due(
    services: Services, world: World, clock: ManualClock, http: httpx.AsyncClient
) -> None:
    scene = CardScene(services, world.ours_test, clock)
    order = await scene.order()
    await scene.worker.claim()
    [charge] = await scene.charges(order)
    assert (await _send(http, _event(charge["id"]))).status_code == 200
    assert not await scene.work()


@pytest.mark.parametrize("charge_id", [None, "chg_unknown", "chg_\x00", "x" * 10_000])
async def test_events_about_unknown_objects_are_accepted_and_ignored(
    http: httpx.AsyncClient, charge_id: str | None
) -> None:
    assert (await _send(http, _event(charge_id, "customer.created"))).status_code == 200


@pytest.mark.parametrize("event_type", ["charge.dispute.created", "refund.failed", "charge.refunded"])
async def test_disputes_and_refunds_are_logged_as_warnings(http: httpx.AsyncClient, event_type: str) -> None:
    with capture_logs() as lines:
        assert (await _send(http, _event("chg_1", event_type))).status_code == 200
    [line] = [line for line in lines if line["event"] == "stripe_event"]
    assert (line["log_level"], line["event_type"], line["reference"]) == ("warning", event_type, "pi_1")


async def test_without_a_secret_the_endpoint_returns_404(populated_db: Database, settings: Settings) -> None:
    transport = httpx.ASGITransport(build_app(Services(populated_db, settings)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        answer = await _send(client, _event("chg_1"))
        nowhere = await client.post("/gateways/nothing")
    assert answer.status_code == nowhere.status_code == 404
    assert codes(answer) == codes(nowhere) == ["route_not_found"]
