"""Allocate supply to paid orders, and complete those whose credits are all retired."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog
from msgspec import structs

from tonne.platform.db.batches import RowJobWithSettings
from tonne.platform.db.database import Connection
from tonne.platform.events.log import lock_streams
from tonne.platform.events.notification import Stream
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import apportion
from tonne.platform.values.context import Mode, replace
from tonne.selling.catalogue.sources import BundleSource, lock_sources, save_drawn
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderKey, OrderProject, OrderStatus, PaymentState, ProjectStatus
from tonne.selling.orders.move_order import Transitions, move_orders, rewrite_documents
from tonne.selling.orders.queue import postpone, run_due
from tonne.selling.orders.store import insert_projects
from tonne.supply.certificates.store import issue_certificates, public_address
from tonne.supply.certificates.totals import add_totals
from tonne.supply.retirements.allocation_events import record_allocations
from tonne.supply.retirements.hold_waiting import hold_waiting
from tonne.supply.stock import supply_store
from tonne.supply.stock.holds import hold_store
from tonne.supply.stock.holds.hold_store import HeldForOrder
from tonne.supply.stock.lots.registry_name import registry_beneficiary
from tonne.supply.stock.model import ParcelStatus, Share
from tonne.supply.stock.plan_allocation import LineDemand, Recipient, Source, Supply
from tonne.supply.stock.replenish import replenish
from tonne.supply.stock.supply_store import find_unretired


async def complete_orders(tx: Connection, keys: Sequence[OrderKey], settings: Settings, now: datetime) -> None:
    """Complete those of these locked retiring orders whose grams are all retired. Call it last in the transaction."""
    unretired = await find_unretired(tx, keys)
    locked: set[Stream] = set()
    if unretired:
        # Retiring another of their parcels makes them due again.
        await postpone(tx, sorted(unretired), OrderStatus.RETIRING, None)
        locked = await show_retired_projects(tx, sorted(unretired), now)
    orders = await load_orders(tx, [key for key in keys if key not in unretired])
    if orders:
        await record_allocations(tx, orders, now)
        completed = await certify_orders(tx, orders, settings, now)
        if locked:
            # In one order with those of the completed ones: the commit would lock them after these.
            await lock_streams(tx, [*locked, *map(_stream, orders)])
        await move_orders(tx, [Transitions(order, [done]) for order, done in zip(orders, completed, strict=True)], now)


async def show_retired_projects(tx: Connection, keys: Sequence[OrderKey], now: datetime) -> set[Stream]:
    """Update the JSON of these locked retiring orders: parcels of some of their projects were retired.

    Returns the streams that the commit locks.
    """
    orders = await load_orders(tx, keys)
    recorded = await record_allocations(tx, orders, now)
    rewritten = await rewrite_documents(tx, orders)
    return {_stream(order) for order in orders} if recorded else rewritten


def _stream(order: Order) -> Stream:
    return Stream(order.scope.organisation_id, order.scope.mode)


async def certify_orders(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> list[Order]:
    """Issue certificates for retiring orders and count them in the totals; returns the orders as complete.

    Call it once per transaction: it locks totals in sorted order.
    """
    if not orders:
        return []
    base_url = settings.base_url
    issued = await issue_certificates(tx, orders, base_url=base_url, issuer=settings.seller_name, now=now)
    await add_totals(tx, orders, now)
    named = {order.id: issued[order.id].number for order in orders if order.is_named_in_public}
    return [
        structs.replace(
            order,
            status=OrderStatus.COMPLETE,
            supplied_on=issued[order.id].supplied_on,
            certificate_url=f"{base_url}/v1/orders/{order.id}/certificate",
            public_certificate_url=public_address(base_url, named[order.id]) if order.id in named else None,
        )
        for order in orders
    ]


BATCH = 400
# Orders that supply does not cover are retried after this time, and when lots are imported.
SHORT_RETRY = timedelta(minutes=10)

_log = structlog.get_logger()
_Handle = Callable[[Connection, Sequence[OrderKey], datetime], Awaitable[None]]


class AllocateOrders(RowJobWithSettings, frozen=True):
    """A job of the worker. Any number may run at once: see the lock order in docs/architecture.md."""

    async def run_once(self) -> bool:
        """For each mode, allocate a batch of paid orders and complete a batch of retiring ones. False if idle."""
        worked = False
        for mode in Mode:
            worked |= await self._run(OrderStatus.PAID, mode, self._allocate, "order_not_allocated")
            worked |= await self._run(OrderStatus.RETIRING, mode, self._complete, "order_not_completed")
        return worked

    async def _run(self, status: OrderStatus, mode: Mode, handle: _Handle, failure_event: str) -> bool:
        return await run_due(self.database, self.clock, status, mode, handle, limit=BATCH, failure_event=failure_event)

    async def _allocate(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        orders = await load_orders(tx, keys)
        # The payer may get their money back: nothing is allocated until the dispute is decided, which wakes the order.
        disputed = [order.key for order in orders if order.payment_state is PaymentState.DISPUTED]
        if disputed:
            await postpone(tx, disputed, OrderStatus.PAID, None)
        undisputed = [order for order in orders if order.key not in disputed]
        if waiting := [order for order in undisputed if order.is_in_window(now)]:
            # The others are still due. Both in one transaction would lock lots in two orders.
            await hold_waiting(tx, waiting, now)
        elif undisputed:
            await allocate_orders(tx, undisputed, self.settings, now)

    async def _complete(self, tx: Connection, keys: Sequence[OrderKey], now: datetime) -> None:
        await complete_orders(tx, keys, self.settings, now)


class Sources:
    """The projects of the bundles of a batch."""

    def __init__(self, found: Sequence[BundleSource], base_url: str) -> None:
        self._found = found
        self._base_url = base_url
        self.by_bundle: defaultdict[str, list[Source]] = defaultdict(list)
        self.drawn: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.projects: dict[str, BundleSource] = {}
        for each in found:
            self.by_bundle[each.bundle_id].append(Source(each.project_id, each.weight, each.granularity_grams))
            self.drawn[each.bundle_id][each.project_id] = each.drawn_grams
            self.projects[each.project_id] = each

    def logo_of(self, project_id: str) -> str | None:
        """As a URL: the catalogue may have a path on this server."""
        logo = self.projects[project_id].logo
        return f"{self._base_url}{logo}" if logo and logo.startswith("/") else logo

    def changed(self, drawn: Mapping[str, Mapping[str, int]]) -> list[BundleSource]:
        """Those on which orders have drawn, as they are to be stored."""
        changed = [replace(each, drawn_grams=drawn[each.bundle_id][each.project_id]) for each in self._found]
        return [new for old, new in zip(self._found, changed, strict=True) if new != old]


class Holds:
    """Grams that are held for checkouts, by project, and by the order and bundle that get them."""

    def __init__(self, found: Sequence[HeldForOrder]) -> None:
        self.by_project: defaultdict[str, int] = defaultdict(int)
        self.by_line: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
        for each in found:
            self.by_project[each.project_id] += each.reserved_grams
            if each.order_id is not None:
                self.by_line[each.order_id, each.bundle_id][each.project_id] = each.reserved_grams
        self.order_ids = {each.order_id for each in found}


class _Allocation(NamedTuple):
    paid: Order
    retiring: Order
    shares: list[Share]


async def allocate_orders(tx: Connection, orders: Sequence[Order], settings: Settings, now: datetime) -> None:
    """Allocate supply to locked paid orders of one mode, each wholly or not at all, in this order.

    Orders whose grams are all retired already complete at once. Call it last in the transaction.
    """
    mode = orders[0].scope.mode
    sources, supply, holds = await lock_supply(tx, mode, orders, settings, now)
    allocations: list[_Allocation] = []
    short: list[OrderKey] = []
    for order in orders:
        is_short = order.is_short_by_simulation
        shares = None if is_short else supply.allocate(recipient_of(order), _demands(order, sources, holds))
        if shares is None:
            short.append(order.key)
        else:
            retiring = structs.replace(order, status=OrderStatus.RETIRING, projects=_projects(order, shares, sources))
            allocations.append(_Allocation(order, retiring, shares))
    if short:
        _log.warning("supply_short", mode=mode, orders=len(short), first_order_id=short[0].id)
        await postpone(tx, short, OrderStatus.PAID, now + SHORT_RETRY)
    if allocations:
        held = [(order, share) for order, _, of_order in allocations for share in of_order]
        await write_supply(tx, mode, supply, held, now=now)
        await insert_projects(tx, [each.retiring for each in allocations])
        await save_drawn(tx, mode, sources.changed(supply.drawn()))
        if holders := [each.paid.key for each in allocations if each.paid.id in holds.order_ids]:
            await hold_store.delete_of_orders(tx, holders)
        retired = [each.retiring for each in allocations if all_retired(each.shares)]
        completed = {order.id: order for order in await certify_orders(tx, retired, settings, now)}
        await record_allocations(tx, [each.retiring for each in allocations], now)
        moves = [
            Transitions(paid, [retiring, completed[paid.id]] if paid.id in completed else [retiring])
            for paid, retiring, _ in allocations
        ]
        await move_orders(tx, moves, now)


async def lock_supply(
    tx: Connection, mode: Mode, orders: Sequence[Order], settings: Settings, now: datetime
) -> tuple[Sources, Supply, Holds]:
    """Lock what can supply these orders: the projects of their bundles, lots, and units with room."""
    account_ids = {order.scope.account_id for order in orders}
    bundle_ids = [line.bundle_id for order in orders for line in order.lines]
    sources = Sources(await lock_sources(tx, mode, bundle_ids), settings.base_url)
    lots = await supply_store.lock_lots(tx, mode, sources.projects)
    if mode is Mode.TEST:
        lots += await replenish(tx, _needed(orders, sources), lots, now)
    units = await supply_store.lock_units_any_account(tx, mode, sources.projects, account_ids)
    wait = timedelta(days=settings.pool_wait_days)
    # Test supply does not run out, so that nothing is held.
    live = mode is Mode.LIVE
    holds = Holds(await hold_store.read_holds_any_account(tx, mode, sources.projects) if live else [])
    supply = Supply(
        lots,
        units,
        now=now,
        wait=wait,
        service_name=settings.seller_name,
        held=holds.by_project,
        drawn=sources.drawn,
    )
    return sources, supply, holds


def _needed(orders: Sequence[Order], sources: Sources) -> dict[str, int]:
    """Enough of each project to supply all these orders alone, even if each opens a unit of its own."""
    needed = dict.fromkeys(sources.projects, 0)
    for order in orders:
        for line in order.lines:
            for source in sources.by_bundle.get(line.bundle_id, []):
                needed[source.project_id] += line.quantity_grams + source.granularity_grams
    return needed


def recipient_of(order: Order) -> Recipient:
    # Test orders that advance automatically do not wait for other fractions, either.
    is_test = order.scope.mode is Mode.TEST
    return Recipient(
        order.scope.account_id,
        registry_beneficiary(order),
        in_service_name=order.is_paid_at_checkout or (is_test and order.auto_advance),
    )


async def write_supply(
    tx: Connection,
    mode: Mode,
    supply: Supply,
    shares: Sequence[tuple[Order, Share]],
    *,
    now: datetime,
    assigned_at: datetime | None = None,
) -> None:
    """Store the lots and parcels that a plan has changed, and the shares, each with its order."""
    parcels = list(supply.touched_parcels.values())
    await supply_store.advance_lots(tx, mode, list(supply.touched_lots.values()))
    await supply_store.insert_parcels(tx, mode, [parcel for parcel in parcels if parcel.is_new], now)
    await supply_store.update_parcels(tx, mode, [parcel for parcel in parcels if not parcel.is_new], now)
    await supply_store.insert_shares(tx, mode, shares, assigned_at)


def _demands(order: Order, sources: Sources, holds: Holds) -> list[LineDemand]:
    return [
        LineDemand(
            position,
            line.bundle_id,
            line.quantity_grams,
            sources.by_bundle.get(line.bundle_id, []),
            holds.by_line.get((order.id, line.bundle_id), {}),
        )
        for position, line in enumerate(order.lines, 1)
    ]


def _projects(order: Order, shares: Sequence[Share], sources: Sources) -> tuple[OrderProject, ...]:
    """The projects of each line, at the line's price. A line's cost is split over them to the last minor unit."""
    found: list[OrderProject] = []
    for position, line in enumerate(order.lines, 1):
        grams: defaultdict[str, int] = defaultdict(int)
        of_project: defaultdict[str, list[Share]] = defaultdict(list)
        for share in shares:
            if share.line_position == position:
                grams[share.parcel.project_id] += share.quantity_grams
                of_project[share.parcel.project_id].append(share)
        costs = apportion(line.offset_cost_minor, list(grams.values()))
        for (project_id, quantity_grams), cost_minor in zip(grams.items(), costs, strict=True):
            project = sources.projects[project_id]
            found.append(
                OrderProject(
                    line_position=position,
                    project_id=project_id,
                    project_name=project.name,
                    project_type=project.type,
                    project_slug=project.slug,
                    project_logo=sources.logo_of(project_id),
                    quantity_grams=quantity_grams,
                    unit_price_minor=line.unit_price_minor,
                    offset_cost_minor=cost_minor,
                    status=ProjectStatus.RETIRED if all_retired(of_project[project_id]) else ProjectStatus.ALLOCATED,
                )
            )
    return tuple(found)


def all_retired(shares: Sequence[Share]) -> bool:
    return all(share.parcel.status is ParcelStatus.RETIRED for share in shares)
