"""Electricity, hotels and any factor, computed by hand from the published factors."""

from typing import Any

import pytest

from tests.selling.estimates.kinds.worked import FACTORS, calculate, fields_of, formulas
from tonne.platform.values.errors import TonneError
from tonne.selling.estimates.calculated import EstimateKind
from tonne.selling.estimates.kinds.electricity import ELECTRICITY
from tonne.selling.estimates.kinds.emission_factor import EMISSION_FACTOR
from tonne.selling.estimates.kinds.hotel import CATEGORY, HOTEL, UNIT, hotel_factor, hotel_factors

TAXI = "desnz-2025/taxis-black-cab/passenger-km"
CAR = "desnz-2025/cars-by-size-average-car-petrol/km"


def electricity(amount: str, unit: str, **more: Any) -> dict[str, Any]:
    return {"consumption": {"amount": amount, "unit": unit}, **more}


def activity(factor_id: str, value: str, unit: str, **more: Any) -> dict[str, Any]:
    return {"emission_factor_id": factor_id, "activity": {"value": value, "unit": unit}, **more}


@pytest.mark.parametrize(
    ("kind", "body", "mass_grams"),
    [
        # Germany 2023: 1,000 kWh x 0.38095 = 380.95 kg.
        (ELECTRICITY, electricity("1000", "kWh", country_code="DEU"), 380_950),
        # France 2023: 2.5 MWh = 2,500 kWh x 0.05604 = 140.1 kg.
        (ELECTRICITY, electricity("2.5", "MWh", country_code="FRA"), 140_100),
        (ELECTRICITY, electricity("2.5", "MWh", country_code="fr"), 140_100),
        # United Kingdom 2023, over the life of its plants: 1 GWh = 1,000,000 x 0.23759 = 237,590 kg.
        (ELECTRICITY, electricity("1", "GWh", country_code="GBR"), 237_590_000),
        # No country: the median of the 211 countries, 0.48539: 100 x 0.48539 = 48.539 kg.
        (ELECTRICITY, electricity("100", "kWh"), 48_539),
        # Portugal: 3 nights x 19 kg = 57 kg.
        (HOTEL, {"country_code": "PRT", "nights": 3}, 57_000),
        (HOTEL, {"country_code": "Pt", "nights": 3}, 57_000),
        # The UK, not London: 2 rooms x 4 nights x 10.4 kg = 83.2 kg.
        (HOTEL, {"country_code": "GBR", "nights": 4, "rooms": 2}, 83_200),
        # 12.5 person-km x 0.20402 = 2.55025 kg; with well-to-tank 12.5 x (0.20402 + 0.0509) = 3.1865 kg.
        (EMISSION_FACTOR, activity(TAXI, "12.5", "person*km"), 2_550),
        (EMISSION_FACTOR, activity(TAXI, "12.5", "passenger*km", well_to_tank=True), 3_187),
        # 100 mi = 160.9344 km x 0.16272 = 26.187245568 kg; a car's distance may also be in vehicle*km.
        (EMISSION_FACTOR, activity(CAR, "100", "mi"), 26_187),
        (EMISSION_FACTOR, activity(CAR, "160.9344", "vehicle*km"), 26_187),
        # 1 GJ = 277.777... kWh x 0.38095 = 105.8194... kg.
        (EMISSION_FACTOR, activity("owid-2023/electricity-deu/kwh", "1", "GJ"), 105_819),
    ],
)
def test_worked_examples(kind: EstimateKind[Any], body: dict[str, Any], mass_grams: int) -> None:
    found = calculate(kind, body)
    assert found.mass_grams == mass_grams
    [factor] = found.factors
    assert fields_of(found)["emission_factor"]["id"] == factor.id
    used = [each.emission_factor for each in found.explain if each.emission_factor is not None]
    assert {(each.id, each.version, each.source) for each in used} == {(factor.id, factor.version, factor.source)}
    assert formulas(found)[-1].endswith(" kg")


@pytest.mark.parametrize(
    ("kind", "body", "code", "field"),
    [
        (ELECTRICITY, electricity("0", "kWh"), "estimate_mass_invalid", "consumption.amount"),
        (ELECTRICITY, electricity("1", "kWh", country_code="XXX"), "estimate_country_invalid", "country_code"),
        (ELECTRICITY, electricity("1", "kWh", country_code="d"), "validation_error", "country_code"),
        (HOTEL, {"country_code": "AUT", "nights": 1}, "estimate_country_invalid", "country_code"),
        (HOTEL, {"country_code": "PRT", "nights": 0}, "validation_error", "nights"),
        (EMISSION_FACTOR, activity("none", "1", "km"), "emission_factor_id_invalid", "emission_factor_id"),
        (EMISSION_FACTOR, activity(TAXI, "1", "kWh"), "emission_factor_unit_mismatch", "activity.unit"),
        (EMISSION_FACTOR, activity(TAXI, "1", "9**9**9"), "emission_factor_unit_mismatch", "activity.unit"),
        (EMISSION_FACTOR, activity(TAXI, "1", "__import__"), "emission_factor_unit_mismatch", "activity.unit"),
        (EMISSION_FACTOR, activity(TAXI, "0", "person*km"), "estimate_mass_invalid", "activity.value"),
    ],
)
def test_mistakes_have_a_code_and_a_field(kind: EstimateKind[Any], body: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(TonneError) as raised:
        calculate(kind, body)
    fault = raised.value.faults[0]
    assert (fault.error_code, fault.field) == (code, field)


def test_every_country_of_the_list_has_a_factor_for_hotels() -> None:
    published = [each.activity for each in FACTORS.latest_of(CATEGORY, UNIT)]
    found = {code: hotel_factor(code, FACTORS).activity for code in hotel_factors(FACTORS)}
    assert sorted(found.values()) == sorted({*published} - {"Hotel stay / UK (London)"})
    assert found["GBR"] == "Hotel stay / UK"
    assert found["HKG"] == "Hotel stay / Hong Kong, China"
    assert found["KOR"] == "Hotel stay / Korea"
