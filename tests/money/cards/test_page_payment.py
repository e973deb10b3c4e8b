"""Orders paid on Stripe's page: paid once, failed when the page expires, refunded when paid too late."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import httpx
import msgspec
import pytest

from tests.money.cards.card_scene import total
from tests.money.cards.gateways.fake_stripe import error_response, reset
from tests.money.cards.gateways.fake_stripe_pages import Fault, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.money.cards.gateways.page_requests import charge_on_page, gateway_at, page_request
from tests.money.cards.gateways.test_stripe_webhooks import signed
from tests.money.cards.page_scene import PageScene
from tests.support.clock import ManualClock
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services, build_app
from tonne.money.cards.charges import OpenedCharges
from tonne.money.cards.gateways.card import ChargeOutcome, HostedPage, PageNotOpened, PaymentPage
from tonne.money.cards.model import ChargeAttempt
from tonne.money.refunds.disputes.mismatched_charge import accept_mismatched, read_mismatched, return_mismatched
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.selling.orders.errors import TransitionInvalid
from tonne.selling.orders.model import Order

SECRET = "whsec_" + "s" * 32
DOWN = Fault(error_response(500, type="api_error", message="Sorry."))


@pytest.fixture
async def scene(populated_db: Database, settings: Settings, world: World) -> AsyncIterator[PageScene]:
    clock = ManualClock()
    services = Services(populated_db, msgspec.structs.replace(settings, stripe_webhook_secret=SECRET), clock)
    async with fake_stripe_pages(clock) as pages, gateway_at(pages.url, clock=clock, key=LIVE_KEY) as gateway:
        made = PageScene(services, world.ours_live, clock)
        made.at_stripe(pages, gateway)
        yield made


async def _session_id(scene: PageScene, order: Order) -> str | None:
    [charge] = await scene.charges(order)
    session_id: str | None = charge["session_id"]
    return session_id


async def test_a_page_that_was_paid_pays_the_order_once(scene: PageScene) -> None:
    order, charge, page = await scene.at_the_page()
    scene.pages.pay(page.session_id)
    for _ in range(3):
        await scene.work_for(minutes=5)
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("captured", "captured")]
    assert (await scene.event_types(order)).count("order.paid") == 1
    assert scene.pages.taken(charge.id) == [total(order)]
    [row] = await scene.charges(order)
    assert row["reference"] in scene.pages.intents
    assert (row["source"], row["method"], row["session_id"]) == ("hosted_page", None, page.session_id)
    assert scene.gateway.charged == [], "nobody types a card into a worker"
    assert await scene.breaches() == {}


async def test_two_workers_and_an_event_pay_the_order_once(scene: PageScene) -> None:
    order, _, page = await scene.at_the_page()
    scene.clock.advance(minutes=2)
    batch = await scene.worker.claim()
    scene.pages.pay(page.session_id)
    answers = await scene.worker.call_gateways(batch)
    await _hear(scene, scene.pages.events[-1])
    await asyncio.gather(scene.worker.settle(answers), scene.another_worker().run_once())
    scene.clock.advance(minutes=5)
    await scene.another_worker().run_once()
    assert await scene.status(order) == "paid"
    assert (await scene.event_types(order)).count("order.paid") == 1
    assert await scene.breaches() == {}


async def test_an_open_page_is_looked_up_until_it_is_paid(scene: PageScene) -> None:
    order, _, page = await scene.at_the_page()
    scene.pages.decline(page.session_id)
    await scene.work_for(minutes=30)
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("pending", "unknown")]
    [row] = await scene.charges(order)
    assert row["code"] == "page_open"
    assert scene.gateway.charged == []
    assert 3 < len(scene.gateway.looked_up) < 20
    assert len(scene.pages.sessions) == 1


async def test_an_expired_page_fails_its_charge_but_not_the_order(scene: PageScene) -> None:
    order, _, _ = await scene.at_the_page()
    await scene.work_for(hours=2)
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("failed", "refused")]
    [row] = await scene.charges(order)
    assert (row["code"], row["message"]) == ("page_expired", "The payment page expired before it was paid.")
    assert await scene.due_at(order) is None
    again = await scene.try_again(order)
    page = await scene.open_page(again)
    scene.pages.pay(page.session_id)
    await scene.work_for(minutes=5)
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("failed", "refused"), ("captured", "captured")]
    assert await scene.breaches() == {}


async def test_a_page_paid_after_the_cancellation_is_refunded(scene: PageScene) -> None:
    order, charge, page = await scene.at_the_page()
    await scene.cancel(order)
    scene.pages.pay(page.session_id)
    await scene.work_for(minutes=5)
    assert await scene.outcomes(order) == [("refund_due", "captured")]
    assert await scene.refunds.run_once()
    assert await scene.outcomes(order) == [("refunded", "captured")]
    assert await scene.status(order) == "cancelled"
    [row] = await scene.charges(order)
    assert scene.pages.given_back(row["reference"]) == total(order) == scene.pages.taken(charge.id)[0]
    assert await scene.breaches() == {}


async def test_a_payment_of_another_amount_does_not_pay_the_order(scene: PageScene) -> None:
    order, _, page = await scene.at_the_page()
    scene.pages.sessions[page.session_id]["amount_total"] -= 1
    scene.pages.pay(page.session_id)
    await scene.work_for(minutes=5)
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("mismatched", "captured")]
    assert await scene.breaches() == {}


async def test_a_charge_whose_page_was_never_opened_fails(scene: PageScene) -> None:
    order, _ = await scene.begin()
    await scene.work_for(minutes=9)
    assert await scene.outcomes(order) == [("pending", "not_found")]
    await scene.work_for(minutes=10)
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("failed", "not_found")]
    assert await scene.due_at(order) is None
    assert scene.gateway.charged == []
    assert scene.pages.sessions == {}
    await scene.cancel(order)
    assert await scene.status(order) == "cancelled"
    assert not await scene.work()
    assert await scene.breaches() == {}


async def test_a_charge_without_a_page_fails_after_the_cancellation(scene: PageScene) -> None:
    order, _ = await scene.begin()
    await scene.cancel(order)
    await scene.work_for(minutes=20)
    assert await scene.outcomes(order) == [("failed", "not_found")]


async def test_an_outage_of_stripe_does_not_restart_the_wait_for_a_page(scene: PageScene) -> None:
    order, _ = await scene.begin()
    await scene.work_for(minutes=5)
    scene.pages.faults.extend([DOWN] * 1000)
    await scene.work_for(minutes=60)
    assert await scene.outcomes(order) == [("pending", "unknown")], "nothing is given up while nobody can be asked"
    scene.pages.faults.clear()
    await scene.work_for(minutes=61)
    assert await scene.outcomes(order) == [("failed", "not_found")]


async def test_a_page_whose_response_was_lost_is_found_and_paid(scene: PageScene) -> None:
    order, charge = await scene.begin()
    scene.pages.faults.append(Fault(reset, is_done=True))
    with pytest.raises(PageNotOpened):
        await scene.open_page(charge)
    await scene.work_for(minutes=15)
    assert await scene.outcomes(order) == [("pending", "unknown")], "there is a page, so the charge is not given up"
    page = await scene.open_page(charge)
    assert len(scene.pages.sessions) == 1
    scene.pages.pay(page.session_id)
    await scene.work_for(minutes=20)
    assert await scene.status(order) == "paid"
    assert await scene.breaches() == {}


async def test_a_page_whose_id_was_not_recorded_is_settled_when_it_expires(scene: PageScene) -> None:
    order, charge = await scene.begin()
    await scene.stripe.open_page(page_request(charge, expires_at=scene.clock()))
    assert await _session_id(scene, order) is None
    await scene.work_for(hours=2)
    assert await scene.outcomes(order) == [("failed", "refused")]
    assert await scene.status(order) == "placed"


async def test_not_found_does_not_fail_a_charge_whose_page_was_recorded_meanwhile(scene: PageScene) -> None:
    order, charge = await scene.begin()
    await scene.work_for(minutes=9)
    scene.clock.advance(minutes=10)
    batch = await scene.worker.claim()
    answers = await scene.worker.call_gateways(batch)
    assert [answer.kind for _, answer in answers] == [ChargeOutcome.NOT_FOUND]
    page = await scene.open_page(charge)
    await scene.worker.settle(answers)
    assert [row["status"] for row in await scene.charges(order)] == ["pending"]
    scene.pages.pay(page.session_id)
    await scene.work_for(minutes=5)
    assert await scene.status(order) == "paid"
    assert await scene.breaches() == {}


async def test_a_page_opened_after_its_charge_failed_is_not_recorded(scene: PageScene) -> None:
    order, charge = await scene.begin()
    await scene.work_for(minutes=20)
    assert await scene.outcomes(order) == [("failed", "not_found")]
    page = await scene.stripe.open_page(page_request(charge))
    assert not await scene.name_page(charge, page), "so nobody is sent there"


async def _late_capture(scene: PageScene) -> tuple[Order, str, PaymentPage]:
    """A delayed worker finds a payment whose charge was given up, while the order's next charge is open."""
    order, charge = await scene.begin()
    scene.clock.advance(minutes=2)
    batch = await scene.worker.claim()
    await scene.work_for(minutes=20)
    assert await scene.outcomes(order) == [("failed", "not_found")]
    late = await scene.stripe.open_page(page_request(charge, expires_at=scene.clock() + timedelta(minutes=35)))
    scene.pages.pay(late.session_id)
    page = await scene.open_page(await scene.try_again(order))
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    assert await scene.outcomes(order) == [("mismatched", "captured"), ("pending", None)]
    assert await scene.status(order) == "placed"
    assert await scene.breaches() == {}
    return order, charge.id, page


