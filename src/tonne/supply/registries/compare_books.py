"""What a registry shows, and what the books say. No I/O."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from tonne.supply.registries.account_store import LotBooks
from tonne.supply.registries.drift_store import Cause, SeenDrift
from tonne.supply.registries.gateway import Holding


def expected_balance(books: Sequence[LotBooks], explained_surplus: Mapping[str, int]) -> int | None:
    """The units that the registry must show as active; None while that is not exactly one number."""
    if any(lot.asked_units or lot.desk_units or lot.is_moving or lot.is_invalid for lot in books):
        return None
    return sum(lot.here_units - lot.explained_units for lot in books) - sum(explained_surplus.values())


def compare(
    books: Sequence[LotBooks],
    holdings: Sequence[Holding],
    explained_surplus: Mapping[str, int] | None = None,
    foreign_holdings: Collection[str] = (),
) -> list[SeenDrift]:
    """What differs. `foreign_holdings`: something that we have not asked for has left them, so nothing is under way."""
    there, surplus = _attribute(books, holdings)
    seen = [
        SeenDrift(lot_id=lot.lot_id, units=units, is_certain=lot.holding_id in foreign_holdings)
        for lot in books
        if not lot.is_moving and not lot.is_invalid
        if not _is_explained(lot, units := lot.here_units - there[lot.lot_id] - lot.explained_units)
    ]
    for holding_id, count in surplus.items():
        if units := -count - (explained_surplus or {}).get(holding_id, 0):
            seen.append(SeenDrift(holding_id=holding_id, units=units, cause=Cause.SURPLUS))
    return seen


def _is_explained(lot: LotBooks, units: int) -> bool:
    """An open request explains exactly its units. Of those at the desk, any number may be retired already."""
    return any(0 <= units - asked <= lot.desk_units for asked in (0, lot.asked_units))


def _attribute(books: Sequence[LotBooks], holdings: Sequence[Holding]) -> tuple[Counter[str], Counter[str]]:
    """Units by lot, and by holding those of no lot. A request that is under way may have split a holding."""
    lots: dict[str, list[LotBooks]] = {}
    # What differs is of the lot that changes.
    for lot in sorted(books, key=lambda lot: lot.asked_units + lot.desk_units + lot.is_moving):
        lots.setdefault(lot.holding_id, []).append(lot)
    may_split = {lot.lot_id for lot in books if lot.asked_units or lot.is_moving or lot.is_invalid}
    there: Counter[str] = Counter()
    surplus: Counter[str] = Counter()
    for holding in holdings:
        of_holding = lots.get(holding.id)
        if of_holding is None:
            parents = lots.get(holding.parent_id or "")
            parent = parents[-1].lot_id if parents else holding.lot_id
            if parent in may_split:
                there[parent] += holding.unit_count
            else:
                surplus[holding.id] += holding.unit_count
            continue
        left = holding.unit_count
        for lot in of_holding[:-1]:
            part = min(left, max(0, lot.here_units - lot.explained_units - there[lot.lot_id]))
            there[lot.lot_id] += part
            left -= part
        there[of_holding[-1].lot_id] += left
    return there, surplus
