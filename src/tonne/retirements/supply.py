"""Plans the allocation of an order: whole units from the oldest lots, fractions from pooled units. No I/O.

The caller has locked the lots and units, so that the plan stays valid.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from tonne.base.ids import new_id
from tonne.base.mass import GRAMS_PER_TONNE
from tonne.base.money import apportion
from tonne.retirements.model import Lot, LotStatus, Parcel, ParcelStatus, Share


@dataclass(frozen=True, slots=True)
class Source:
    """A project of a bundle. `granularity_grams` is the smallest unit that its registry retires."""

    project_id: str
    weight: int
    granularity_grams: int


@dataclass(frozen=True, slots=True)
class Recipient:
    account_id: str
    beneficiary: str
    # True for test accounts that advance automatically: no operator has to retire anything.
    retires_at_once: bool


@dataclass(frozen=True, slots=True)
class LineDemand:
    """One line of an order."""

    position: int
    quantity_grams: int
    sources: Sequence[Source]


class Supply:
    """Lots and units with free grams. `allocate` changes them; `service_name` is the beneficiary of shared units."""

    def __init__(
        self, lots: Iterable[Lot], units: Iterable[Parcel], *, now: datetime, wait: timedelta, service_name: str
    ) -> None:
        self._now = now
        self._wait = wait
        self._service_name = service_name
        self._lots: defaultdict[str, list[Lot]] = defaultdict(list)
        for lot in sorted(lots, key=lambda lot: (lot.vintage, lot.id)):
            self._lots[lot.project_id].append(lot)
        self._units: defaultdict[tuple[str, str | None, str], list[Parcel]] = defaultdict(list)
        for unit in units:
            self._units[_pool(unit)].append(unit)
        self.touched_lots: dict[str, Lot] = {}
        self.touched_parcels: dict[str, Parcel] = {}
        # Undo log of the current order.
        self._undo: list[Callable[[], None]] = []

    def allocate(self, order_id: str, recipient: Recipient, demands: Sequence[LineDemand]) -> list[Share] | None:
        """Allocate all lines of an order. Returns None, and changes nothing, if supply does not cover it."""
        self._undo = []
        shares: list[Share] = []
        for line in demands:
            got = self._allocate_line(order_id, recipient, line)
            if got is None:
                for step in reversed(self._undo):
                    step()
                return None
            shares += got
        return shares

    def _allocate_line(self, order_id: str, recipient: Recipient, line: LineDemand) -> list[Share] | None:
        if not line.sources:
            return None
        shares: list[Share] = []
        missing_grams = 0
        for source, target_grams in zip(line.sources, _targets(order_id, line), strict=True):
            if target_grams:
                missing_grams += target_grams - self._take(source, recipient, line.position, target_grams, shares)
        if missing_grams:
            # What a project cannot cover comes from the other projects of the bundle, oldest vintage first.
            for source in sorted(line.sources, key=lambda source: self._oldest(source.project_id)):
                missing_grams -= self._take(source, recipient, line.position, missing_grams, shares)
        return None if missing_grams else _merged(shares)

    def _oldest(self, project_id: str) -> int:
        return min(
            (lot.vintage for lot in self._lots[project_id] if lot.allocated_grams < lot.quantity_grams), default=0
        )

    def _take(self, source: Source, recipient: Recipient, position: int, grams: int, shares: list[Share]) -> int:
        """Take up to `grams` of a project and add them to `shares`. Returns how much was taken."""
        before = sum(share.quantity_grams for share in shares)
        unit_grams = source.granularity_grams
        self._take_whole(source, recipient, position, grams - grams % unit_grams, shares)
        self._take_fraction(source, recipient, position, grams % unit_grams, shares)
        return sum(share.quantity_grams for share in shares) - before

    def _take_whole(self, source: Source, recipient: Recipient, position: int, grams: int, shares: list[Share]) -> None:
        for lot in self._lots[source.project_id]:
            free_grams = lot.quantity_grams - lot.allocated_grams
            taken_grams = min(grams, free_grams - free_grams % source.granularity_grams)
            if taken_grams <= 0:
                continue
            parcel = self._cut(lot, taken_grams)
            parcel.account_id, parcel.beneficiary = recipient.account_id, recipient.beneficiary
            parcel.allocated_grams = taken_grams
            self._finish(parcel, lot, at_once=recipient.retires_at_once)
            shares.append(Share(position, parcel, taken_grams))
            grams -= taken_grams

    def _take_fraction(
        self, source: Source, recipient: Recipient, position: int, grams: int, shares: list[Share]
    ) -> None:
        while grams:
            unit = self._unit_with_room(source, recipient)
            if unit is None:
                return
            taken_grams = min(grams, unit.room_grams)
            self._fill(unit, taken_grams)
            shares.append(Share(position, unit, taken_grams))
            grams -= taken_grams

    def _unit_with_room(self, source: Source, recipient: Recipient) -> Parcel | None:
        """A unit in the service's name, else the account's own open unit, else a new one.

        With `retires_at_once` only retired units qualify: the order must not wait for an operator.
        """
        for pool in (
            (source.project_id, None, ""),
            (source.project_id, recipient.account_id, recipient.beneficiary),
        ):
            for unit in self._units[pool]:
                if unit.room_grams and (unit.status is ParcelStatus.RETIRED or not recipient.retires_at_once):
                    return unit
        for lot in self._lots[source.project_id]:
            if lot.quantity_grams - lot.allocated_grams >= source.granularity_grams:
                return self._open_unit(lot, source.granularity_grams, recipient)
        return None

    def _open_unit(self, lot: Lot, granularity_grams: int, recipient: Recipient) -> Parcel:
        unit = self._cut(lot, granularity_grams)
        if lot.status is LotStatus.PRE_RETIRED or recipient.retires_at_once:
            unit.account_id, unit.beneficiary = None, self._service_name
            self._retire(unit, lot)
        else:
            unit.account_id, unit.beneficiary = recipient.account_id, recipient.beneficiary
            unit.status, unit.close_at = ParcelStatus.OPEN, self._now + self._wait
        pool = self._units[_pool(unit)]
        pool.append(unit)
        self._undo.append(lambda: pool.remove(unit))
        return unit

    def _cut(self, lot: Lot, grams: int) -> Parcel:
        """Take the next units of a lot. The caller sets account and beneficiary."""
        parcel = Parcel(
            id=new_id("par"),
            lot_id=lot.id,
            project_id=lot.project_id,
            start_grams=lot.allocated_grams,
            quantity_grams=grams,
            allocated_grams=0,
            account_id=None,
            beneficiary="",
            status=ParcelStatus.TO_RETIRE,
            close_at=None,
            retired_on=None,
            retirement_url=None,
            is_new=True,
        )
        lot.allocated_grams += grams
        self.touched_lots[lot.id] = lot
        self.touched_parcels[parcel.id] = parcel

        def undo() -> None:
            lot.allocated_grams -= grams
            del self.touched_parcels[parcel.id]

        self._undo.append(undo)
        return parcel

    def _fill(self, unit: Parcel, grams: int) -> None:
        before = (unit.status, unit.close_at)
        unit.allocated_grams += grams
        if unit.status is ParcelStatus.OPEN and not unit.room_grams:
            unit.status, unit.close_at = ParcelStatus.TO_RETIRE, None
        self.touched_parcels[unit.id] = unit

        def undo() -> None:
            unit.allocated_grams -= grams
            unit.status, unit.close_at = before

        self._undo.append(undo)

    def _finish(self, parcel: Parcel, lot: Lot, *, at_once: bool) -> None:
        if lot.status is LotStatus.PRE_RETIRED or at_once:
            self._retire(parcel, lot)

    def _retire(self, parcel: Parcel, lot: Lot) -> None:
        parcel.status = ParcelStatus.RETIRED
        parcel.retired_on = lot.retired_on or self._today()
        parcel.retirement_url = lot.retirement_url

    def _today(self) -> date:
        return self._now.date()


def _pool(unit: Parcel) -> tuple[str, str | None, str]:
    """The key of a unit's pool. Units in the service's name share one, even if that name has changed."""
    return unit.project_id, unit.account_id, unit.beneficiary if unit.account_id else ""


def _targets(order_id: str, line: LineDemand) -> list[int]:
    """How much to take of each project: whole tonnes by weight, the remainder below a tonne from one of them.

    Otherwise small orders would leave a fraction in every project. A hash of the order's id selects the project, in
    proportion to the weights, so that an order is always split in the same way.
    """
    weights = [source.weight for source in line.sources]
    tonnes, rest_grams = divmod(line.quantity_grams, GRAMS_PER_TONNE)
    targets = [part * GRAMS_PER_TONNE for part in apportion(tonnes, weights)]
    if rest_grams:
        digest = hashlib.sha256(f"{order_id} {line.position}".encode()).digest()
        ticket = int.from_bytes(digest[:8], "big") % sum(weights)
        for i, weight in enumerate(weights):
            if ticket < weight:
                targets[i] += rest_grams
                break
            ticket -= weight
    return targets


def _merged(shares: list[Share]) -> list[Share]:
    """Merge shares of the same parcel: a line may have taken from a unit twice."""
    grams: dict[str, int] = defaultdict(int)
    first: dict[str, Share] = {}
    for share in shares:
        grams[share.parcel.id] += share.quantity_grams
        first.setdefault(share.parcel.id, share)
    return [Share(share.line_position, share.parcel, grams[id_]) for id_, share in first.items()]
