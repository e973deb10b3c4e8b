"""Random orders, lots, confirmations and crashes: the invariants hold after every step."""

import contextlib
import os
import random
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.supply.retirements.shop import KILOGRAM, TONNE, Shop
from tests.support.rounds import IS_LONG, ROUNDS
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Scope, replace
from tonne.selling.accounts.store import find_account, update_account
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.queue import claim_due
from tonne.supply.retirements.allocate_orders import allocate_orders, complete_orders
from tonne.supply.retirements.resupply.resupply_orders import Decision, resolve_lot_cases, resupply
from tonne.supply.stock.lots.lot_case_store import CaseState, claim_cases

CHUNKS, LIVES, STEPS = 2 * ROUNDS if IS_LONG else 1, 12, 10


class Crash(Exception):
    """The process dies and its transaction is rolled back."""


class Life:
    """One random sequence, with bundles and projects of its own, so that many can run in one database."""

    def __init__(self, shop: Shop, rng: random.Random, name: str) -> None:
        self.shop = shop
        self.rng = rng
        self.name = name
        self.orders: list[Order] = []
        self.buyers: list[Scope] = []
        self.projects: list[str] = []
        self.bundles: list[str] = []

    async def begin(self) -> None:
        for number in range(self.rng.randint(1, 2)):
            granularity = self.rng.choice((TONNE, TONNE, KILOGRAM))
            bundle = f"{self.name}-{number}"
            projects = {f"{bundle}-{each}": self.rng.randint(1, 9) for each in range(self.rng.randint(1, 3))}
            await self.shop.sell(bundle, projects, granularity=granularity, price=f"{self.rng.randint(1, 9999)}.99")
            self.bundles.append(bundle)
            self.projects += projects
        for project in self.projects:
            if self.rng.random() < 0.7:
                await self._deliver(project)
        self.buyers = [await self.shop.account(f"Buyer {number}") for number in range(self.rng.randint(1, 3))]

    async def step(self) -> None:
        steps = (self.buy, self.buy, self.allocate, self.allocate, self.crash, self.wait, self.confirm, self.deliver)
        invalid = (self.invalidate, self.resolve, self.resupply, self.crash_while_resupplying)
        await self.rng.choice((*steps, *invalid, self.rename, self.allocate_while_waiting))()

    async def buy(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            bundles = self.rng.sample(self.bundles, self.rng.randint(1, len(self.bundles)))
            grams = self.rng.randint(len(bundles), 10 ** self.rng.randint(1, 10))
            self.orders.append(await self.shop.buy(self.rng.choice(self.buyers), grams, *bundles))

    async def allocate(self) -> None:
        await self.shop.services.allocate_orders.run_once()

    async def crash(self) -> None:
        """Crash before the commit of a transaction that has done all its work."""
        status = self.rng.choice((OrderStatus.PAID, OrderStatus.RETIRING))
        settings, now = self.shop.services.settings, self.shop.clock.now
        async with self._crashing() as tx:
            keys = await claim_due(tx, status, self.shop.mode, now, limit=5)
            if keys and status is OrderStatus.PAID:
                await allocate_orders(tx, await load_orders(tx, keys), settings, now)
            elif keys:
                await complete_orders(tx, keys, settings, now)

    @contextlib.asynccontextmanager
    async def _crashing(self) -> AsyncIterator[Connection]:
        with contextlib.suppress(Crash):
            async with self.shop.services.database.transaction() as tx:
                yield tx
                raise Crash

    async def wait(self) -> None:
        self.shop.clock.now += timedelta(days=self.rng.choice((0, 1, 10, 29, 31)))
        await self.shop.services.close_units.run_once()

    async def confirm(self) -> None:
        """Confirm part of the work list, in any order. Confirming it again changes nothing."""
        tasks = await self.shop.work_list()
        some = self.rng.sample(tasks, self.rng.randint(0, len(tasks)))
        assert (await self.shop.confirm(*some)).confirmed_count == sum(len(task.parcel_ids) for task in some)
        assert (await self.shop.confirm(*some)).confirmed_count == 0

    async def deliver(self) -> None:
        await self._deliver(self.rng.choice(self.projects))

    async def _deliver(self, project: str, tonnes: int | None = None) -> None:
        amount = tonnes or self.rng.randint(1, 10 ** self.rng.randint(1, 4))
        await self.shop.supply(project, self.rng.randint(2015, 2024), amount, retired=self.rng.random() < 0.3)

    async def invalidate(self) -> None:
        """A lot of which orders hold grams turns out to be worthless."""
        rows = await self.shop.fetch(
            "SELECT lots.id FROM lots JOIN projects ON projects.mode = lots.mode AND projects.id = lots.project_id "
            "WHERE lots.mode = $1 AND registry_project_id = ANY ($2) AND allocated_grams > 0 "
            "AND invalidated_at IS NULL ORDER BY lots.id",
            self.shop.mode,
            self.projects,
        )
        if rows:
            await self.shop.invalidate(self.rng.choice(rows)["id"], "Cancelled.")

    async def resolve(self, *decisions: Decision) -> None:
        """Decide about some certificates of invalid lots."""
        cases = await self.shop.fetch(
            "SELECT lot_id, order_id FROM lot_cases WHERE mode = $1 AND state = ANY ($2) AND order_id = ANY ($3) "
            "ORDER BY lot_id, order_id",
            self.shop.mode,
            ["undecided", "withdrawn"],
            [order.id for order in self.orders],
        )
        for case in cases if decisions else self.rng.sample(cases, self.rng.randint(0, len(cases))):
            decision = self.rng.choice(decisions or tuple(Decision))
            async with self.shop.database.transaction() as tx:
                now = self.shop.clock.now
                await resolve_lot_cases(tx, case["lot_id"], [case["order_id"]], decision, by=TESTER.at(now))

    async def resupply(self) -> None:
        await self.shop.services.resupply_orders.run_once()

    async def crash_while_resupplying(self) -> None:
        async with self._crashing() as tx:
            for case in await claim_cases(tx, self.shop.clock.now, 1):
                if case.state is CaseState.RESUPPLY:
                    await resupply(tx, case, self.shop.settings, self.shop.clock.now)

    async def rename(self) -> None:
        await self.shop.rename(self.rng.choice(self.buyers), f"Beneficiary {self.rng.randint(1, 2)}")

    async def allocate_while_waiting(self) -> None:
        """A test account that waits for the helpers for a moment: its units are left to be retired."""
        if self.shop.mode is Mode.TEST:
            await self._let_advance(auto_advance=False)
            await self.allocate()
            await self._let_advance(auto_advance=True)

    async def _let_advance(self, *, auto_advance: bool) -> None:
        async with self.shop.services.database.transaction() as tx:
            for scope in self.buyers:
                account = await find_account(tx, scope)
                assert account is not None
                await update_account(tx, replace(account, auto_advance=auto_advance))

    async def end(self) -> None:
        """With enough supply, time and work, every order is complete."""
        missing = sum(order.priced.quantity_grams for order in self.orders if order.priced) // TONNE
        for project in self.projects:
            await self._deliver(project, missing + 10)
        await self.resolve(Decision.RESUPPLY)
        for _ in range(2):
            await self.shop.work()
            self.shop.clock.now += timedelta(days=31)
            await self.shop.work()
            await self.shop.confirm(*await self.shop.work_list())
        await self.shop.work()
        assert set(await self.shop.statuses(*self.orders)) <= {"complete"}
        invalid = await self.shop.fetch(
            "SELECT order_id, state FROM lot_cases WHERE order_id = ANY ($1) AND done_at IS NULL",
            [order.id for order in self.orders],
        )
        assert invalid == []
        states = [(await self.shop.certificate_states(order))[0][1] for order in self.orders]
        assert set(states) <= {"valid"}


@pytest.mark.parametrize("chunk", range(CHUNKS))
async def test_all_invariants_hold_after_every_step(services: Services, world: World, live: Shop, chunk: int) -> None:
    seed = int(os.environ.get("LIVES_SEED") or random.SystemRandom().getrandbits(32))
    print(f"LIVES_SEED={seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    for number in range(LIVES):
        mode = rng.choice((Mode.LIVE, Mode.LIVE, Mode.TEST))
        life = Life(Shop(services, world, live.clock, mode), rng, f"life-{chunk}-{number}")
        await life.begin()
        for _ in range(rng.randint(STEPS // 2, STEPS)):
            await life.step()
            await life.shop.check_invariants()
        await life.end()
        await life.shop.check_invariants()