async def _decide(scene: PageScene, charge_id: str, decide: Callable[..., Awaitable[Order]]) -> Order:
    async with scene.database.connection() as connection:
        payment = await read_mismatched(connection, scene.gateways, charge_id)
    async with scene.database.transaction() as tx:
        return await decide(tx, charge_id, payment, by=TESTER.at(scene.clock()), reason="Paid twice")


async def test_a_late_capture_beside_an_open_charge_waits_for_a_person_who_sends_it_back(scene: PageScene) -> None:
    order, late, page = await _late_capture(scene)
    with pytest.raises(TransitionInvalid, match="may still succeed"):
        await _decide(scene, late, accept_mismatched)
    await _decide(scene, late, return_mismatched)
    assert await scene.status(order) == "placed", "its other charge is open"
    scene.pages.pay(page.session_id)
    await scene.work_for(minutes=5)
    await scene.run_jobs(scene.refunds)
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("refunded", "captured"), ("captured", "captured")]
    assert await scene.breaches() == {}


async def test_a_late_capture_is_accepted_once_the_other_charge_has_failed(scene: PageScene) -> None:
    order, late, page = await _late_capture(scene)
    scene.pages.expire(page.session_id)
    await scene.work_for(minutes=5)
    await _decide(scene, late, accept_mismatched)
    assert await scene.status(order) == "paid"
    assert await scene.outcomes(order) == [("captured", "captured"), ("failed", "refused")]
    assert await scene.breaches() == {}


