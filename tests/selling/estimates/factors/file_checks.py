"""Checks the shipped factors against each other. Nothing outside the file is needed, so nothing else is proven.

Every rule yields what breaks it. docs/estimates.md lists all of that as not verified; `test_shipped_file.py` compares
the two.
"""

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.support.processes import ROOT

FILE = ROOT / "src" / "tonne" / "selling" / "estimates" / "factors" / "data" / "factors.csv"
# Figures have five decimals, so each may be wrong by half a unit of the last.
HALF = Decimal("0.000005")
# A figure may be the sum of three gases, each of them rounded. This is our own reasoning.
GASES = 3
KM_PER_MILE = Decimal("1.609344")
# How far the share of well-to-tank may be from that of other vehicles with the same fuel.
SHARE_TOLERANCE = Decimal("0.05")


class Factor(NamedTuple):
    parts: tuple[str, ...]
    unit: str
    kg: Decimal
    well_to_tank: Decimal | None

    @property
    def name(self) -> str:
        return f"{' / '.join(self.parts)} ({self.unit})"


class Outlier(NamedTuple):
    rule: str
    factor: str
    why: str


def read_factors(path: Path = FILE) -> list[Factor]:
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Factor(
                tuple(part.strip() for part in row["activity"].split(" / ")),
                row["unit"],
                Decimal(row["kg_co2e_per_unit"]),
                Decimal(row["well_to_tank_kg_co2e_per_unit"]) if row["well_to_tank_kg_co2e_per_unit"] else None,
            )
            for row in csv.DictReader(file)
        ]


def find_outliers(factors: Sequence[Factor]) -> list[Outlier]:
    by_key = {(*factor.parts, factor.unit): factor for factor in factors}
    rules = (_miles, _shares, _sums, _averages, _steps, _refrigerated, _loads, _electricity)
    return [outlier for rule in rules for outlier in rule(by_key)]


Factors = dict[tuple[str, ...], Factor]


def _miles(factors: Factors) -> Iterator[Outlier]:
    """A mile is 1.609344 km."""
    for *parts, unit in factors:
        if unit != "miles":
            continue
        mile, km = factors[*parts, unit], factors[*parts, "km"]
        for what, long, short in (("", mile.kg, km.kg), ("well-to-tank ", mile.well_to_tank, km.well_to_tank)):
            if long is None or short is None or abs(long - short * KM_PER_MILE) <= GASES * HALF * (1 + KM_PER_MILE):
                continue
            yield Outlier("miles", mile.name, f"{what}{long} is {long / short:.5f} times that per km ({short})")


def _fuel(factor: Factor) -> str | None:
    """What it burns, if the name says so. Planes and ships burn one kind of fuel each."""
    head, last = factor.parts[0], factor.parts[-1]
    if head in {"Flights", "Freight flights"}:
        return "kerosene" if last == "Without RF" else None
    if head in {"Sea tanker", "Cargo ship"}:
        return "marine fuel"
    if head.startswith("HGV"):
        return "diesel"
    known = {"Diesel", "Petrol", "CNG", "LPG", "Battery Electric Vehicle"}
    return last.lower() if last in known and head.startswith(("Cars", "Vans")) else None


def _shares(factors: Factors) -> Iterator[Outlier]:
    """A litre of a fuel has one share of well-to-tank, whatever burns it."""
    by_fuel: dict[str, list[Factor]] = defaultdict(list)
    for factor in factors.values():
        fuel = _fuel(factor)
        if fuel is not None and factor.well_to_tank is not None:
            by_fuel[fuel].append(factor)
    for fuel, burning in by_fuel.items():
        usual = median(factor.well_to_tank / factor.kg for factor in burning if factor.well_to_tank)
        for factor in burning:
            assert factor.well_to_tank is not None
            distance = abs(factor.well_to_tank - usual * factor.kg)
            if distance > usual * factor.kg * SHARE_TOLERANCE + HALF * (1 + usual):
                share = factor.well_to_tank / factor.kg
                yield Outlier("well-to-tank", factor.name, f"{share:.1%} of the rest; {fuel} usually {usual:.1%}")


def _sums(factors: Factors) -> Iterator[Outlier]:
    whole = factors["Homeworking (office equipment + heating)", "per FTE Working Hour"]
    parts = [factors[name, "per FTE Working Hour"] for name in ("Office Equipment", "Heating")]
    if abs(whole.kg - sum(part.kg for part in parts)) > 3 * HALF:
        yield Outlier("sums", whole.name, "is not the sum of its parts")
    for key, factor in factors.items():
        if "With RF" not in key:
            continue
        without = factors[tuple("Without RF" if part == "With RF" else part for part in key)]
        ratio = factor.kg / without.kg
        if not Decimal("1.68") < ratio < Decimal("1.70") or factor.well_to_tank != without.well_to_tank:
            yield Outlier("sums", factor.name, f"{ratio:.3f} times that without RF; others 1.69")


