"""A gateway that answers some charges late: the other orders do not wait for them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from urllib.parse import parse_qsl

import pytest
from aiohttp import web

from tests.money.cards.card_scene import CardScene
from tests.money.cards.gateways.fake_stripe import FakeStripe, fake_stripe, intent
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.cards.charge_cards import CONCURRENCY, ChargeCards
from tonne.money.cards.gateways.card import CardDetails
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.money.cards.model import RetrySchedule
from tonne.money.cards.stored_cards import stored_card_store
from tonne.money.invoices.card_payment.take_collections import TakeCollections
from tonne.platform.values.context import Mode
from tonne.selling.orders.model import Order

ORDERS = 20


class SlowScene(CardScene):
    """Live orders at a fake Stripe that answers the charges of some orders only when it is released."""

    def at_stripe(self, gateway: StripeCardGateway, stripe_api: FakeStripe) -> None:
        self.slow: set[str] = set()
        self.is_released = asyncio.Event()
        self.gateways = {"stripe": gateway}
        self.worker = ChargeCards(
            self.database,
            self.clock,
            self.gateways,
            Mode.LIVE,
            RetrySchedule(self.settings),
            TakeCollections(self.settings),
        )
        stripe_api.respond_with(self.answer)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = dict(parse_qsl(await request.text()))
        if asked["metadata[order_id]"] in self.slow:
            await self.is_released.wait()
        amount = int(asked["amount"])
        made = intent(id=f"pi_{asked['metadata[charge_id]']}", livemode=True, amount=amount, amount_received=amount)
        return web.json_response(made)

    async def place_by_card(self, count: int) -> list[Order]:
        await self.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", self.scope.account_id)
        card = CardDetails("cus_1", "pm_1", "visa", "4242", "2049-04", "fp_1")
        async with self.database.transaction() as tx:
            await stored_card_store.store_card(tx, self.scope, card, gateway="stripe", now=self.clock())
        return [await self.place_order(self.scope) for _ in range(count)]

    async def count_paid(self) -> int:
        paid: int = await self.fetchval("SELECT count(*) FROM orders WHERE status = 'paid'")
        return paid


@pytest.fixture
async def scene(services: Services, world: World) -> AsyncIterator[SlowScene]:
    made = SlowScene(services, world.ours_live)
    async with fake_stripe() as stripe_api:
        gateway = StripeCardGateway(LIVE_KEY, stripe_api.url)
        made.at_stripe(gateway, stripe_api)
        yield made
        made.is_released.set()
        await made.worker.drain()
        await gateway.close()


async def test_money_20_one_slow_answer_holds_up_no_other_order(
    scene: SlowScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = await scene.place_by_card(ORDERS)
    scene.slow = {orders[3].id}
    working = asyncio.create_task(scene.worker.run_once())

    async def are_all_others_paid() -> bool:
        return await scene.count_paid() == ORDERS - 1

    await scene.until(are_all_others_paid)
    assert await scene.outcomes(orders[3]) == [("pending", None)]
    # Nor does it hold up the next batch.
    monkeypatch.setattr("tonne.money.cards.charge_cards.PATIENCE", timedelta())
    assert await working
    [later] = await scene.place_by_card(1)
    assert await scene.worker.run_once()
    assert await scene.status(later) == "paid"
    assert not await scene.worker.run_once()
    scene.is_released.set()
    await scene.worker.drain()
    assert await scene.status(orders[3]) == "paid"
    await scene.check_invariants()


async def test_money_20_nothing_is_claimed_while_every_slot_waits(
    scene: SlowScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonne.money.cards.charge_cards.PATIENCE", timedelta())
    orders = await scene.place_by_card(CONCURRENCY)
    scene.slow = {order.id for order in orders}
    assert await scene.worker.run_once()
    [later] = await scene.place_by_card(1)
    assert await scene.worker.run_once()
    assert await scene.charges(later) == []
    scene.is_released.set()
    await scene.worker.drain()
    assert await scene.worker.run_once()
    assert await scene.count_paid() == CONCURRENCY + 1
    await scene.check_invariants()