async def test_a_capture_found_before_the_page_was_recorded_counts(scene: PageScene) -> None:
    order, charge = await scene.begin()
    page = await scene.stripe.open_page(page_request(charge))
    scene.clock.advance(minutes=2)
    batch = await scene.worker.claim()
    assert await scene.name_page(charge, page)
    scene.pages.pay(page.session_id)
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    assert await scene.status(order) == "paid"
    assert await scene.breaches() == {}


@pytest.mark.parametrize("is_new", [True, False])
async def test_a_worker_never_sends_a_charge_of_a_hosted_page(scene: PageScene, is_new: bool) -> None:
    """Neither a new charge, nor after any time, nor without its gateway."""
    _, charge, _ = await scene.at_the_page()
    for source in (charge.source, HostedPage()):
        attempt = ChargeAttempt(
            scene.scope.organisation_id,
            "stripe",
            replace(charge_on_page(), source=source),
            scene.clock(),
            is_new=is_new,
            missing_since=scene.clock(),
        )
        scene.clock.advance(hours=1)
        [(_, answer)] = await scene.worker.call_gateways(OpenedCharges([attempt], []))
        assert answer.kind in {ChargeOutcome.UNKNOWN, ChargeOutcome.NOT_FOUND}
    assert scene.gateway.charged == []


async def _hear(scene: PageScene, event: bytes) -> None:
    transport = httpx.ASGITransport(build_app(scene.services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        headers = {"Stripe-Signature": signed(event, secret=SECRET), "Content-Type": "application/json"}
        answer = await http.post("/gateways/stripe/webhook", content=event, headers=headers)
        assert (answer.status_code, answer.json()) == (200, {"received": True})


@pytest.mark.parametrize("kind", ["payment_intent.succeeded", "checkout.session.completed"])
async def test_an_event_about_the_page_settles_its_charge_at_once(scene: PageScene, kind: str) -> None:
    order, _, page = await scene.at_the_page()
    scene.pages.pay(page.session_id)
    assert not await scene.work(), "it would be looked at in two minutes"
    [event] = [event for event in scene.pages.events if json.loads(event)["type"] == kind]
    for _ in range(2):
        await _hear(scene, event)
    assert await scene.status(order) == "placed", "the event itself proves nothing"
    assert await scene.work()
    assert await scene.status(order) == "paid"
    await _hear(scene, event)
    assert not await scene.work()


async def test_an_event_that_the_page_has_expired_fails_its_charge_at_once(scene: PageScene) -> None:
    order, _, page = await scene.at_the_page()
    scene.pages.expire(page.session_id)
    await _hear(scene, scene.pages.events[-1])
    assert await scene.work()
    assert await scene.outcomes(order) == [("failed", "refused")]
    assert await scene.status(order) == "placed"


@pytest.mark.parametrize(
    "kind",
    [
        "checkout.session.completed",
        "checkout.session.expired",
        "checkout.session.async_payment_succeeded",
        "checkout.session.async_payment_failed",
    ],
)
async def test_a_false_event_about_a_page_only_causes_a_look_up(scene: PageScene, kind: str) -> None:
    order, _, page = await scene.at_the_page()
    about = scene.pages.sessions[page.session_id] | {"status": "complete", "payment_status": "paid"}
    event = {"id": "evt_1", "object": "event", "type": kind, "livemode": True, "data": {"object": about}}
    await _hear(scene, json.dumps(event).encode())
    assert await scene.work()
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("pending", "unknown")]


async def test_the_page_of_another_order_does_not_pay_this_one(scene: PageScene) -> None:
    order, _, _ = await scene.at_the_page()
    _, _, other = await scene.at_the_page()
    scene.pages.pay(other.session_id)
    await scene.execute("UPDATE charges SET session_id = $2 WHERE order_id = $1", order.id, other.session_id)
    await scene.work_for(minutes=5)
    assert await scene.status(order) == "placed"
    assert await scene.outcomes(order) == [("pending", "unknown")]
