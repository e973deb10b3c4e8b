"""Flights, computed by hand from the factors that the UK government publishes for 2025 (in kg per passenger-km).

| Haul | Class | Without RF | With RF | Well-to-tank |
|---|---|---|---|---|
| Domestic | average | 0.13552 | 0.22928 | 0.0335 |
| Short-haul | economy | 0.07435 | 0.12576 | 0.02249 |
| Short-haul | business | 0.11152 | 0.18863 | 0.03373 |
| Long-haul | average | 0.09043 | 0.15282 | 0.03213 |
| Long-haul | premium economy | 0.11081 | 0.18726 | 0.03937 |
| Long-haul | first | 0.27701 | 0.46814 | 0.09844 |
| International, non-UK | economy | 0.06449 | 0.10916 | 0.01656 |
"""

from decimal import Decimal
from typing import Any

import pytest

from tests.selling.estimates.kinds.worked import calculate, fields_of, formulas
from tonne.platform.values.errors import TonneError
from tonne.selling.estimates.kinds.flight import FLIGHT


def by_codes(source: str, destination: str, **more: Any) -> dict[str, Any]:
    return {"route": {"source": {"code": source}, "destination": {"code": destination}}, **more}


def by_distance(amount: str, unit: str = "km", **more: Any) -> dict[str, Any]:
    return {"route": {"amount": amount, "unit": unit}, **more}


def kg(found: Any) -> Decimal:
    assert found["unit"] == "kg"
    return Decimal(found["amount"])


def test_a_short_flight_by_distance_is_the_sum_of_its_three_parts() -> None:
    """1,000 km x 2 passengers = 2,000 person-km in economy, short-haul.

    Fuel 2,000 x 0.07435 = 148.7 kg; forcing 2,000 x (0.12576 - 0.07435) = 2,000 x 0.05141 = 102.82 kg; well-to-tank
    2,000 x 0.02249 = 44.98 kg. Sum 296.5 kg.
    """
    found = calculate(FLIGHT, by_distance("1000", cabin_class="economy", passengers=2))
    assert found.mass_grams == 296_500
    shown = fields_of(found)
    assert shown["haul"] == "short_haul"
    assert shown["distance"] == {"amount": "1000", "unit": "km"}
    assert shown["distance_calculation_method"] == "user_input"
    parts = shown["breakdown"]
    assert [kg(parts[name]) for name in ("combustion", "radiative_forcing", "well_to_tank")] == [
        *(Decimal("148.7"), Decimal("102.82"), Decimal("44.98"))
    ]
    assert formulas(found)[2:] == [
        "1000 km × 2 passengers = 2000 person*km",
        "2000 person*km × 0.07435 kg per person*km = 148.7 kg",
        "2000 person*km × 0.05141 kg per person*km = 102.82 kg",
        "2000 person*km × 0.02249 kg per person*km = 44.98 kg",
        "148.7 + 102.82 + 44.98 = 296.5 kg",
    ]
    assert [(each.id, each.version) for each in found.factors] == [
        ("desnz-2025/flights-short-haul-to-from-uk-economy-class-without-rf/passenger-km", 1),
        ("desnz-2025/flights-short-haul-to-from-uk-economy-class-with-rf/passenger-km", 1),
    ]


@pytest.mark.parametrize(
    ("body", "mass_grams", "haul"),
    [
        # 5,000 km average: 5,000 x (0.15282 + 0.03213) = 924.75 kg.
        (by_distance("5000"), 924_750, "long_haul"),
        # 3,700 km is the last that is short-haul: 3,700 x (0.12576 + 0.02249) = 548.525 kg.
        (by_distance("3700", cabin_class="economy"), 548_525, "short_haul"),
        # 2,500 mi = 4,023.36 km premium economy: 4,023.36 x (0.18726 + 0.03937) = 911.8140768 kg.
        (by_distance("2500", "mi", cabin_class="premium_economy"), 911_814, "long_haul"),
        # 3,000 nm = 5,556 km first: 5,556 x (0.46814 + 0.09844) = 3,147.91848 kg.
        (by_distance("3000", "nm", cabin_class="first"), 3_147_918, "long_haul"),
        # No first class on short flights: business, 1,000 x (0.18863 + 0.03373) = 222.36 kg.
        (by_distance("1000", cabin_class="first"), 222_360, "short_haul"),
        # 0.003 km x 0.22286 economy = 0.4 g would be zero; 0.005 km x 0.14825 = 0.74125 g, rounded to 1 g.
        (by_distance("0.005", cabin_class="economy"), 1, "short_haul"),
    ],
)
def test_worked_examples_by_distance(body: dict[str, Any], mass_grams: int, haul: str) -> None:
    found = calculate(FLIGHT, body)
    assert (found.mass_grams, fields_of(found)["haul"]) == (mass_grams, haul)


@pytest.mark.parametrize(
    ("source", "destination", "haul", "kg_per_km", "between"),
    [
        # Economy everywhere: with RF and well-to-tank. Domestic flights have one class only.
        ("BER", "LIS", "international_non_uk", "0.12572", (2302, 2305)),
        ("LHR", "EDI", "domestic", "0.26278", (530, 536)),
        ("EGLL", "lfpg", "short_haul", "0.14825", (345, 350)),
        ("JFK", "LHR", "long_haul", "0.14165", (5530, 5560)),
        ("MUC", "BER", "domestic", "0.26278", (455, 485)),
        ("JFK", "LAX", "long_haul", "0.14165", (3960, 3990)),
        ("FRA", "JFK", "international_non_uk", "0.12572", (6180, 6220)),
    ],
)
def test_worked_examples_by_airport(
    source: str, destination: str, haul: str, kg_per_km: str, between: tuple[int, int]
) -> None:
    found = calculate(FLIGHT, by_codes(source, destination, cabin_class="economy"))
    shown = fields_of(found)
    km = Decimal(shown["distance"]["amount"])
    assert between[0] < km < between[1]
    assert (shown["haul"], shown["distance_calculation_method"]) == (haul, "great_circle_distance")
    # No detour is added: the mass is the distance times the factor.
    assert abs(Decimal(found.mass_grams) / 1000 - km * Decimal(kg_per_km)) <= Decimal("0.0005")
    assert sum(kg(part) for part in shown["breakdown"].values()) == Decimal(found.mass_grams) / 1000


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (by_codes("BER", "XXX"), "airport_invalid", "route.destination.code"),
        (by_codes("BER", "BER"), "distance_invalid", "route"),
        ({"route": {"source": {"code": "BER"}}}, "airport_route_required", "route"),
        ({"route": {}}, "airport_route_required", "route"),
        ({"route": {"amount": "5"}}, "airport_route_required", "route"),
        (by_distance("0"), "distance_invalid", "route.amount"),
        (by_distance("100001"), "distance_invalid", "route.amount"),
        (by_distance("10", "ly"), "validation_error", "route.unit"),
        (by_distance("10", passengers=0), "validation_error", "passengers"),
        (by_distance("10", cabin_class="steerage"), "validation_error", "cabin_class"),
    ],
)
def test_mistakes_have_a_code_and_a_field(body: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(TonneError) as raised:
        calculate(FLIGHT, body)
    fault = raised.value.faults[0]
    assert (fault.error_code, fault.field) == (code, field)
    assert fault.message.endswith(".")
