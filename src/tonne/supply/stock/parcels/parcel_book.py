"""Which parcel holds which serial numbers, while confirmations are imported. No I/O.

Registries may retire a part of a parcel, or serials of their own choice. The parcel then gets the serials that were
retired. What it held before goes to the parcels that held those, so that every serial stays in exactly one parcel and
the allocated part of a lot has no gaps.
"""

from collections import defaultdict
from collections.abc import Iterable
from datetime import date, datetime

from msgspec import Struct

from tonne.platform.documents.sheets.columns import quoted
from tonne.platform.values.context import new_id, replace
from tonne.platform.values.serials import units_of_part
from tonne.supply.stock.model import LotStatus, ParcelStatus
from tonne.supply.stock.serial_runs import SerialRun
from tonne_verify.serials.units import UnitRange


class LotPlace(Struct, frozen=True):
    """The lot of a parcel, and its units."""

    lot_id: str
    units: UnitRange


class BookedParcel(Struct):
    """`origin_id` is set for a parcel that was split off in this import: the stored parcel with its orders."""

    id: str
    lot: LotPlace
    start_grams: int
    quantity_grams: int
    project_id: str
    vintage: int
    registry: str
    registry_id: str
    registry_url: str | None
    beneficiary: str
    in_service_name: bool
    lot_status: LotStatus
    status: ParcelStatus
    retired_on: date | None
    retirement_url: str | None
    # When the first of its orders was received.
    ordered_at: datetime
    # Whether all of it belongs to one line of an order.
    is_of_one_line: bool
    # The parcel on the work list from which it was split off.
    split_from: str | None
    # When its lot was invalidated.
    invalidated_at: datetime | None = None
    # The request to the registry that is to retire it.
    instruction_id: str | None = None
    origin_id: str | None = None
    # Not a parcel: units that are not allocated.
    is_free: bool = False

    @property
    def retired_as(self) -> tuple[str, int, bool, str]:
        """Parcels that can be retired together: one project, vintage and beneficiary."""
        return self.project_id, self.vintage, self.in_service_name, self.beneficiary

    @property
    def first_number(self) -> int:
        return self.lot.units.first + self.start_grams // self.lot.units.unit_grams

    @property
    def units(self) -> UnitRange:
        return units_of_part(self.lot.units, self.start_grams, self.quantity_grams)

    @property
    def run(self) -> SerialRun:
        units, first = self.lot.units, self.first_number
        return SerialRun(units.namespace, first, first + self.quantity_grams // units.unit_grams - 1)

    @property
    def serials(self) -> str:
        return quoted(self.units.text)

    @property
    def is_divisible(self) -> bool:
        return self.is_free or (self.is_of_one_line and self.status is ParcelStatus.TO_RETIRE)

    def move(self, lot: LotPlace, run: SerialRun) -> None:
        self.lot = lot
        self.start_grams = (run.first - lot.units.first) * lot.units.unit_grams
        self.quantity_grams = run.units * lot.units.unit_grams


class SerialsRefused(Exception):
    """The message says why the parcel cannot get these serials, and what to do."""


class ParcelBook:
    """`fixed_ids` are parcels that certificates state: their serials cannot change. Nor can those of a request to a
    registry, unless it is one of `instruction_ids`, which have their answers.
    """

    def __init__(
        self, parcels: Iterable[BookedParcel], fixed_ids: Iterable[str], instruction_ids: Iterable[str] = ()
    ) -> None:
        self._parcels = {parcel.id: parcel for parcel in parcels}
        self._before = {parcel.id: replace(parcel) for parcel in self._parcels.values()}
        self._split: defaultdict[str, list[str]] = defaultdict(list)
        for parcel in self._parcels.values():
            if parcel.split_from is not None:
                self._split[parcel.split_from].append(parcel.id)
        self._fixed_ids = frozenset(fixed_ids)
        self._answered = {None, *instruction_ids}
        self._lines: dict[str, int] = {}

    def find(self, parcel_id: str) -> BookedParcel | None:
        return self._parcels.get(parcel_id)

    @property
    def stored(self) -> list[BookedParcel]:
        """The parcels as they were before the import."""
        return list(self._before.values())

    @property
    def created(self) -> list[BookedParcel]:
        return [parcel for parcel in self._parcels.values() if parcel.origin_id is not None and not parcel.is_free]

    @property
    def changed(self) -> list[tuple[BookedParcel, BookedParcel]]:
        """Stored parcels whose serials change: as they were, and as they are now."""
        pairs = [(before, self._parcels[id_]) for id_, before in self._before.items() if not before.is_free]
        return [(before, now) for before, now in pairs if (before.lot, before.run) != (now.lot, now.run)]

    def is_asked(self, parcel: BookedParcel) -> bool:
        """Whether a registry may be retiring it at the moment."""
        return parcel.status is ParcelStatus.TO_RETIRE and parcel.instruction_id not in self._answered

    def former_holder(self, parcel: BookedParcel) -> str | None:
        """The parcel that held its units before the import."""
        return next(
            (each.id for each in self._before.values() if not each.is_free and each.run.common(parcel.run)), None
        )

    @property
    def lots_with_gaps(self) -> set[str]:
        """Lots in which free units were exchanged."""
        was = {before.id: (before.lot, before.run) for before in self._before.values()}
        moved = [each for each in self._parcels.values() if each.is_free and (each.lot, each.run) != was.get(each.id)]
        return {lot.lot_id for each in moved for lot in (each.lot, was.get(each.id, (each.lot,))[0])}

    def confirm(self, parcel: BookedParcel, line: int) -> None:
        """A line of the file confirms the parcel. No later line may give it other serials. Raises SerialsRefused."""
        earlier = self._lines.setdefault(parcel.id, line)
        if earlier != line:
            raise SerialsRefused(f"line {earlier} confirms the same serials: keep one of the two.")

    def find_held(self, parcel: BookedParcel, run: SerialRun) -> BookedParcel | None:
        """The parcel that has exactly these serials: this one, or one that was split off from it."""
        return next((each for each in self._family(parcel) if each.run == run), None)

    def _family(self, parcel: BookedParcel) -> list[BookedParcel]:
        return [parcel, *(self._parcels[id_] for id_ in self._split[parcel.id])]

    def assign(self, parcel: BookedParcel, run: SerialRun) -> BookedParcel:
        """Give these serials to the parcel, or to one that was split off from it, and return that one.

        Raises SerialsRefused.
        """
        family = self._family(parcel)
        source = self._source(family, run)
        if source is None and all(each.id in self._lines for each in family):
            raise SerialsRefused("other lines of the file confirm all of the parcel: correct or delete one of them.")
        if source is None:
            raise SerialsRefused(f"the parcel holds the serials {parcel.serials}: retire these, or correct the line.")
        if source.run.contains(run):
            self._split_off(source, source.run.without(run))
            source.move(source.lot, run)
        else:
            self._exchange(source, run)
        return source

    def _source(self, family: list[BookedParcel], run: SerialRun) -> BookedParcel | None:
        """The parcel that gets the serials: one that contains them, otherwise the smallest that is large enough."""
        fits = [
            each
            for each in family
            if each.id not in self._fixed_ids
            and each.id not in self._lines
            and each.lot_status is LotStatus.HELD
            and each.status is not ParcelStatus.OPEN
            and each.invalidated_at is None
            and not self.is_asked(each)
            and (each.run.units == run.units or (each.run.units > run.units and each.is_divisible))
        ]
        return min(fits, key=lambda each: _preference(each, run), default=None)

    def _exchange(self, source: BookedParcel, run: SerialRun) -> None:
        kept = source.run.common(run)
        (requested,) = run.without(kept)
        holders = self._holders(source, requested, kept)
        (spare,) = source.run.without(kept)
        given = SerialRun(spare.namespace, spare.first, spare.first + requested.units - 1)
        target, place = holders[0].lot, source.lot
        self._split_off(source, spare.without(given))
        for holder in holders:
            part = holder.run.common(requested) or requested
            rest = holder.run.without(part)
            offset = given.first + part.first - requested.first
            goes_to = SerialRun(given.namespace, offset, offset + part.units - 1)
            if rest:
                self._add(holder, place, goes_to)
                self._split_off(holder, rest[1:])
                holder.move(holder.lot, rest[0])
            else:
                holder.move(place, goes_to)
        source.move(target, run)

    def _holders(self, source: BookedParcel, requested: SerialRun, kept: SerialRun | None) -> list[BookedParcel]:
        """The parcels of this project and vintage that hold these serials and can give them away, all of one lot."""
        found = [
            each
            for each in self._parcels.values()
            if each is not source
            and (each.project_id, each.vintage) == (source.project_id, source.vintage)
            and each.run.common(requested)
        ]
        for each in found:
            if each.status is ParcelStatus.RETIRED:
                raise SerialsRefused(
                    f"the serials {each.serials} are recorded as retired for the parcel {each.id}: a serial can be "
                    "retired only once, so correct the line."
                )
            if self.is_asked(each):
                raise SerialsRefused(
                    f"the registry is being asked to retire the serials {each.serials}: import the line when it has "
                    "answered."
                )
            if not (requested.contains(each.run) or each.is_divisible):
                raise SerialsRefused(f"the parcel {each.id} shares a unit: retire the serials {source.serials}.")
        covered = sum(common.units for each in found if (common := each.run.common(requested)))
        lots = {each.lot.lot_id for each in found} | ({source.lot.lot_id} if kept else set())
        if covered != requested.units or len(lots) != 1:
            raise SerialsRefused(
                f"the parcel holds the serials {source.serials}, and those of the line are not on the work list of its "
                "project and vintage, or not in one lot: retire these, or correct the line."
            )
        return sorted(found, key=lambda each: each.first_number)

    def _split_off(self, parcel: BookedParcel, runs: Iterable[SerialRun]) -> None:
        """New parcels for these serials of a parcel. The caller reduces the parcel itself."""
        for run in runs:
            self._add(parcel, parcel.lot, run)

    def _add(self, parcel: BookedParcel, lot: LotPlace, run: SerialRun) -> None:
        added = replace(
            parcel,
            id=new_id("par"),
            status=parcel.status if parcel.is_free else ParcelStatus.TO_RETIRE,
            split_from=parcel.split_from or parcel.id,
            origin_id=parcel.origin_id or parcel.id,
        )
        added.move(lot, run)
        self._parcels[added.id] = added
        self._split[parcel.split_from or parcel.id].append(added.id)


def _preference(parcel: BookedParcel, run: SerialRun) -> tuple[bool, bool, int, str]:
    return not parcel.run.contains(run), parcel.status is ParcelStatus.RETIRED, parcel.run.units, parcel.id
