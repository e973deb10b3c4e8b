"""A shop for the tests of supply: a clock, a catalogue, accounts that buy, and an operator."""

import asyncio
import csv
import io
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, TypeVar

import msgspec

from tests.support.clock import ManualClock
from tests.support.orders import write
from tests.support.scene import Scene
from tests.support.world import TESTER, World, add_account
from tonne.apps.wiring.app import Services
from tonne.money.refunds.reduce_order import ReductionRequest, reduce_order
from tonne.money.refunds.request_refund import Cancellation, cancel_by_id
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.db.invariant import find_violations
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode, Scope, replace
from tonne.selling.accounts.store import find_account, update_account
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.selection import BundleChoiceIn
from tonne.selling.orders import store as order_store
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Beneficiary, Order, OrderStatus
from tonne.selling.orders.move_order import mark_paid, move_order
from tonne.selling.orders.placing.place_order import CheckoutCustomer, OrderRequest
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.store import find_certificate, list_of_order
from tonne.supply.retirements.allocate_orders import complete_orders
from tonne.supply.retirements.confirmations.confirm_lines import ConfirmationReport, import_confirmations
from tonne.supply.retirements.confirmations.work_list import Task, list_tasks_any_account
from tonne.supply.retirements.invariants import INVARIANTS
from tonne.supply.retirements.resupply.invalidate_lot import Invalidation, invalidate_lot
from tonne.supply.stock.lots.import_lots import import_files
from tonne.supply.stock.serial_runs import format_runs

T = TypeVar("T")
TONNE, KILOGRAM = 1_000_000, 1_000
# Without a grammar of their own, so that serials are short: `live-A-1 101–200`.
REGISTRIES = {TONNE: "Our Registry", KILOGRAM: "Kilogram Registry"}
# Where the registries publish retirements.
PAGES = {
    "Our Registry": "https://registry.verra.org",
    "Kilogram Registry": "https://registry.isometric.com",
    "Verra": "https://registry.verra.org",
    "Isometric": "https://registry.isometric.com",
    "Gold Standard": "https://registry.goldstandard.org",
    "ACR": "https://acr2.apx.com",
    "CAR": "https://thereserve2.apx.com",
    "Climate Action Reserve": "https://thereserve2.apx.com",
    "Puro.earth": "https://registry.puro.earth",
    "Puro": "https://registry.puro.earth",
}
PARCELS = """
SELECT project.registry_project_id AS project, lot.vintage, parcel.start_grams, parcel.quantity_grams,
       parcel.allocated_grams, parcel.status, parcel.beneficiary, parcel.in_service_name AS shared, parcel.retired_on
FROM parcels parcel JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
WHERE parcel.mode = $1 ORDER BY project.registry_project_id, lot.vintage, lot.id, parcel.start_grams
"""


@dataclass(frozen=True, slots=True)
class Cut:
    """A parcel as tests compare it; `shared` if it is in the service's name."""

    project: str
    vintage: int
    start_grams: int
    quantity_grams: int
    allocated_grams: int
    status: str
    beneficiary: str
    shared: bool
    retired_on: date | None


