"""A line of the work list may comprise many parcels of one beneficiary: which of them does it confirm? No I/O."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tonne.supply.stock.model import ParcelStatus
from tonne.supply.stock.parcels.parcel_book import BookedParcel, SerialsRefused
from tonne.supply.stock.serial_runs import SerialRun


class Claim(NamedTuple):
    """A parcel, and the serials that were retired for it."""

    parcel_id: str
    run: SerialRun


class MergedLines:
    """Parcels that can be retired together, by project, vintage and beneficiary."""

    def __init__(self, parcels: Iterable[BookedParcel]) -> None:
        self._groups: defaultdict[tuple[object, ...], list[BookedParcel]] = defaultdict(list)
        for each in parcels:
            is_listed = each.status in {ParcelStatus.TO_RETIRE, ParcelStatus.RETIRED} and each.invalidated_at is None
            if is_listed:
                self._groups[each.retired_as].append(each)

    def claims_of(self, named: BookedParcel, runs: Sequence[SerialRun]) -> list[Claim]:
        """Split the serials of a line over the parcels of the same project, vintage and beneficiary.

        Each parcel gets the serials that it holds. Serials that none of them holds go to the others, the parcel that
        the line names first. Raises SerialsRefused if the line has more units than they need.
        """
        members = self._groups[named.retired_as]
        if len(members) < 2 or (len(runs) == 1 and runs[0].units <= named.run.units):
            return [Claim(named.id, run) for run in runs]
        claims: list[Claim] = []
        foreign: list[SerialRun] = []
        places = _by_namespace(members)
        for run in runs:
            held = [Claim(each.id, part) for each in _overlapping(places, run) if (part := each.run.common(run))]
            claims += held
            foreign += _rest(run, [claim.run for claim in held])
        claimed = {claim.parcel_id for claim in claims}
        free = [each for each in members if each.id not in claimed and each.status is ParcelStatus.TO_RETIRE]
        free.sort(key=lambda each: (each.id != named.id, each.id))
        return claims + _assign(named, foreign, free)


_Places = dict[str, list[tuple[int, BookedParcel]]]


def _by_namespace(members: Iterable[BookedParcel]) -> _Places:
    """The parcels of each namespace, by their first number."""
    found: defaultdict[str, list[tuple[int, BookedParcel]]] = defaultdict(list)
    for each in members:
        found[each.run.namespace].append((each.first_number, each))
    return {namespace: sorted(of_namespace, key=lambda place: place[0]) for namespace, of_namespace in found.items()}


def _overlapping(places: _Places, run: SerialRun) -> list[BookedParcel]:
    of_namespace = places.get(run.namespace, [])
    # Parcels do not overlap one another: only the last one that begins before the run can reach into it.
    start = max(0, bisect_right(of_namespace, run.first, key=lambda place: place[0]) - 1)
    end = bisect_right(of_namespace, run.last, key=lambda place: place[0])
    return [parcel for _, parcel in of_namespace[start:end]]


def _rest(run: SerialRun, parts: Sequence[SerialRun]) -> list[SerialRun]:
    """What remains of a run without these parts of it, which are in order."""
    rest: list[SerialRun] = []
    first = run.first
    for part in parts:
        if first < part.first:
            rest.append(SerialRun(run.namespace, first, part.first - 1))
        first = part.last + 1
    return [*rest, SerialRun(run.namespace, first, run.last)] if first <= run.last else rest


def _assign(named: BookedParcel, runs: Sequence[SerialRun], free: Sequence[BookedParcel]) -> list[Claim]:
    """Serials that none of the parcels holds: the free ones get them, in this order."""
    missing = sum(run.units for run in runs) - sum(each.run.units for each in free)
    if missing > 0:
        raise SerialsRefused(
            f"the line has {missing} units more than its beneficiary has on the work list of this project and vintage, "
            f"beginning with {named.serials}: correct the serials."
        )
    claims: list[Claim] = []
    waiting = iter(free)
    for run in runs:
        first = run.first
        while first <= run.last:
            member = next(waiting)
            last = min(run.last, first + member.run.units - 1)
            claims.append(Claim(member.id, SerialRun(run.namespace, first, last)))
            first = last + 1
    return claims
