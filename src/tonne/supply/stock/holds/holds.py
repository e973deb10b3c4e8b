"""Hold supply for customers on the gateway's payment page, so that nobody is charged for credits that do not exist.

Locked quotes hold supply, too, within a quota.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar, NamedTuple

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import GRAMS_PER_TONNE, format_tonnes
from tonne.platform.values.context import Clock, Mode, Scope
from tonne.selling.catalogue.coverage import Coverage, Demand, cover
from tonne.selling.catalogue.prices.pricing import PricedLine
from tonne.selling.catalogue.sources import find_sources
from tonne.selling.orders.errors import NotEnoughInStock
from tonne.selling.orders.quotes.store import end_holding
from tonne.supply.stock.holds import hold_store
from tonne.supply.stock.holds.hold_store import HeldBy, HeldPart, HeldUntil, Holder
from tonne.supply.stock.plan_allocation import whole_units
from tonne.supply.stock.supply_store import lock_lots

# As long as the payment page.
HOLD_LIFE = timedelta(minutes=35)

_log = structlog.get_logger()


async def hold_supply(
    tx: Connection, holder: Holder, lines: Sequence[PricedLine], *, settings: Settings, now: datetime
) -> None:
    """Hold the grams of these lines for a checkout, instead of what it held before.

    Raises NotEnoughInStock if that much is not free, or if the link, the client or the organisation would hold more
    than its limit. Call it in a transaction of its own: it locks lots, which come after orders in the lock order.
    """
    found = await find_free_parts(tx, holder.scope.mode, lines, without_checkout=holder.checkout_id)
    held_by = await hold_store.read_held_by(tx, holder.scope, holder, [line.bundle_id for line in lines])
    for line, of_line in zip(lines, found.projects, strict=True):
        reserved_grams = sum(part.reserved_grams for part in found.parts if part.bundle_id == line.bundle_id)
        total = sum(found.unallocated[id_] for id_ in of_line)
        _require_within_limits(line, reserved_grams, total, held_by.get(line.bundle_id), settings)
    await hold_store.replace_holds(tx, holder.scope, holder, found.parts, now + HOLD_LIFE)


class FreeParts(NamedTuple):
    """What can be held for some lines; the projects of each line; and the unallocated grams of each project."""

    parts: list[HeldPart]
    projects: list[list[str]]
    unallocated: dict[str, int]


async def find_free_parts(
    tx: Connection, mode: Mode, lines: Sequence[PricedLine], *, without_checkout: str = ""
) -> FreeParts:
    """Lock the lots of these lines, and find free grams for all of them. Raises NotEnoughInStock."""
    sources = await find_sources(tx, mode, [line.bundle_id for line in lines])
    units = {source.project_id: source.granularity_grams for source in sources}
    unallocated = dict.fromkeys(units, 0)
    for lot in await lock_lots(tx, mode, units):
        unallocated[lot.project_id] += lot.quantity_grams - lot.allocated_grams
    reserved = await hold_store.read_reserved_any_account(tx, mode, units, without_checkout=without_checkout)
    free = {id_: max(0, grams - reserved.get(id_, 0)) // units[id_] * units[id_] for id_, grams in unallocated.items()}
    projects = [[source.project_id for source in sources if source.bundle_id == line.bundle_id] for line in lines]
    coverage = cover(
        [Demand(line.quantity_grams, of_line) for line, of_line in zip(lines, projects, strict=True)], free
    )
    parts = _parts(lines, coverage, units)
    _require_free(lines, projects, coverage, parts, free)
    return FreeParts(parts, projects, unallocated)


async def hold_for_quote(
    tx: Connection, scope: Scope, quote_id: str, lines: Sequence[PricedLine], expires_at: datetime
) -> int:
    """Hold the grams of these lines for a quote, and return how many are reserved, in whole units of the registries.

    Raises NotEnoughInStock. It locks lots until the transaction ends.
    """
    found = await find_free_parts(tx, scope.mode, lines)
    await hold_store.insert_quote_holds(tx, scope, quote_id, found.parts, expires_at)
    return sum(part.reserved_grams for part in found.parts)


def _parts(lines: Sequence[PricedLine], coverage: Coverage, units: dict[str, int]) -> list[HeldPart]:
    return [
        HeldPart(line.bundle_id, project_id, grams, whole_units(grams, units[project_id]))
        for line, taken in zip(lines, coverage.taken, strict=True)
        for project_id, grams in taken.items()
    ]


def _require_free(
    lines: Sequence[PricedLine],
    projects: Sequence[Sequence[str]],
    coverage: Coverage,
    parts: Sequence[HeldPart],
    free: dict[str, int],
) -> None:
    short = set(coverage.short)
    for id_, grams in free.items():
        if sum(part.reserved_grams for part in parts if part.project_id == id_) > grams:
            # Fractions of several lines would need one unit more than there is.
            short |= {i for i, of_line in enumerate(projects) if id_ in of_line}
    if short:
        left = sum(free[id_] for id_ in {id_ for i in short for id_ in projects[i]})
        names = " and ".join(lines[i].bundle_name for i in sorted(short))
        raise _not_enough(names, left)


def _require_within_limits(
    line: PricedLine, reserved: int, unallocated: int, held: HeldBy | None, settings: Settings
) -> None:
    """`reserved` are the whole units for the line."""

    def limit(percent: int) -> int:
        # At least a tonne: a percentage of the last tonnes would be too little to buy, and they could never be sold.
        return max(unallocated * percent // 100, GRAMS_PER_TONNE)

    link, client, organisation = held or HeldBy(0, 0, 0)
    left = min(limit(settings.hold_link_percent) - link, limit(settings.hold_organisation_percent) - organisation)
    # In whole tonnes, as units are reserved.
    left_units = whole_units(limit(settings.hold_client_percent), GRAMS_PER_TONNE) - client
    if line.quantity_grams > left or reserved > left_units:
        raise _not_enough(line.bundle_name, max(0, min(left, left_units)))


def _not_enough(names: str, left_grams: int) -> NotEnoughInStock:
    amount = f"{format_tonnes(left_grams)} t" if left_grams else "none"
    return NotEnoughInStock(
        f"Not enough in stock: of {names}, {amount} can be bought right now. Nothing was charged. Choose a smaller "
        "amount or another option, or try again later."
    )


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

    async def run_once(self) -> bool:
        """False if there was nothing to release."""
        async with self._database.transaction() as tx:
            now = self._clock()
            unpaid = await self._find_unpaid(tx, now)
            released = await hold_store.release_ended(tx, now, unpaid)
            await end_holding(tx, now)
        for holder_id in released:
            _log.info("hold_released", holder_id=holder_id)
        return bool(released)
