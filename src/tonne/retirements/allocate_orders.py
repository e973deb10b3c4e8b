"""Allocates supply to paid orders, and completes orders whose credits are all retired."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from tonne.base.clock import Clock
from tonne.base.money import apportion
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.pool import Connection, Database
from tonne.orders.load import load_orders
from tonne.orders.model import Order, OrderKey, OrderProject, OrderStatus
from tonne.orders.move_order import Transitions, move_orders
from tonne.orders.queue import postpone, run_due_any_account
from tonne.retirements import supply_store
from tonne.retirements.certificates import issue_certificates
from tonne.retirements.model import ParcelStatus, Share
from tonne.retirements.supply import LineDemand, Recipient, Supply
from tonne.retirements.supply_store import Sources
from tonne.retirements.totals import add_totals

BATCH = 400
# When an order without enough supply is tried again. Importing lots makes it due at once.
SHORT_RETRY = timedelta(minutes=10)

_log = structlog.get_logger()
_Handle = Callable[[Connection, Sequence[OrderKey], datetime], Awaitable[None]]


class AllocateOrders:
    """Runs in a worker; any number of workers may run. Rows are locked in the order that docs/architecture.md gives."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """Allocate a batch of paid orders and complete a batch of retiring ones, in each mode. False if none is due."""
        worked = False
        for mode in Mode:
            worked |= await self._run(OrderStatus.PAID, mode, self._allocate_claimed, "order_not_allocated")
            worked |= await self._run(OrderStatus.RETIRING, mode, self.complete, "order_not_completed")
        return worked

    async def _run(self, status: OrderStatus, mode: Mode, handle: _Handle, failure_event: str) -> bool:
        return await run_due_any_account(
            self._database, self._clock, status, mode, handle, limit=BATCH, failure_event=failure_event
        )

    async def _allocate_claimed(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        orders = await load_orders(tx, keys)
        await self.allocate(tx, orders[0].scope.mode, orders, now)

    async def allocate(self, tx: Connection, mode: Mode, orders: Sequence[Order], now: datetime) -> None:
        """Allocate supply to these paid and locked orders, in order, each in full or not at all."""
        sources, supply, recipients = await self._lock(tx, mode, orders, now)
        allocated: list[tuple[Order, list[Share]]] = []
        short: list[OrderKey] = []
        for order in orders:
            shares = supply.allocate(order.id, recipients[order.scope.account_id], _demands(order, sources))
            if shares is None:
                short.append(OrderKey(order.scope.account_id, order.id))
            else:
                retiring = replace(order, status=OrderStatus.RETIRING, projects=_projects(order, shares, sources))
                allocated.append((retiring, shares))
        if short:
            _log.warning("supply_short", mode=mode, orders=len(short), first_order_id=short[0].id)
            await postpone(tx, short, OrderStatus.PAID, now + SHORT_RETRY)
        if allocated:
            await self._write(tx, mode, supply, allocated, recipients=recipients, now=now)
            await self._move(tx, allocated, now)

    async def complete(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        """Complete those of these retiring and locked orders whose credits are all retired."""
        waiting = await supply_store.find_unretired(tx, keys)
        if waiting:
            # The retirement of the last parcel makes an order due again.
            await postpone(tx, sorted(waiting), OrderStatus.RETIRING, None)
        orders = await load_orders(tx, [key for key in keys if key not in waiting])
        if orders:
            completed = await self._certified(tx, orders, now)
            await move_orders(
                tx, [Transitions(order, [done]) for order, done in zip(orders, completed, strict=True)], now
            )

    async def _lock(
        self, tx: Connection, mode: Mode, orders: Sequence[Order], now: datetime
    ) -> tuple[Sources, Supply, dict[str, Recipient]]:
        accounts = {order.scope.account_id: order.auto_advance for order in orders}
        beneficiaries = await supply_store.find_beneficiaries_any_account(tx, accounts)
        bundles = [line.bundle_id for order in orders if order.priced for line in order.priced.lines]
        sources = await supply_store.find_sources_any_account(tx, mode, bundles)
        lots = await supply_store.lock_lots_any_account(tx, mode, sources.descriptions)
        units = await supply_store.lock_units_any_account(tx, mode, sources.descriptions, accounts)
        wait = timedelta(days=self._settings.pool_wait_days)
        supply = Supply(lots, units, now=now, wait=wait, service_name=self._settings.seller_name)
        recipients = {
            account_id: Recipient(account_id, beneficiaries[account_id], mode is Mode.TEST and auto_advance)
            for account_id, auto_advance in accounts.items()
        }
        return sources, supply, recipients

    async def _write(
        self,
        tx: Connection,
        mode: Mode,
        supply: Supply,
        allocated: Sequence[tuple[Order, list[Share]]],
        *,
        recipients: dict[str, Recipient],
        now: datetime,
    ) -> None:
        parcels = list(supply.touched_parcels.values())
        await supply_store.advance_lots_any_account(tx, mode, list(supply.touched_lots.values()))
        await supply_store.insert_parcels_any_account(tx, mode, [each for each in parcels if each.is_new], now)
        await supply_store.update_parcels_any_account(tx, mode, [each for each in parcels if not each.is_new], now)
        await supply_store.insert_shares_any_account(
            tx,
            mode,
            [
                (order, recipients[order.scope.account_id].beneficiary, share)
                for order, shares in allocated
                for share in shares
            ],
        )
        await supply_store.insert_projects_any_account(tx, [order for order, _ in allocated])

    async def _move(self, tx: Connection, allocated: Sequence[tuple[Order, list[Share]]], now: datetime) -> None:
        """Move the orders to retiring, and on to complete if their credits are already retired."""
        finished = [order for order, shares in allocated if _all_retired(shares)]
        completed = {done.id: done for done in await self._certified(tx, finished, now)} if finished else {}
        transitions = [
            Transitions(
                replace(order, status=OrderStatus.PAID, projects=()),
                [order, completed[order.id]] if order.id in completed else [order],
            )
            for order, _ in allocated
        ]
        await move_orders(tx, transitions, now)

    async def _certified(self, tx: Connection, orders: Sequence[Order], now: datetime) -> list[Order]:
        base_url = self._settings.base_url
        numbers = await issue_certificates(tx, orders, base_url=base_url, issuer=self._settings.seller_name, now=now)
        await add_totals(tx, orders, now)
        return [
            replace(
                order,
                status=OrderStatus.COMPLETE,
                certificate_url=f"{base_url}/v1/orders/{order.id}/certificate",
                public_certificate_url=f"{base_url}/certificates/{numbers[order.id]}",
            )
            for order in orders
        ]


def _demands(order: Order, sources: Sources) -> list[LineDemand]:
    lines = () if order.priced is None else order.priced.lines
    return [
        LineDemand(position, line.quantity_grams, sources.by_bundle.get(line.bundle_id, []))
        for position, line in enumerate(lines, 1)
    ]


def _projects(order: Order, shares: Sequence[Share], sources: Sources) -> tuple[OrderProject, ...]:
    """The projects of each line with their quantities. The line's cost is split exactly over them."""
    found: list[OrderProject] = []
    for position, line in enumerate(() if order.priced is None else order.priced.lines, 1):
        grams: defaultdict[str, int] = defaultdict(int)
        for share in shares:
            if share.line_position == position:
                grams[share.parcel.project_id] += share.quantity_grams
        costs = apportion(line.offset_cost_minor, list(grams.values()))
        for (project_id, quantity_grams), cost_minor in zip(grams.items(), costs, strict=True):
            name, kind, slug = sources.descriptions[project_id]
            found.append(
                OrderProject(
                    line_position=position,
                    project_id=project_id,
                    project_name=name,
                    project_type=kind,
                    project_slug=slug,
                    quantity_grams=quantity_grams,
                    unit_price_minor=line.unit_price_minor,
                    offset_cost_minor=cost_minor,
                )
            )
    return tuple(found)


def _all_retired(shares: Sequence[Share]) -> bool:
    return all(share.parcel.status is ParcelStatus.RETIRED for share in shares)
