"""Stories of money that goes back, through Stripe's stand-in, the worker's jobs, the command line and the pages.

localstripe has no disputes: `tests/support/stripe_disputes.py` adds them. Commands read the real clock, so the frozen
clock of the jobs is set behind it whenever a command has run.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from datetime import date, timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import httpx
import msgspec
import pytest

from tests.channels.checkout.shopper import Shopper, make_link
from tests.money.cards.card_scene import total
from tests.money.cards.gateways.fake_stripe_pages import FakeStripePages, fake_stripe_pages
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY, StripeUnderTest, stripe_under_test
from tests.money.cards.gateways.localstripe_server import localstripe
from tests.money.invoices.bank import ADA_IBAN, Line, camt_file
from tests.support.clock import ManualClock
from tests.support.command import tonne
from tests.support.scene import Scene
from tests.support.stripe_disputes import change_refund_at_stripe, dispute_at_stripe
from tests.support.world import SELLER, TESTER, World
from tonne.apps.wiring.app import Services, build_app
from tonne.money.cards.stored_cards.stored_cards import describe_card, store_card
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope, utc_now
from tonne.selling.orders.model import Order

SECRET = "whsec_" + "s" * 32
QUIET = {"deliver_webhooks", "poll_gateways"}


class MoneyDesk(Scene):
    """An operator, the worker, and what Stripe and the bank do."""

    scope: Scope
    folder: Path
    stripe_url: str
    subject: StripeUnderTest

    def run(self, *words: str) -> CompletedProcess[str]:
        stripe = {"stripe_secret_key": LIVE_KEY, "stripe_api_base": self.stripe_url}
        done = tonne(*words, database_url=self.database._url, **SELLER, **stripe)
        self.clock.now = max(self.clock.now, utc_now() + timedelta(seconds=1))
        return done

    def does(self, *words: str) -> str:
        done = self.run(*words)
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout.strip()

    def shows(self, *words: str) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.does(*words, "--json").splitlines()]

    def warnings(self) -> str:
        return self.run("doctor").stdout

    async def work(self) -> None:
        """All jobs but polling, which is a step of its own."""
        await self.run_jobs(*(job for job in self.services.jobs() if job.name not in QUIET))

    async def poll(self) -> None:
        [job] = [job for job in self.services.jobs() if job.name == "poll_gateways"]
        await job.run_once()
        await self.work()

    async def wait(self, **duration: float) -> None:
        self.clock.advance(**duration)
        await self.work()

    async def pay_by_card(self, value_minor: int | None = None) -> Order:
        card = await self.subject.card()
        await self.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", self.scope.account_id)
        stored = await describe_card(self.services.card_gateways, Mode.LIVE, card.customer, card.method)
        async with self.database.transaction() as tx:
            await store_card(tx, self.scope, stored, by=TESTER.at(self.clock()))
        return await self.place_order(self.scope, value_minor=value_minor)

    async def sell_out(self) -> None:
        """Orders are then paid, and wait for supply."""
        await self.execute("DELETE FROM lots WHERE mode = 'live'")

    async def reference(self, order: Order) -> str:
        return str(await self.fetchval("SELECT reference FROM charges WHERE order_id = $1", order.id))

    async def notify(self, event_type: str, order: Order) -> None:
        """A signed event about the payment of an order, with wrong content: only its reference may be used."""
        about = {"id": "x_1", "object": "thing", "payment_intent": await self.reference(order), "amount": 1}
        event = {"id": "evt_1", "object": "event", "type": event_type, "livemode": True, "data": {"object": about}}
        body, moment = json.dumps(event).encode(), int(time.time())
        digest = hmac.new(SECRET.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
        transport = httpx.ASGITransport(build_app(self.services))
        async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
            headers = {"Stripe-Signature": f"t={moment},v1={digest}", "Content-Type": "application/json"}
            answer = await http.post("/gateways/stripe/webhook", content=body, headers=headers)
        assert answer.status_code == 200
        await self.work()

    async def shown(self, order: Order) -> dict[str, Any]:
        document = await self.fetchval("SELECT wire_document FROM orders WHERE id = $1", order.id)
        found: dict[str, Any] = msgspec.json.decode(document)
        return found

    async def money(self, order: Order) -> tuple[str, str, str]:
        shown = await self.shown(order)
        return shown["status"], shown["payment_state"], shown["refunded_amount"]

    async def parcels_to_retire(self) -> int:
        return len(self.shows("retirement", "list", "--mode", "live"))


@pytest.fixture(scope="module")
def stripe_url() -> Iterator[str]:
    with localstripe() as url:
        yield url


@pytest.fixture
def settings(settings: Settings, stripe_url: str) -> Settings:
    live = {"stripe_secret_key": LIVE_KEY, "stripe_api_base": stripe_url, "stripe_webhook_secret": SECRET}
    return msgspec.structs.replace(settings, **live, **SELLER)


@pytest.fixture
async def desk(
    populated_db: Database, settings: Settings, world: World, tmp_path: Path, stripe_url: str
) -> AsyncIterator[MoneyDesk]:
    clock = ManualClock(utc_now())
    desk = MoneyDesk(Services(populated_db, settings, clock), clock)
    desk.scope, desk.folder, desk.stripe_url = world.ours_live.scope, tmp_path, settings.stripe_api_base
    async with stripe_under_test(stripe_url, LIVE_KEY) as subject:
        desk.subject = subject
        yield desk
    for gateway in desk.services.card_gateways.values():
        await gateway.close()


async def test_a_dispute_is_lost_after_allocation(desk: MoneyDesk) -> None:
    """Day 1 paid and allocated, day 2 disputed and held, day 21 lost."""
    order = await desk.pay_by_card(value_minor=100_000)
    await desk.work()
    assert (await desk.money(order))[0] == "retiring"
    before = await desk.parcels_to_retire()
    assert before > 0
    await desk.wait(days=1)
    await dispute_at_stripe(desk.stripe_url, await desk.reference(order), "needs_response", total(order))
    await desk.notify("charge.dispute.created", order)
    assert await desk.money(order) == ("retiring", "disputed", "0.00")
    assert await desk.parcels_to_retire() == 0, "held: it is not retired"
    [dispute] = desk.shows("dispute", "list")
    assert (dispute["state"], dispute["order_id"]) == ("opened", order.id)
    assert f"dispute {dispute['id']} of order {order.id}" in desk.warnings()
    await desk.wait(days=19)
    await dispute_at_stripe(desk.stripe_url, await desk.reference(order), "lost", total(order))
    await desk.notify("charge.dispute.closed", order)
    assert await desk.money(order) == ("retiring", "disputed", "0.00")
    assert await desk.parcels_to_retire() == before, "the credits are bought: they are retired after all"
    [lost] = desk.shows("dispute", "show", dispute["id"])
    assert (lost["state"], lost["withdrawn"]) == ("lost", (await desk.shown(order))["amount_due"])
    assert dispute["id"] not in desk.warnings()
    await desk.check_invariants()


async def test_a_refund_fails_twice_and_then_succeeds(desk: MoneyDesk) -> None:
    """Made on day 1, rejected by the bank on day 3, pending and rejected again, then accepted."""
    order = await desk.pay_by_card()
    await desk.work()
    desk.does("order", "refund", order.id, "--amount", "5.00", "--reason", "Delivered late")
    await desk.work()
    assert (await desk.money(order))[1:] == ("paid", "5.00")
    [first] = desk.shows("refund", "list")
    await desk.wait(days=2)
    [shown] = desk.shows("refund", "show", first["id"])
    await change_refund_at_stripe(desk.stripe_url, shown["reference"], "failed")
    await desk.notify("refund.failed", order)
    assert (await desk.money(order))[1:] == ("paid", "0.00"), "the money is not with the payer"
    assert "attempt 2: Stripe could not refund" in desk.warnings()
    await desk.wait(hours=1)
    second, _ = desk.shows("refund", "list")
    assert (second["attempt"], second["state"]) == (2, "succeeded")
    [shown] = desk.shows("refund", "show", second["id"])
    await change_refund_at_stripe(desk.stripe_url, shown["reference"], "failed")
    await desk.wait(days=1)
    await desk.poll()
    assert (await desk.money(order))[2] == "0.00", "polling found the second failure"
    await desk.wait(hours=6)
    assert (await desk.money(order))[1:] == ("paid", "5.00")
    states = [(each["attempt"], each["state"]) for each in desk.shows("refund", "list")]
    assert states == [(3, "succeeded"), (2, "failed"), (1, "failed")]
    assert "attempt 2" not in desk.warnings()
    await desk.check_invariants()


async def test_an_order_paid_by_bank_is_cancelled_and_the_money_returned(desk: MoneyDesk) -> None:
    await desk.sell_out()
    order = await desk.place_order(desk.scope)
    await desk.work()
    due = (await desk.shown(order))["amount_due"]
    paid = Line(date(2026, 3, 5), total(order), "TN-LIVE-000001", reference="B1")
    (desk.folder / "march.xml").write_bytes(camt_file([paid]))
    desk.does("invoice", "import-statement", str(desk.folder / "march.xml"), "--mode", "live")
    await desk.work()
    assert await desk.money(order) == ("paid", "paid", "0.00")
    desk.does("order", "cancel", order.id, "--refund", "--reason", "No supply")
    await desk.work()
    assert await desk.money(order) == ("cancelled", "paid", "0.00"), "not before the bank has sent it"
    assert await desk.fetchval("SELECT total_minor FROM credit_notes") == total(order)
    [refund] = desk.shows("refund", "list")
    assert (refund["state"], refund["method"], refund["amount"]) == ("due", "bank", due)
    file = desk.folder / "returns.xml"
    desk.does("transfer", "export-returns", "-o", str(file))
    assert ADA_IBAN in file.read_text(encoding="utf-8"), "to the account that it came from"
    [planned] = desk.shows("transfer", "returns")
    desk.does("transfer", "returned", planned["id"], "--note", "Seen at the bank")
    await desk.wait(minutes=11)
    assert await desk.money(order) == ("cancelled", "refunded", due)
    await desk.check_invariants()


async def test_an_order_paid_by_card_without_supply_is_cancelled(desk: MoneyDesk) -> None:
    await desk.sell_out()
    order = await desk.pay_by_card()
    await desk.work()
    assert await desk.money(order) == ("paid", "paid", "0.00")
    done = desk.run("order", "cancel", order.id, "--reason", "No supply")
    assert "tonne order cancel --refund" in done.stderr
    desk.does("order", "cancel", order.id, "--refund", "--reason", "No supply")
    shown = await desk.shown(order)
    assert (shown["status"], shown["cancellation_reason"]) == ("cancelled", "requested_by_operator")
    await desk.work()
    assert await desk.money(order) == ("cancelled", "refunded", shown["amount_due"])
    assert await desk.subject.given_back(await desk.reference(order)) == total(order)
    assert (await desk.event_types(order))[-3:] == ["order.paid", "order.cancelled", "order.payment_updated"]
    await desk.check_invariants()


async def test_a_refund_begun_at_stripe_is_found_by_polling_alone(desk: MoneyDesk) -> None:
    order = await desk.pay_by_card()
    await desk.work()
    await desk.poll()
    sdk = desk.subject._sdk
    await sdk.refunds.create_async({"payment_intent": await desk.reference(order), "amount": 300})
    await desk.work()
    assert (await desk.money(order))[2] == "0.00", "nobody has told us"
    await desk.wait(minutes=15)
    await desk.poll()
    assert (await desk.money(order))[1:] == ("paid", "3.00")
    [refund] = desk.shows("refund", "list")
    assert (refund["purpose"], refund["state"]) == ("gateway", "succeeded")
    await desk.wait(minutes=15)
    await desk.poll()
    assert len(desk.shows("refund", "list")) == 1, "found once"
    await desk.check_invariants()


async def test_a_payment_of_another_amount_is_sent_back(
    populated_db: Database, settings: Settings, world: World, browser: httpx.AsyncClient
) -> None:
    async with fake_stripe_pages() as stripe:
        settings = msgspec.structs.replace(settings, stripe_api_base=stripe.url)
        desk = MoneyDesk(Services(populated_db, settings, utc_now), ManualClock(utc_now()), settings)
        desk.stripe_url = stripe.url
        transport = httpx.ASGITransport(build_app(desk.services))
        async with httpx.AsyncClient(transport=transport, base_url=browser.base_url, follow_redirects=False) as http:
            await _mismatch(desk, world, Shopper(http), stripe)
        for gateway in desk.services.card_gateways.values():
            await gateway.close()


async def _mismatch(desk: MoneyDesk, world: World, shopper: Shopper, stripe: FakeStripePages) -> None:
    address = await shopper.begin(await make_link(desk.services, world.ours_live.scope))
    await shopper.pay(address)
    [session] = stripe.sessions.values()
    session["amount_total"] -= 1
    stripe.pay(session["id"])
    await desk.execute("UPDATE charges SET next_attempt_at = now() - interval '1 s'")
    await desk.work()
    page = await shopper.open(address)
    assert "Your payment arrived with another amount" in page.text
    assert "Please don't pay again" in page.text.replace("&#39;", "'").replace("&rsquo;", "'")
    assert "Pay €" not in page.text
    [charge] = await desk.fetch("SELECT id, reference, status FROM charges")
    assert charge["status"] == "mismatched"
    assert f"charge {charge['id']} of order" in desk.warnings()
    refused = desk.run("charge", "refund", "chg_unknown", "--reason", "Less arrived")
    assert refused.returncode == 1
    # In a thread: the stand-in answers in this event loop.
    words = ("charge", "refund", charge["id"], "--reason", "Less arrived")
    assert "goes back. The order is cancelled." in await asyncio.to_thread(desk.does, *words)
    await desk.work()
    assert await desk.fetchval("SELECT status FROM charges") == "refunded"
    assert stripe.given_back(charge["reference"]) == stripe.intents[charge["reference"]]["amount_received"]
    [order] = await desk.fetch("SELECT status, cancellation_reason, payment_state FROM orders")
    assert tuple(order) == ("cancelled", "payment_mismatched", "unpaid")
    assert "This order was cancelled" in (await shopper.open(address)).text
    await desk.check_invariants()
