"""A live account whose orders are too small for a card payment, with a stand-in for Stripe."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg
import msgspec

from tests.money.cards.card_scene import CardScene
from tests.money.cards.gateways.fake_stripe_cards import CUSTOMER, GOOD, FakeStripeCards, fake_stripe_cards
from tests.money.cards.gateways.gateway_under_test import LIVE_KEY
from tests.money.invoices.bank import Line, camt_file
from tests.support.clock import ManualClock
from tests.support.world import SELLER, TESTER, Tenant, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.cards.stored_cards.stored_cards import set_card
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.accounts.store import add_admin
from tonne.selling.orders.model import Order

PARCEL = 2_400
# They call other services, which these tests have no part of.
_LEFT_OUT = {"deliver_webhooks", "send_mails", "make_partitions", "remove_partitions", "fold_order_totals"}
# Allocation is not needed to see who pays.
_MONEY_ONLY = _LEFT_OUT | {"allocate_orders"}


class SmallOrders(CardScene):
    """A shop that offsets parcels of 2.4 kg: 0.04 EUR each."""

    def __init__(self, services: Services, tenant: Tenant, clock: ManualClock, stripe: FakeStripeCards) -> None:
        super().__init__(services, tenant, clock)
        self.stripe = stripe
        self.delivers = True

    async def store(self, method: str = GOOD) -> None:
        await self.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", self.scope.account_id)
        async with self.database.connection() as connection:
            await set_card(
                connection,
                self.scope,
                self.services.card_gateways,
                customer=CUSTOMER,
                method=method,
                by=TESTER.at(self.clock()),
            )

    async def prove(self) -> None:
        """The card has paid an order of its own."""
        self.clock.advance(seconds=1)
        order = await self.place_order(self.scope)
        await self.run()
        assert await self.status(order) != "placed"

    async def parcel(self, mass_grams: int = PARCEL) -> Order:
        return await self.place_order(self.scope, mass_grams=mass_grams)

    async def run(self) -> None:
        left_out = _LEFT_OUT if self.delivers else _MONEY_ONLY
        jobs = [job.run_once for job in self.services.jobs() if job.name not in left_out]
        for _ in range(100):
            if not any([await run_once() for run_once in jobs]):
                return
        raise AssertionError("the jobs always find something to do")

    async def run_at(self, *moment: int) -> None:
        self.clock.now = datetime(*moment, tzinfo=UTC)  # type: ignore[arg-type,misc] # a date and a time
        await self.run()

    async def states(self, orders: Sequence[Order]) -> list[tuple[str, str]]:
        found = await self.fetch(
            "SELECT status, payment_state FROM orders WHERE id = ANY ($1) ORDER BY id", [order.id for order in orders]
        )
        return [(row["status"], row["payment_state"]) for row in found]

    async def invoices(self) -> list[asyncpg.Record]:
        return await self.fetch("SELECT * FROM invoices WHERE billing = 'collected' ORDER BY number")

    async def open_invoices(self) -> list[int]:
        return [row["total_minor"] - row["credited_minor"] for row in await self.invoices() if row["status"] == "open"]

    async def shown(self, order: Order) -> dict[str, object]:
        document = await self.fetchval("SELECT wire_document FROM orders WHERE id = $1", order.id)
        return dict(msgspec.json.decode(document))

    async def transfer(self, reference: str, amount_minor: int) -> None:
        line = Line(self.clock.now.date(), amount_minor, reference)
        file = SheetFile("statement.xml", camt_file([line]))
        async with self.database.transaction() as tx:
            await import_statement(tx, Mode.LIVE, file, settings=self.services.settings, by=TESTER.at(self.clock()))

    @property
    def captured(self) -> list[int]:
        return [int(self.stripe.intents[name]["amount"]) for name in self.stripe.captured]


@asynccontextmanager
async def small_orders(
    database: Database, settings: Settings, world: World, kind: type[SmallOrders] = SmallOrders
) -> AsyncIterator[SmallOrders]:
    """On 1 January, with an administrator and a good card that has paid before."""
    async with fake_stripe_cards() as stripe:
        live = msgspec.structs.replace(settings, **SELLER, stripe_secret_key=LIVE_KEY, stripe_api_base=stripe.url)
        clock = ManualClock(datetime(2026, 1, 1, 9, tzinfo=UTC))
        services = Services(database, live, clock)
        scene = kind(services, world.ours_live, clock, stripe)
        async with database.transaction() as tx:
            await add_admin(tx, scene.scope.organisation_id, "ada@ours.test", clock.now)
        await scene.store()
        try:
            yield scene
        finally:
            for gateway in services.card_gateways.values():
                await gateway.close()


@asynccontextmanager
async def proven_small_orders(database: Database, settings: Settings, world: World) -> AsyncIterator[SmallOrders]:
    """An hour after the first of them was paid."""
    async with small_orders(database, settings, world) as scene:
        await scene.prove()
        scene.clock.advance(hours=1)
        yield scene
