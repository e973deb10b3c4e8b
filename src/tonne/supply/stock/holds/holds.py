"""Hold supply for customers on the gateway's payment page, so that they get what they pay for.

A hold costs nothing, so how much a customer may hold depends on how far they can be trusted: otherwise visitors who
never pay could keep the supply from others. Locked quotes hold supply, too, within a quota.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum
from typing import ClassVar, NamedTuple

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.process.telemetry.instruments import Combine, GaugeFamily, Metric
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import GRAMS_PER_TONNE, MAX_GRAMS
from tonne.platform.values.context import Clock, Mode, Scope, replace
from tonne.platform.values.message_values import NamesValue
from tonne.selling.catalogue.coverage import Demand, cover
from tonne.selling.catalogue.prices.pricing import PricedLine
from tonne.selling.catalogue.sources import find_sources
from tonne.selling.orders.errors import NotEnoughInStock
from tonne.selling.orders.model import Order
from tonne.selling.orders.quotes.store import end_holding
from tonne.supply.stock.holds import hold_store
from tonne.supply.stock.holds.hold_store import Held, HeldPart, HeldUntil, Holder, Trust
from tonne.supply.stock.plan_allocation import whole_units
from tonne.supply.stock.supply_store import lock_lots

# As long as the payment page.
HOLD_LIFE = timedelta(minutes=35)
# How much longer than it waits an order holds supply: until a worker has fulfilled it.
HOLD_GRACE = timedelta(hours=1)
NOTHING_HELD = Held(0, 0, 0, 0, 0, 0)

_log = structlog.get_logger()


class Unheld(StrEnum):
    """Why nothing is held for a checkout, although there is enough."""

    # More than this customer may hold.
    AMOUNT = "amount"
    # Others hold all that anonymous customers, the organisation, or orders of more than a tonne may hold.
    SHARE = "share"
    # Others hold the rest of the supply.
    SUPPLY = "supply"


class Stock(NamedTuple):
    """The projects of some lines, with their lots locked: units and unallocated grams; and the projects per line."""

    units: dict[str, int]
    unallocated: dict[str, int]
    projects: list[list[str]]


async def hold_supply(
    tx: Connection, holder: Holder, lines: Sequence[PricedLine], *, settings: Settings, now: datetime
) -> Unheld | None:
    """Hold the grams of these lines for a checkout, instead of what it held before. None if they are held.

    Raises NotEnoughInStock if there would not be enough even if nobody else who is paying now paid. Call it in a
    transaction of its own: it locks lots, which come after orders in the lock order.
    """
    stock = await _lock_stock(tx, holder.scope.mode, lines)
    held = await hold_store.read_held(tx, holder.scope, holder, stock.units)
    _cover(lines, stock, {id_: held.get(id_, NOTHING_HELD).promised for id_ in stock.units})
    grams = sum(line.quantity_grams for line in lines)
    why = Unheld.AMOUNT
    for trust, limit, own in _allowances(holder, list(held.values()), settings):
        # What is kept for small orders is for customers who hold no more than a tonne in all.
        for most, kept_percent in ((min(limit, GRAMS_PER_TONNE), 0), (limit, settings.hold_small_percent)):
            if own + grams > most:
                continue
            why = Unheld.SHARE
            taken = {
                id_: unallocated - _room(unallocated, held.get(id_, NOTHING_HELD), trust, settings, kept_percent)
                for id_, unallocated in stock.unallocated.items()
            }
            with suppress(NotEnoughInStock):
                parts = _cover(lines, stock, taken)
                if own + sum(part.reserved_grams for part in parts) <= most:
                    held_as = replace(holder, trust=trust)
                    await hold_store.replace_holds(tx, holder.scope, held_as, parts, now + HOLD_LIFE)
                    return None
    if why is Unheld.SHARE:
        try:
            _cover(lines, stock, {id_: held.get(id_, NOTHING_HELD).total for id_ in stock.units})
        except NotEnoughInStock:
            return Unheld.SUPPLY
    return why


def _allowances(holder: Holder, held: Sequence[Held], settings: Settings) -> Iterator[tuple[Trust, int, int]]:
    """As whom a customer may hold supply, how much, and how much of it they hold already."""
    by_email = sum(each.email for each in held)
    if holder.trust is Trust.TRUSTED:
        yield Trust.TRUSTED, MAX_GRAMS, 0
        return
    if holder.trust is Trust.KNOWN:
        # Anybody can enter the address of somebody else: it is good for what was paid with it.
        yield Trust.KNOWN, whole_units(holder.paid_grams, GRAMS_PER_TONNE), by_email
    own = max(by_email, sum(each.client for each in held))
    yield Trust.ANONYMOUS, settings.hold_anonymous_tonnes * GRAMS_PER_TONNE, own


def _room(unallocated: int, held: Held, trust: Trust, settings: Settings, kept_percent: int) -> int:
    """How many grams of a project can be held. `kept_percent` of every share is for others.

    Shares are at least a tonne: a percentage of the last tonnes would be too little to buy.
    """
    if trust is Trust.ANONYMOUS:
        share = (settings.hold_anonymous_percent, held.anonymous)
    else:
        share = (settings.hold_organisation_percent, held.organisation)
    left = [
        max(unallocated * percent * (100 - kept_percent) // 10_000, GRAMS_PER_TONNE) - grams
        for percent, grams in ((100, held.total), share)
    ]
    return min(unallocated - held.total, *left)


async def hold_for_quote(
    tx: Connection, scope: Scope, quote_id: str, lines: Sequence[PricedLine], expires_at: datetime
) -> int:
    """Hold the grams of these lines for a quote, and return how many are reserved, in whole units of the registries.

    Raises NotEnoughInStock. It locks lots until the transaction ends.
    """
    stock = await _lock_stock(tx, scope.mode, lines)
    reserved = await hold_store.read_reserved_any_account(tx, scope.mode, stock.units)
    parts = _cover(lines, stock, reserved)
    await hold_store.insert_promised(tx, scope, quote_id, parts, expires_at)
    return sum(part.reserved_grams for part in parts)


async def hold_for_orders(tx: Connection, mode: Mode, orders: Sequence[Order]) -> list[Order]:
    """Hold the grams of these locked paid orders until they are fulfilled. Returns those that supply does not cover.

    Orders for which a checkout or a quote holds supply keep that. It locks lots until the transaction ends.
    """
    stock = await _lock_stock(tx, mode, [line for order in orders for line in order.lines])
    found = await hold_store.read_holds_any_account(tx, mode, stock.units)
    holding = {each.order_id for each in found}
    reserved: dict[str, int] = dict.fromkeys(stock.units, 0)
    for each in found:
        reserved[each.project_id] += each.reserved_grams
    short, projects = [], iter(stock.projects)
    for order in orders:
        own = stock._replace(projects=[next(projects) for _ in order.lines])
        if order.id in holding or order.fulfil_after is None:
            continue
        try:
            parts = _cover(order.lines, own, reserved)
        except NotEnoughInStock:
            short.append(order)
            continue
        until = order.fulfil_after + HOLD_GRACE
        await hold_store.insert_promised(tx, order.scope, order.id, parts, until, order_id=order.id)
        for part in parts:
            reserved[part.project_id] += part.reserved_grams
    return short


async def shrink_hold(tx: Connection, reduced: Order) -> None:
    """Keep only what a locked order still needs of what is held for it. Nothing new is held, so no lot is locked."""
    parts, until = await hold_store.take_of_order(tx, reduced)
    if until is None:
        return
    sources = await find_sources(tx, reduced.scope.mode, [line.bundle_id for line in reduced.lines])
    units = {source.project_id: source.granularity_grams for source in sources}
    left = {line.bundle_id: line.quantity_grams for line in reduced.lines}
    kept = []
    for part in sorted(parts):
        grams = min(part.quantity_grams, left.get(part.bundle_id, 0))
        if grams:
            left[part.bundle_id] -= grams
            reserved = min(part.reserved_grams, whole_units(grams, units[part.project_id]))
            kept.append(part._replace(quantity_grams=grams, reserved_grams=reserved))
    await hold_store.insert_promised(tx, reduced.scope, reduced.id, kept, until, order_id=reduced.id)


async def _lock_stock(tx: Connection, mode: Mode, lines: Sequence[PricedLine]) -> Stock:
    sources = await find_sources(tx, mode, [line.bundle_id for line in lines])
    units = {source.project_id: source.granularity_grams for source in sources}
    unallocated = dict.fromkeys(units, 0)
    for lot in await lock_lots(tx, mode, units):
        unallocated[lot.project_id] += lot.quantity_grams - lot.allocated_grams
    projects = [[source.project_id for source in sources if source.bundle_id == line.bundle_id] for line in lines]
    return Stock(units, unallocated, projects)


def _cover(lines: Sequence[PricedLine], stock: Stock, taken: Mapping[str, int]) -> list[HeldPart]:
    """The parts of these lines, of what is not taken. Raises NotEnoughInStock."""
    units = stock.units
    free = {
        id_: max(0, unallocated - taken.get(id_, 0)) // units[id_] * units[id_]
        for id_, unallocated in stock.unallocated.items()
    }
    demands = [Demand(line.quantity_grams, ids) for line, ids in zip(lines, stock.projects, strict=True)]
    coverage = cover(demands, free)
    parts = [
        HeldPart(line.bundle_id, project_id, grams, whole_units(grams, units[project_id]))
        for line, of_line in zip(lines, coverage.taken, strict=True)
        for project_id, grams in of_line.items()
    ]
    short = set(coverage.short)
    for id_, grams in free.items():
        if sum(part.reserved_grams for part in parts if part.project_id == id_) > grams:
            # Fractions of several lines would need one unit more than there is.
            short |= {i for i, of_line in enumerate(stock.projects) if id_ in of_line}
    if short:
        raise NotEnoughInStock(names=NamesValue(tuple(lines[i].bundle_name for i in sorted(short))))
    return parts


async def release_hold(database: Database, holder: Holder, held_at: datetime) -> None:
    """Release what a checkout holds since then, if it has no order: the customer did not get to the payment page.

    A later hold of the same checkout stays: the customer is paying in another tab.
    """
    await database.commit(hold_store.delete_unordered, holder.scope, holder.checkout_id, held_at + HOLD_LIFE)


# `checkout` implements it, because it depends on charges: what is held for orders whose payment was declined, or that
# nobody is paying any more.
FindUnpaid = Callable[[Connection, datetime], Awaitable[list[HeldUntil]]]


class ReleaseHolds:
    """A job of the worker: releases what checkouts and quotes hold that expired, failed, or whose order has ended."""

    EVERY_S: ClassVar[int] = 2

    def __init__(self, database: Database, clock: Clock, find_unpaid: FindUnpaid) -> None:
        self._database = database
        self._clock = clock
        self._find_unpaid = find_unpaid
        self._held: dict[str, int] = {}

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (
            GaugeFamily(
                "tonne_holds_grams",
                "Grams that unpaid live checkouts hold, by how far their customers are trusted, and paid orders that "
                "are not fulfilled yet.",
                "trust",
                read=lambda: [((trust,), grams) for trust, grams in self._held.items()],
                combine=Combine.MAX,
            ),
        )

    async def run_once(self) -> bool:
        """False if there was nothing to release."""
        async with self._database.transaction() as tx:
            now = self._clock()
            unpaid = await self._find_unpaid(tx, now)
            released = await hold_store.release_ended(tx, now, unpaid)
            await end_holding(tx, now)
            self._held = await hold_store.sum_by_trust_any_account(tx)
        for holder_id in released:
            _log.info("hold_released", holder_id=holder_id)
        return bool(released)
