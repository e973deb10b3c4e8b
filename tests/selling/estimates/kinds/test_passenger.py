"""Journeys, computed by hand from the factors that the UK government publishes for 2025.

Lower medium car 0.15473 kg/km and 0.04114 well-to-tank; average motorcycle 0.11367 and 0.02956; national rail 0.03546
and 0.00897 kg per passenger-km; short-haul economy 0.12576 with radiative forcing and 0.02249.
"""

from decimal import Decimal
from typing import Any

import pytest

from tests.selling.estimates.kinds.worked import FACTORS, calculate, fields_of
from tests.support.api_client import ApiClient, codes
from tonne.platform.values.errors import TonneError
from tonne.selling.estimates.kinds.passenger import CATEGORY, PASSENGER_TRANSPORTATION, RAILWAYS, VEHICLES

BERLIN, HAMBURG = {"lat": 52.52, "lon": 13.405}, {"lat": 53.5511, "lon": 9.9937}


def km(amount: str, unit: str = "km", **way: str) -> dict[str, Any]:
    return {"route": {"amount": amount, "unit": unit}, **way}


def test_the_legs_of_a_journey_are_added_up() -> None:
    """Three passengers.

    Car 20 km x (0.15473 + 0.04114) = 3.9174 kg for the whole car. Rail 100 km x 3 x (0.03546 + 0.00897) = 13.329 kg.
    Plane 1,000 km x 3 x (0.12576 + 0.02249) = 444.75 kg. 3.917 + 13.329 + 444.75 = 461.996 kg.
    """
    legs = [
        km("20", vehicle_type="car_lower_medium"),
        km("100", rail_type="national_rail"),
        km("1000", cabin_class="economy"),
    ]
    found = calculate(PASSENGER_TRANSPORTATION, {"legs": legs, "passengers": 3})
    assert found.mass_grams == 461_996
    shown = fields_of(found)["legs"]
    assert [leg["mass"]["amount"] for leg in shown] == ["3.917", "13.329", "444.75"]
    # 20 x 0.04114, 300 x 0.00897 and 3,000 x 0.02249.
    assert [leg["well_to_tank"]["amount"] for leg in shown] == ["0.823", "2.691", "67.47"]
    assert [leg["distance"]["amount"] for leg in shown] == ["20", "100", "1000"]
    assert all(leg["emission_factor"]["source"] == "beis" for leg in shown)
    assert found.explain[-1].formula == "3.917 + 13.329 + 444.75 = 461.996 kg"
    assert {each.description[:5] for each in found.explain[:-1]} == {"Leg 1", "Leg 2", "Leg 3"}


def test_places_on_land_are_lengthened_by_the_detour_of_roads() -> None:
    """The great circle x 1.4 x (0.11367 + 0.02956) kg for a motorcycle; by plane nothing is added."""
    route = {"source": BERLIN, "destination": HAMBURG}
    legs = [{"route": route, "vehicle_type": "motorcycle_average"}, {"route": route, "cabin_class": "economy"}]
    found = calculate(PASSENGER_TRANSPORTATION, {"legs": legs})
    road, air = fields_of(found)["legs"]
    straight = Decimal(air["distance"]["amount"])
    assert 254 < straight < 257
    assert Decimal(road["distance"]["amount"]) == straight * Decimal("1.4")
    assert road["distance_calculation_method"] == "inland_distance_algorithm"
    expected = straight * Decimal("1.4") * Decimal("0.14323")
    assert abs(Decimal(road["mass"]["amount"]) - expected) <= Decimal("0.0005")


def test_every_way_to_travel_has_a_factor() -> None:
    assert all(FACTORS.get(CATEGORY, name, "km").well_to_tank for name in VEHICLES.values())
    assert all(FACTORS.get(CATEGORY, name, "person*km").well_to_tank for name in RAILWAYS.values())


@pytest.mark.parametrize(
    ("leg", "code", "field"),
    [
        (km("5"), "validation_error", "legs[0]"),
        (km("5", vehicle_type="car_mini", rail_type="national_rail"), "validation_error", "legs[0]"),
        (km("5", vehicle_type="tank"), "validation_error", "legs[0].vehicle_type"),
        (km("0", vehicle_type="car_mini"), "distance_invalid", "legs[0].route.amount"),
        ({"route": {"source": BERLIN}, "rail_type": "national_rail"}, "airport_route_required", "legs[0].route"),
        (
            {"route": {"source": BERLIN, "destination": BERLIN}, "rail_type": "national_rail"},
            *("distance_invalid", "legs[0].route"),
        ),
        (
            {"route": {"source": {"code": "XXX"}, "destination": BERLIN}, "cabin_class": "economy"},
            *("source_location_code_invalid", "legs[0].route.source.code"),
        ),
        (
            {"route": {"source": BERLIN, "destination": {"city": "Nowhere at all"}}, "rail_type": "national_rail"},
            *("address_not_found", "legs[0].route.destination.city"),
        ),
    ],
)
def test_mistakes_have_a_code_and_a_field(leg: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(TonneError) as raised:
        calculate(PASSENGER_TRANSPORTATION, {"legs": [leg]})
    fault = raised.value.faults[0]
    assert (fault.error_code, fault.field) == (code, field)


async def test_a_journey_is_annotated_when_it_has_taken_place(api: ApiClient) -> None:
    path = "/v1/estimates/passenger-transportation"
    made = (await api.post(path, {"legs": [km("9", rail_type="national_rail")], "metadata": {"a": 1}})).json()
    names = ("is_passenger_transportation", "passenger_transportation_travelled_at")
    assert [made[name] for name in names] == [False, None]

    async def annotate(body: dict[str, Any]) -> Any:
        where = f"{path}/{made['id']}/annotations"
        return await api.http.patch(where, json=body, headers=api._headers({}))

    done = (await annotate({names[0]: True, names[1]: "2026-11-15"})).json()
    assert [done[name] for name in names] == [True, "2026-11-15T00:00:00.000Z"]
    assert (done["version"], done["metadata"], done["mass"]) == (1, {"a": 1}, made["mass"])
    changed = (await annotate({names[1]: None, "metadata": {}, "idempotency_key": "journey"})).json()
    assert [changed[name] for name in names] == [True, None]
    assert (changed["metadata"], changed["idempotency_key"]) == ({}, "journey")
    assert (await api.get(f"{path}/{made['id']}")).json() == changed
    other = (await api.post(path, {"legs": [km("8", rail_type="national_rail")]})).json()
    taken = await api.http.patch(
        f"{path}/{other['id']}/annotations", json={"idempotency_key": "journey"}, headers=api._headers({})
    )
    assert (taken.status_code, codes(taken)) == (409, ["estimate_idempotency_already_exists"])
    assert codes(await annotate({names[1]: "yesterday"})) == ["validation_error"]
