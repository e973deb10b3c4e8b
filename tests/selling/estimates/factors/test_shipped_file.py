"""The shipped factors are checked against each other, and what stands out is listed in docs/estimates.md."""

from decimal import Decimal

from tests.selling.estimates.factors.file_checks import Factor, find_outliers, read_factors
from tests.selling.estimates.factors.lanes import LANES, figures_of
from tests.support.processes import ROOT
from tonne.selling.estimates.factors.units import parse_unit

PAGE = ROOT / "docs" / "estimates.md"


def listed(name: str) -> list[str]:
    """The rows of the table between two comments of this name."""
    text = PAGE.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_the_documentation_lists_every_outlier_and_no_other() -> None:
    rows = [f"| {each.factor} | {each.rule}: {each.why} |" for each in find_outliers(read_factors())]
    assert listed("outliers") == rows, "\n".join(["write into docs/estimates.md:", *rows])


def test_the_documentation_has_the_figures_of_known_lanes_and_they_are_plausible() -> None:
    lanes = [figures_of(lane) for lane in LANES]
    rows = [lane.row for lane in lanes]
    assert listed("lanes") == rows, "\n".join(["write into docs/estimates.md:", *rows])
    for lane in lanes:
        assert lane.low_km <= lane.km <= lane.high_km, lane
        assert lane.low_intensity <= lane.intensity <= lane.high_intensity, lane


def test_every_unit_is_known_and_no_factor_is_there_twice() -> None:
    factors = read_factors()
    for factor in factors:
        parse_unit(factor.unit)
        assert factor.kg > 0, factor
        assert factor.well_to_tank is None or 0 < factor.well_to_tank < factor.kg, factor
    assert len({(factor.parts, factor.unit) for factor in factors}) == len(factors)


def test_a_mistake_in_the_file_would_be_found() -> None:
    """Each of these changes one number, as a slip of the pen would."""
    factors = read_factors()
    known = {each.factor for each in find_outliers(factors)}
    for *parts, unit, times in (
        ("Cars (by size)", "Small car", "Diesel", "miles", "1.01"),
        ("Cars (by size)", "Small car", "Petrol", "km", "10"),
        ("Motorbike", "Large", "km", "0.1"),
        ("Cargo ship", "Bulk carrier", "0–9999 dwt", "tonne.km", "0.1"),
        ("Flights", "Long-haul, to/from UK", "Business class", "With RF", "passenger.km", "1.1"),
        ("HGV refrigerated (all diesel)", "All HGVs", "Average laden", "km", "0.8"),
        ("HGV (all diesel)", "All HGVs", "50% Laden", "km", "1.05"),
        ("Homeworking (office equipment + heating)", "per FTE Working Hour", "1.1"),
        ("Cars (by size)", "Average car", "Unknown", "km", "3"),
    ):
        wrong = [_changed(each, times) if (*each.parts, each.unit) == (*parts, unit) else each for each in factors]
        assert wrong != factors, parts
        assert {each.factor for each in find_outliers(wrong)} - known, parts


def _changed(factor: Factor, times: str) -> Factor:
    return factor._replace(kg=factor.kg * Decimal(times))
