"""Exchanging serials: whatever the registry retired, every serial stays in exactly one parcel."""

import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from tonne.platform.values.amounts import GRAMS_PER_TONNE
from tonne.supply.stock.model import LotStatus, ParcelStatus
from tonne.supply.stock.parcels.parcel_book import BookedParcel, LotPlace, ParcelBook, SerialsRefused
from tonne.supply.stock.serial_runs import SerialRun
from tonne_verify.serials.parse import parse

LOTS = (LotPlace("lot_1", parse("Other", "A 101–400")), LotPlace("lot_2", parse("Other", "B 501–900")))
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def parcels(chance: random.Random) -> list[BookedParcel]:
    """Two lots, cut into parcels without gaps. Units of one tonne may be open."""
    found: list[BookedParcel] = []
    for lot in LOTS:
        start = 0
        for _ in range(chance.randint(1, 6)):
            tonnes = chance.choice((1, 1, 2, 3, 5, 8))
            is_open = tonnes == 1 and chance.random() < 0.4
            found.append(
                BookedParcel(
                    id=f"par_{len(found)}",
                    lot=lot,
                    start_grams=start * GRAMS_PER_TONNE,
                    quantity_grams=tonnes * GRAMS_PER_TONNE,
                    project_id="prj_1",
                    vintage=2020,
                    registry="Verra",
                    registry_id="VERRA",
                    registry_url=None,
                    beneficiary="Ada",
                    in_service_name=False,
                    lot_status=LotStatus.HELD,
                    status=ParcelStatus.OPEN if is_open else ParcelStatus.TO_RETIRE,
                    retired_on=None,
                    retirement_url=None,
                    ordered_at=NOW,
                    is_of_one_line=not is_open,
                    split_from=None,
                )
            )
            start += tonnes
    return found


def serials(every: list[BookedParcel]) -> Counter[tuple[str, int]]:
    return Counter((each.lot.lot_id, n) for each in every for n in range(each.first_number, each.units.last + 1))


def tonnes_by_root(every: list[BookedParcel]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in every:
        found[each.split_from or each.id] += each.run.units
    return dict(found)


@pytest.mark.parametrize("seed", range(20))
def test_money_14_every_serial_stays_in_one_parcel_and_every_order_keeps_its_tonnes(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - test data
    assert sum(exchange_at_random(chance) for _ in range(100)) > 100


def exchange_at_random(chance: random.Random) -> int:
    """Returns how often serials were exchanged or split."""
    changes = 0
    stored = parcels(chance)
    before, tonnes = serials(stored), tonnes_by_root(stored)
    book = ParcelBook(stored, ())
    retired: dict[str, SerialRun] = {}
    for _ in range(12):
        parcel = chance.choice([each for each in stored if each.status is not ParcelStatus.OPEN] or [stored[0]])
        lot = chance.choice(LOTS)
        first = lot.units.first + chance.randint(-1, 12)
        run = SerialRun(lot.units.namespace, first, first + chance.choice((1, 1, 2, 3, 5)) - 1)
        try:
            held = book.find_held(parcel, run)
            got = held or book.assign(parcel, run)
            changes += held is None
        except SerialsRefused:
            continue
        assert got.run == run
        assert parcel.id in {got.id, got.split_from}
        runs = {each.id: each.run for each in (*stored, *book.created)}
        assert all(runs[id_] == retired[id_] for id_ in retired if id_ != got.id), "only a correction moves them"
        got.status = ParcelStatus.RETIRED
        retired[got.id] = run
        every = [*stored, *book.created]
        assert serials(every) == before
        assert tonnes_by_root(every) == tonnes
    # An open unit is moved as a whole and stays open; nothing else becomes open.
    assert Counter(each.status is ParcelStatus.OPEN for each in [*stored, *book.created])[True] == sum(
        each.status is ParcelStatus.OPEN for each in book.stored
    )
    return changes
