"""Plans the allocation of an order: whole units from the oldest lots, fractions from pooled units. No I/O.

The caller has locked the lots and units, so that the plan stays valid.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from tonne.platform.values.context import new_id, replace
from tonne.selling.catalogue.coverage import Demand, cover
from tonne.supply.stock.model import Lot, LotStatus, Parcel, ParcelStatus, Share
from tonne.supply.stock.split_by_project import split_by_weight, without_common_part


class Source(Struct, frozen=True):
    """A project of a bundle. `granularity_grams` is the smallest unit that its registry retires."""

    project_id: str
    weight: int
    granularity_grams: int


class Recipient(Struct, frozen=True):
    account_id: str
    beneficiary: str
    # Fractions come from units in the service's name, which are retired whole, in advance. Otherwise they wait in a
    # unit of the account until it is full.
    in_service_name: bool = False


class LineDemand(Struct, frozen=True):
    """One line of an order."""

    position: int
    bundle_id: str
    quantity_grams: int
    sources: Sequence[Source]
    # Grams held for this line, by project. The total that `Supply` holds includes them.
    held: Mapping[str, int] = field(default_factory=dict)


class Supply:
    """Lots and units with free grams. `allocate` changes them; `service_name` is the beneficiary of shared units.

    `held` are the grams of each project that are held for checkouts: only the orders that hold them get them. `drawn`
    has what earlier orders were meant to get, by bundle and project.
    """

    def __init__(
        self,
        lots: Iterable[Lot],
        units: Iterable[Parcel],
        *,
        now: datetime,
        wait: timedelta,
        service_name: str,
        held: Mapping[str, int] | None = None,
        drawn: Mapping[str, Mapping[str, int]] | None = None,
    ) -> None:
        self._now = now
        self._wait = wait
        self._service_name = service_name
        self._lots: defaultdict[str, list[Lot]] = defaultdict(list)
        self._free: defaultdict[str, int] = defaultdict(int)
        for lot in sorted(lots, key=lambda lot: (lot.vintage, lot.id)):
            self._lots[lot.project_id].append(lot)
            self._free[lot.project_id] += lot.quantity_grams - lot.allocated_grams
        self._held: defaultdict[str, int] = defaultdict(int, held or {})
        self._drawn = {bundle_id: dict(of_bundle) for bundle_id, of_bundle in (drawn or {}).items()}
        self._units: defaultdict[tuple[str, str | None, str], list[Parcel]] = defaultdict(list)
        for unit in units:
            self._units[_pool(unit)].append(unit)
        self.touched_lots: dict[str, Lot] = {}
        self.touched_parcels: dict[str, Parcel] = {}
        # Undo log of the current order.
        self._undo: list[Callable[[], None]] = []

    def allocate(self, recipient: Recipient, demands: Sequence[LineDemand]) -> list[Share] | None:
        """Allocate all lines of an order. Returns None, and changes nothing, if supply does not cover it."""
        shares = self._try(recipient, demands)
        if shares is None and len(demands) > 1 and not any(line.held for line in demands):
            # One line may have taken the only project that another line could use.
            planned = self._plan(demands)
            self._change_held(planned, 1)
            shares = self._try(recipient, planned) if planned else None
            if shares is None:
                self._change_held(planned, -1)
        return shares

    def drawn(self) -> dict[str, dict[str, int]]:
        """What orders were meant to get, including those allocated here, by bundle and project."""
        return self._drawn

    def _try(self, recipient: Recipient, demands: Sequence[LineDemand]) -> list[Share] | None:
        self._undo = []
        shares: list[Share] = []
        for line in demands:
            got = self._allocate_line(recipient, line)
            if got is None:
                for step in reversed(self._undo):
                    step()
                return None
            shares += got
        return shares

    def _plan(self, demands: Sequence[LineDemand]) -> list[LineDemand]:
        """The lines with grams held for each, so that no line takes what another one needs; empty if there are none."""
        units = {source.project_id: source.granularity_grams for line in demands for source in line.sources}
        free = {id_: self._available(id_, unit_grams) for id_, unit_grams in units.items()}
        coverage = cover(
            [Demand(line.quantity_grams, [source.project_id for source in line.sources]) for line in demands], free
        )
        planned = [
            replace(line, held={id_: whole_units(grams, units[id_]) for id_, grams in taken.items()})
            for line, taken in zip(demands, coverage.taken, strict=True)
        ]
        needed = {id_: sum(line.held.get(id_, 0) for line in planned) for id_ in units}
        return [] if coverage.short or any(needed[id_] > free[id_] for id_ in units) else planned

    def _change_held(self, demands: Sequence[LineDemand], sign: int) -> None:
        for line in demands:
            for project_id, grams in line.held.items():
                self._held[project_id] += sign * grams

    def _allocate_line(self, recipient: Recipient, line: LineDemand) -> list[Share] | None:
        if not line.sources:
            return None
        self._change_held([line], -1)
        self._undo.append(lambda: self._change_held([line], 1))
        shares: list[Share] = []
        missing_grams = 0
        for source, target_grams in zip(line.sources, self._draw(line), strict=True):
            if target_grams:
                missing_grams += target_grams - self._take(source, recipient, line.position, target_grams, shares)
        # What a project cannot cover comes from the other projects of the bundle, oldest vintage first.
        by_age = sorted(line.sources, key=lambda source: self._oldest(source.project_id)) if missing_grams else []
        for source in by_age:
            missing_grams -= self._take(source, recipient, line.position, missing_grams, shares)
        for source in by_age:
            # No whole unit is left, but perhaps a part of one.
            missing_grams -= self._take_fraction(source, recipient, line.position, missing_grams, shares)
        return None if missing_grams else _merged(shares)

    def _draw(self, line: LineDemand) -> list[int]:
        """How much of each source the line is meant to get. Counted even if another project has to supply it.

        Otherwise a project that was short for a while would be preferred afterwards, until it has caught up.
        """
        weights = [source.weight for source in line.sources]
        before = self._drawn.setdefault(line.bundle_id, {})
        drawn = [before.get(source.project_id, 0) for source in line.sources]
        targets = split_by_weight(line.quantity_grams, weights, drawn)
        after = without_common_part(weights, [old + new for old, new in zip(drawn, targets, strict=True)])
        self._drawn[line.bundle_id] = {
            source.project_id: grams for source, grams in zip(line.sources, after, strict=True)
        }
        self._undo.append(lambda: self._drawn.__setitem__(line.bundle_id, before))
        return targets

    def _oldest(self, project_id: str) -> int:
        return min(
            (lot.vintage for lot in self._lots[project_id] if lot.allocated_grams < lot.quantity_grams), default=0
        )

    def _available(self, project_id: str, unit_grams: int) -> int:
        """Whole units in lots that are not held for others."""
        grams = max(0, self._free[project_id] - self._held[project_id])
        return grams - grams % unit_grams

    def _take(self, source: Source, recipient: Recipient, position: int, grams: int, shares: list[Share]) -> int:
        """Take up to `grams` of a project and add them to `shares`. Returns how much was taken."""
        rest_grams = grams % source.granularity_grams
        taken_grams = self._take_whole(source, recipient, position, grams - rest_grams, shares)
        return taken_grams + self._take_fraction(source, recipient, position, rest_grams, shares)

    def _take_whole(self, source: Source, recipient: Recipient, position: int, grams: int, shares: list[Share]) -> int:
        wanted_grams = missing_grams = min(grams, self._available(source.project_id, source.granularity_grams))
        for lot in self._lots[source.project_id]:
            free_grams = lot.quantity_grams - lot.allocated_grams
            taken_grams = min(missing_grams, free_grams - free_grams % source.granularity_grams)
            if taken_grams <= 0:
                continue
            parcel = self._cut(lot, taken_grams)
            parcel.account_id, parcel.beneficiary = recipient.account_id, recipient.beneficiary
            parcel.allocated_grams = taken_grams
            if lot.status is LotStatus.PRE_RETIRED:
                self._retire(parcel, lot)
            shares.append(Share(position, parcel, taken_grams))
            missing_grams -= taken_grams
        return wanted_grams - missing_grams

    def _take_fraction(
        self, source: Source, recipient: Recipient, position: int, grams: int, shares: list[Share]
    ) -> int:
        missing_grams = grams
        while missing_grams:
            unit = self._unit_with_room(source, recipient)
            if unit is None:
                break
            taken_grams = min(missing_grams, unit.room_grams)
            self._fill(unit, taken_grams)
            shares.append(Share(position, unit, taken_grams))
            missing_grams -= taken_grams
        return grams - missing_grams

    def _unit_with_room(self, source: Source, recipient: Recipient) -> Parcel | None:
        """A unit in the service's name, else the account's own open unit, else a new one. Retired units come first.

        With `in_service_name` the account's own unit does not qualify: the order must not wait for other fractions.
        """
        shared = (source.project_id, None, "")
        own = (source.project_id, recipient.account_id, recipient.beneficiary)
        for unit in sorted(self._units[shared], key=lambda unit: unit.status is not ParcelStatus.RETIRED):
            if unit.room_grams:
                return unit
        if not recipient.in_service_name:
            for unit in self._units[own]:
                if unit.room_grams:
                    return unit
        if self._available(source.project_id, source.granularity_grams):
            for lot in self._lots[source.project_id]:
                if lot.quantity_grams - lot.allocated_grams >= source.granularity_grams:
                    return self._open_unit(lot, source.granularity_grams, recipient)
        return None

    def _open_unit(self, lot: Lot, granularity_grams: int, recipient: Recipient) -> Parcel:
        unit = self._cut(lot, granularity_grams)
        if lot.status is LotStatus.PRE_RETIRED:
            unit.account_id, unit.beneficiary = None, self._service_name
            self._retire(unit, lot)
        elif recipient.in_service_name:
            # On the work list at once. Later fractions draw on its rest, before and after it is retired.
            unit.account_id, unit.beneficiary = None, self._service_name
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
        self._free[lot.project_id] -= grams
        self.touched_lots[lot.id] = lot
        self.touched_parcels[parcel.id] = parcel

        def undo() -> None:
            lot.allocated_grams -= grams
            self._free[lot.project_id] += grams
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

    def _retire(self, parcel: Parcel, lot: Lot) -> None:
        parcel.status = ParcelStatus.RETIRED
        parcel.retired_on = lot.retired_on
        parcel.retirement_url = lot.retirement_url


def _pool(unit: Parcel) -> tuple[str, str | None, str]:
    """The key of a unit's pool. Units in the service's name share one, even if that name has changed."""
    return unit.project_id, unit.account_id, unit.beneficiary if unit.account_id else ""


def whole_units(grams: int, unit_grams: int) -> int:
    """Rounded up to whole units."""
    return -(-grams // unit_grams) * unit_grams


def _merged(shares: list[Share]) -> list[Share]:
    """Merge shares of the same parcel: a line may have taken from a unit twice."""
    grams: dict[str, int] = defaultdict(int)
    first: dict[str, Share] = {}
    for share in shares:
        grams[share.parcel.id] += share.quantity_grams
        first.setdefault(share.parcel.id, share)
    return [Share(share.line_position, share.parcel, grams[id_]) for id_, share in first.items()]
