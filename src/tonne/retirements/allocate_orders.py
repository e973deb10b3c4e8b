"""Allocate supply to paid orders. The job also completes orders whose credits are all retired."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

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
from tonne.orders.store import insert_projects
from tonne.retirements import supply_store
from tonne.retirements.complete_orders import certify_orders, complete_orders
from tonne.retirements.model import ParcelStatus, Share
from tonne.retirements.supply import LineDemand, Recipient, Supply
from tonne.retirements.supply_store import Sources

BATCH = 400
# Orders that supply does not cover are retried after this time, and when lots are imported.
SHORT_RETRY = timedelta(minutes=10)

_log = structlog.get_logger()
_Handle = Callable[[Connection, Sequence[OrderKey], datetime], Awaitable[None]]


class AllocateOrders:
    """A job of the worker. Any number may run at once: see the lock order in docs/architecture.md."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings

    async def run_once(self) -> bool:
        """For each mode, allocate a batch of paid orders and complete a batch of retiring ones. False if idle."""
        worked = False
        for mode in Mode:
            worked |= await self._run(OrderStatus.PAID, mode, self._allocate, "order_not_allocated")
            worked |= await self._run(OrderStatus.RETIRING, mode, self._complete, "order_not_completed")
        return worked

    async def _run(self, status: OrderStatus, mode: Mode, handle: _Handle, failure_event: str) -> bool:
        return await run_due_any_account(
            self._database, self._clock, status, mode, handle, limit=BATCH, failure_event=failure_event
        )

    async def _allocate(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        await allocate_orders(tx, await load_orders(tx, keys), self._settings, now)

    async def _complete(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        await complete_orders(tx, keys, self._settings, now)


class _Allocation(NamedTuple):
    paid: Order
    retiring: Order
    shares: list[Share]


async def allocate_orders(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> None:
    """Allocate supply to locked paid orders of one mode, each wholly or not at all, in this order.

    Orders whose grams are all retired already complete at once. Call it last in the transaction.
    """
    mode = orders[0].scope.mode
    sources, supply, recipients = await _lock_supply(tx, mode, orders, settings, now)
    allocations: list[_Allocation] = []
    short: list[OrderKey] = []
    for order in orders:
        shares = supply.allocate(order.id, recipients[order.scope.account_id], _demands(order, sources))
        if shares is None:
            short.append(order.key)
        else:
            retiring = replace(order, status=OrderStatus.RETIRING, projects=_projects(order, shares, sources))
            allocations.append(_Allocation(order, retiring, shares))
    if short:
        _log.warning("supply_short", mode=mode, orders=len(short), first_order_id=short[0].id)
        await postpone(tx, short, OrderStatus.PAID, now + SHORT_RETRY)
    if allocations:
        await _write(tx, mode, supply, allocations, recipients, now=now)
        retired = [each.retiring for each in allocations if _all_retired(each.shares)]
        completed = {order.id: order for order in await certify_orders(tx, retired, settings, now)}
        moves = [
            Transitions(paid, [retiring, completed[paid.id]] if paid.id in completed else [retiring])
            for paid, retiring, _ in allocations
        ]
        await move_orders(tx, moves, now)


async def _lock_supply(
    tx: Connection, mode: Mode, orders: Sequence[Order], settings: Settings, now: datetime
) -> tuple[Sources, Supply, dict[str, Recipient]]:
    auto_advance = {order.scope.account_id: order.auto_advance for order in orders}
    beneficiaries = await supply_store.find_beneficiaries_any_account(tx, auto_advance)
    sources = await supply_store.find_sources(tx, mode, [line.bundle_id for order in orders for line in order.lines])
    lots = await supply_store.lock_lots(tx, mode, sources.descriptions)
    units = await supply_store.lock_units_any_account(tx, mode, sources.descriptions, auto_advance)
    wait = timedelta(days=settings.pool_wait_days)
    supply = Supply(lots, units, now=now, wait=wait, service_name=settings.seller_name)
    recipients = {
        account_id: Recipient(account_id, beneficiaries[account_id], mode is Mode.TEST and auto_advance[account_id])
        for account_id in auto_advance
    }
    return sources, supply, recipients


async def _write(
    tx: Connection,
    mode: Mode,
    supply: Supply,
    allocations: Sequence[_Allocation],
    recipients: dict[str, Recipient],
    *,
    now: datetime,
) -> None:
    parcels = list(supply.touched_parcels.values())
    await supply_store.advance_lots(tx, mode, list(supply.touched_lots.values()))
    await supply_store.insert_parcels(tx, mode, [parcel for parcel in parcels if parcel.is_new], now)
    await supply_store.update_parcels(tx, mode, [parcel for parcel in parcels if not parcel.is_new], now)
    shares = [
        (order, recipients[order.scope.account_id].beneficiary, share)
        for order, _, of_order in allocations
        for share in of_order
    ]
    await supply_store.insert_shares(tx, mode, shares)
    await insert_projects(tx, [each.retiring for each in allocations])


def _demands(order: Order, sources: Sources) -> list[LineDemand]:
    return [
        LineDemand(position, line.quantity_grams, sources.by_bundle.get(line.bundle_id, []))
        for position, line in enumerate(order.lines, 1)
    ]


def _projects(order: Order, shares: Sequence[Share], sources: Sources) -> tuple[OrderProject, ...]:
    """The projects of each line, at the line's price. A line's cost is split over them to the last minor unit."""
    found: list[OrderProject] = []
    for position, line in enumerate(order.lines, 1):
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