def _averages(factors: Factors) -> Iterator[Outlier]:
    """An average lies between the smallest and the largest of what it averages."""
    for key, factor in factors.items():
        for place, part in enumerate(key[:-1]):
            if not part.startswith(("Average", "Unknown", "All HGVs")) or part == "Average laden":
                continue
            around = (key[:place], key[place + 1 :])
            peers = [each for other, each in factors.items() if (other[:place], other[place + 1 :]) == around]
            peers = [peer for peer in peers if peer != factor]
            if part == "Unknown":
                peers = [peer for peer in peers if peer.parts[-1] in {"Diesel", "Petrol"}]
            if len(peers) > 1 and not min(peer.kg for peer in peers) <= factor.kg <= max(peer.kg for peer in peers):
                yield Outlier("averages", factor.name, f"{factor.kg} is outside of what it averages")


VANS = ("Class I (up to 1.305 tonnes)", "Class II (1.305 to 1.74 tonnes)", "Class III (1.74 to 3.5 tonnes)")
RIGIDS = ("Rigid (>3.5 - 7.5 tonnes)", "Rigid (>7.5 tonnes-17 tonnes)", "Rigid (>17 tonnes)")
# Each step has more emissions per vehicle, or per seat.
STEPS = (
    ("Small car", "Medium car", "Large car"),
    ("Small", "Medium", "Large"),
    VANS,
    RIGIDS,
    ("Articulated (>3.5 - 33t)", "Articulated (>33t)"),
    ("Economy class", "Premium economy class", "Business class", "First class"),
    ("0% Laden", "50% Laden", "100% Laden"),
    ("Foot passenger", "Car passenger"),
    ("UK", "UK (London)"),
)


def _steps(factors: Factors) -> Iterator[Outlier]:
    """Larger vehicles emit more per kilometre, and less for each tonne that they carry. So do larger ships."""
    for steps in STEPS:
        ladders: dict[tuple[str, ...], list[Factor]] = defaultdict(list)
        for key, factor in factors.items():
            for step in set(steps) & set(key):
                ladders[tuple("" if part == step else part for part in key)].append(factor)
        for ladder in ladders.values():
            ladder.sort(key=lambda each: next(number for number, step in enumerate(steps) if step in each.parts))
            yield from _unsteady(ladder, falls=ladder[0].unit == "tonne.km")
    ships: dict[tuple[str, ...], list[Factor]] = defaultdict(list)
    for factor in factors.values():
        if factor.parts[0] in {"Sea tanker", "Cargo ship"} and factor.parts[-1][0].isdigit():
            # The file lists classes from the largest to the smallest; those with containers are a ladder of their own.
            ships[(*factor.parts[:2], "TEU" if factor.parts[-1].endswith("100+ TEU") else "")].append(factor)
    for ladder_of_ships in ships.values():
        yield from _unsteady(ladder_of_ships, falls=False)


def _unsteady(ladder: Sequence[Factor], *, falls: bool) -> Iterator[Outlier]:
    for lower, higher in pairwise(ladder):
        if not (higher.kg < lower.kg if falls else higher.kg > lower.kg):
            wrong = "equal to" if higher.kg == lower.kg else "above" if falls else "below"
            yield Outlier("size classes", higher.name, f"{higher.kg} is {wrong} {lower.kg} of {lower.name}")


def _refrigerated(factors: Factors) -> Iterator[Outlier]:
    for key, factor in factors.items():
        if key[0] == "HGV refrigerated (all diesel)" and factor.kg <= factors["HGV (all diesel)", *key[1:]].kg:
            yield Outlier("refrigerated", factor.name, "is not above the same without cooling")


def _loads(factors: Factors) -> Iterator[Outlier]:
    """Emissions per kilometre grow evenly with the load, and the average load lies between empty and full."""
    for key, half in factors.items():
        if "50% Laden" not in key or half.unit == "tonne.km":
            continue
        place = key.index("50% Laden")
        empty, full, average = (
            factors[*key[:place], load, *key[place + 1 :]] for load in ("0% Laden", "100% Laden", "Average laden")
        )
        if abs(half.kg - (empty.kg + full.kg) / 2) > 2 * HALF:
            yield Outlier("loads", half.name, f"{half.kg} is not the mean of empty and full")
        if not empty.kg < average.kg < full.kg:
            yield Outlier("loads", average.name, f"{average.kg} is not between empty and full")
        if half.unit == "km":
            per_tonne = [factors[*each.parts, "tonne.km"] for each in (half, full)]
            loads = [each.kg / other.kg for each, other in zip((half, full), per_tonne, strict=True)]
            if not Decimal("1.97") < loads[1] / loads[0] < Decimal("2.03"):
                yield Outlier("loads", per_tonne[1].name, "implies a full load that is not twice the half load")


def _electricity(factors: Factors) -> Iterator[Outlier]:
    """The limits are our own reasoning: at least what building wind turbines causes, at most what lignite does."""
    for factor in factors.values():
        is_plausible = Decimal("0.01") <= factor.kg <= Decimal("1.1")
        if factor.unit == "kWh" and "losses" not in factor.parts[0] and not is_plausible:
            yield Outlier("electricity", factor.name, f"{factor.kg} kg is not between 0.01 and 1.1 (own reasoning)")