class Shop(Scene):
    """One mode of a service. The test names its projects; the names are the registry's project ids."""

    def __init__(self, services: Services, world: World, clock: ManualClock, mode: Mode) -> None:
        super().__init__(services, clock)
        self.world = world
        self.mode = mode
        self._bundle_ids: dict[str, str] = {}
        self._lot_count = 0
        self._granularity: dict[str, int] = {}

    async def sell(
        self, bundle: str, weights: Mapping[str, int], *, granularity: int = TONNE, price: str = "10.00"
    ) -> None:
        """A bundle over projects, each with its weight."""
        registry = REGISTRIES[granularity]
        self._granularity |= dict.fromkeys(weights, granularity)
        await self.import_files(
            {
                FileKind.PROJECTS: [
                    "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams,registry_url",
                    *(
                        f"{registry},{name},Project {name},Kenya,Wind,ACM2,avoidance,{granularity},{PAGES[registry]}"
                        for name in weights
                    ),
                ],
                FileKind.BUNDLES: [
                    "slug,name,description,primary_image,unit_price,enabled,position",
                    f"{bundle},The {bundle},,,{price},true,5",
                ],
                FileKind.BUNDLE_PROJECTS: [
                    "bundle_slug,registry,registry_project_id,weight",
                    *(f"{bundle},{registry},{name},{weight}" for name, weight in weights.items()),
                ],
            }
        )
        await self.read_bundles()

    async def read_bundles(self) -> None:
        """After an import, for `bundle_id`."""
        catalogue = await self.services.catalogues.current(self.mode)
        self._bundle_ids = {each.slug: each.id for each in catalogue.bundles.values()}

    async def supply(self, project: str, vintage: int, tonnes: int, *, retired: bool = False) -> str:
        """Import a lot, as `tonne catalogue import-lots` does, and return its id."""
        await self.import_files(self.lot_file(project, vintage, tonnes, retired=retired))
        return str(await self.fetchval("SELECT id FROM lots WHERE mode = $1 ORDER BY id DESC LIMIT 1", self.mode))

    async def invalidate(self, lot_id: str, reason: str) -> Invalidation:
        async with self.database.transaction() as tx:
            return await invalidate_lot(tx, lot_id, reason=reason, by=TESTER.at(self.clock.now))

    async def case_states(self, lot_id: str) -> dict[str, str]:
        """The state of each order that held credits of an invalid lot."""
        rows = await self.fetch("SELECT order_id, state FROM lot_cases WHERE lot_id = $1", lot_id)
        return {row["order_id"]: row["state"] for row in rows}

    async def certificate_states(self, order: Order) -> list[tuple[str, str]]:
        """The certificates of an order with their states, the current one first."""
        async with self.database.connection() as connection:
            found = await list_of_order(connection, order.scope, order.id)
        return [(each.record.number, each.state) for each in found]

    def lot_file(self, project: str, vintage: int, tonnes: int, *, retired: bool = False) -> dict[FileKind, list[str]]:
        self._lot_count += 1
        facts = "pre_retired,https://registry.example/r,2025-05-06" if retired else "held,,"
        registry, block = REGISTRIES[self._granularity[project]], f"{self.mode}-{project}-{self._lot_count}"
        heads = "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,"
        units = tonnes * TONNE // self._granularity[project]
        lot = f"{registry},{project},{vintage},{block},101,{100 + units},{facts}"
        return {FileKind.LOTS: [heads + "retired_on", lot]}

    async def import_files(self, files: dict[FileKind, list[str]]) -> None:
        contents = {kind: SheetFile(kind, "\n".join(lines).encode()) for kind, lines in files.items()}
        async with self.database.transaction() as tx:
            await import_files(tx, self.mode, contents, by=TESTER.at(self.clock.now))

    def bundle_id(self, bundle: str) -> str:
        return self._bundle_ids[bundle]

    async def account(self, beneficiary: str, *, of: Scope | None = None, auto_advance: bool = True) -> Scope:
        """A new account, of our organisation unless another is given."""
        organisation_id = (of or self.world.ours_live.scope).organisation_id
        now = self.clock.now
        async with self.database.transaction() as tx:
            return await add_account(
                tx, organisation_id, self.mode, beneficiary=beneficiary, auto_advance=auto_advance, now=now
            )

    async def rename(self, scope: Scope, beneficiary: str) -> None:
        """Change the beneficiary of the account."""
        async with self.database.transaction() as tx:
            account = await find_account(tx, scope)
            assert account is not None
            await update_account(tx, replace(account, beneficiary=beneficiary))

    async def buy(self, scope: Scope, grams: int, *bundles: str, beneficiary: Beneficiary | None = None) -> Order:
        """Place an order and mark it as paid."""
        return await self.pay(await self.place(scope, grams, *bundles, beneficiary=beneficiary))

    async def buy_at_checkout(self, scope: Scope, grams: int, *bundles: str) -> Order:
        """A customer has paid on a page of an offset link of the account."""
        customer = CheckoutCustomer(offset_link_id="lnk_of_the_shop", email="ada@example.com")
        order = await self.place(scope, grams, *bundles, customer=customer)
        now = self.clock.now
        async with self.database.transaction() as tx:
            paid = await move_order(tx, order, OrderStatus.PAID, now, next_attempt_at=now)
        self.clock.advance(milliseconds=1)
        return paid

    async def place(
        self,
        scope: Scope,
        grams: int,
        *bundles: str,
        customer: CheckoutCustomer | None = None,
        beneficiary: Beneficiary | None = None,
    ) -> Order:
        requested = PriceRequest(
            mass_grams=grams, choices=[BundleChoiceIn(self.bundle_id(name), None) for name in bundles]
        )
        idempotency = Idempotency(None, bytes(32))
        request = OrderRequest(requested=requested, idempotency=idempotency, customer=customer, beneficiary=beneficiary)
        return await write(self.services, scope, request, self.clock.now)

    async def pay(self, order: Order) -> Order:
        async with self.database.transaction() as tx:
            paid = await mark_paid(tx, order, self.clock.now)
        # Orders are served in the order of their payment.
        self.clock.advance(milliseconds=1)
        return paid

    async def buy_and_wait(self, scope: Scope, grams: int, *bundles: str, manually: bool = False) -> Order:
        """Pay an order of an account that waits for a day, or of one that its client releases."""
        placed = await self.place(scope, grams, *bundles)
        await self.execute("UPDATE orders SET fulfil_manually = $2 WHERE id = $1", placed.id, manually)
        return await self.reload(await self.pay(await self.reload(placed)))

    async def reload(self, order: Order) -> Order:
        async with self.database.connection() as connection:
            [found] = await load_orders(connection, [order.key])
        return found

    async def reduce(self, order: Order, grams: int) -> Order:
        async with self.database.transaction() as tx:
            request, by = ReductionRequest(grams), TESTER.at(self.clock())
            return await reduce_order(tx, order.scope, order.id, request, settings=self.settings, by=by)

    async def cancel(self, order: Order) -> Order:
        async with self.database.transaction() as tx:
            requested, by = Cancellation(reason=None, with_refund=True), TESTER.at(self.clock())
            return await cancel_by_id(tx, order.scope, order.id, requested, settings=self.settings, by=by)

    async def work(self) -> None:
        """Run the jobs until nothing is due."""
        services = self.services
        jobs = (services.close_units, services.allocate_orders, services.retire_units, services.resupply_orders)
        await self.run_jobs(*jobs)

    async def shown(self, order: Order) -> dict[str, Any]:
        """The order as the API returns it."""
        async with self.database.connection() as connection:
            document = await order_store.find_by_id(connection, order.scope, order.id)
        assert document is not None
        wire: dict[str, Any] = msgspec.json.decode(document)
        return wire

    async def statuses(self, *orders: Order) -> list[str]:
        return [(await self.shown(order))["status"] for order in orders]

    async def certificate(self, order: Order) -> dict[str, Any]:
        async with self.database.connection() as connection:
            record = await find_certificate(connection, order.scope, order.id)
        assert record is not None
        facts: dict[str, Any] = msgspec.to_builtins(record)
        return facts

    async def cuts(self) -> list[Cut]:
        return [Cut(**row) for row in await self.fetch(PARCELS, self.mode)]

    async def work_list(self) -> list[Task]:
        async with self.database.connection() as connection:
            return await list_tasks_any_account(connection, self.mode)

    async def confirm(self, *tasks: Task) -> ConfirmationReport:
        """Import confirmations that these were retired today."""
        heads = "parcel_id,serial,serials,retired_on,retirement_url"
        text = io.StringIO(f"{heads}\n")
        text.seek(0, io.SEEK_END)
        for task in tasks:
            url = f"{PAGES[task.registry]}/{task.parcel_id}"
            day = self.clock.now.date().isoformat()
            csv.writer(text).writerow((task.parcel_id, task.serial, format_runs(task.runs), day, url))
        return await self.confirm_file([text.getvalue()])

    async def confirm_file(self, lines: list[str]) -> ConfirmationReport:
        content, now = "\n".join(lines).encode(), self.clock.now
        async with self.database.transaction() as tx:
            return await import_confirmations(tx, self.mode, SheetFile("done.csv", content), by=TESTER.at(now))

    async def check_supply(self) -> None:
        """The invariants of this package. Orders of `buy_at_checkout` have no charge, which violates another one."""
        async with self.database.transaction() as tx:
            assert await find_violations(tx, INVARIANTS) == {}

    async def look_at_while(self, order: Order, meanwhile: Coroutine[Any, Any, T]) -> T:
        """A worker has locked and read a retiring order; `meanwhile` then waits for the lock."""
        async with self.database.transaction() as tx:
            assert await lock_order(tx, order.scope, order.id) is not None
            task = asyncio.create_task(meanwhile)
            await self.until_waiting_for_lock()
            await complete_orders(tx, [order.key], self.services.settings, self.clock.now)
        return await task
