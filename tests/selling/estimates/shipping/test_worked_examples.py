"""Shipments, computed by hand from the published factors (DESNZ 2025, kg CO2e per t*km; well-to-tank in brackets)."""

from typing import Any

import msgspec
import pytest

from tests.selling.estimates.kinds.worked import FACTORS, calculate, fields_of, formulas
from tonne.platform.http.json_body import decode_json, read
from tonne.platform.values.errors import TonneError
from tonne.selling.estimates.shipping.kinds import MULTI_LEG_SHIPPING, SHIPPING
from tonne.selling.estimates.shipping.methods import CONTAINER_SHIPS, FREIGHT, METHODS, TONNE_KM, TransportMode

CONTAINER_SHIP = {"vessel_type": "container_ship"}
PORTS = {"source": {"locode": "CNSHA"}, "destination": {"locode": "NLRTM"}}


def shipped(amount: str, unit: str, route: Any, method: Any, **more: Any) -> dict[str, Any]:
    return {"shipment": {"mass": {"amount": amount, "unit": unit}}, "route": route, "method": method, **more}


def distance(amount: str, unit: str = "km") -> dict[str, str]:
    return {"amount": amount, "unit": unit}


@pytest.mark.parametrize(
    ("body", "ttw", "wtt", "unknown"),
    [
        # All HGVs, average laden: 0.10163 (0.02359). 10 t x 500 km = 5,000 t*km: 508.15 and 117.95 kg.
        (shipped("10", "t", distance("500"), "diesel_truck"), "508.15", "117.95", "0"),
        # Refrigerated: 0.11894 (0.02769). 5,000 x 0.11894 = 594.7 kg; x 0.02769 = 138.45.
        (shipped("10", "t", distance("500"), "diesel_truck_refrigerated"), "594.7", "138.45", "0"),
        # Articulated above 33 t: 0.07703 (0.01799). 20 t x 160.9344 km = 3,218.688 t*km: 247.936, 57.904 kg.
        (shipped("20000", "kg", distance("100", "mi"), "truck_articulated_40t"), "247.936", "57.904", "0"),
        # Vans: 0.6313 (0.15095). 0.25 t x 40 km = 10 t*km: 6.313 and 1.5095 kg, together 7.8225, rounded to 7.823.
        (shipped("250", "kg", distance("40"), "truck_generic_van"), "6.313", "1.51", "0"),
        # Refrigerated vans: the same x 0.62837 / 0.52761 = 1.1910: 10 x 0.6313 x 1.191 = 7.519 and 1.798 kg.
        (shipped("250", "kg", distance("40"), "truck_generic_van_refrigerated"), "7.519", "1.798", "0"),
        # Freight train: 0.02779 (0.00691). 1,000 t x 300 km = 300,000 t*km: 8,337 and 2,073 kg.
        (shipped("1000", "t", distance("300"), "electric_freight_train"), "8337", "2073", "0"),
        # Bulk carrier, average: 0.00353 (0.0008). 50,000 t x 185.2 km = 9,260,000 t*km: 32,687.8, 7,408 kg.
        (shipped("50000", "t", distance("100", "nm"), "sea_bulk_carrier"), "32687.8", "7408", "0"),
        # Freight by air, long-haul: 0.5313 without radiative forcing, 0.89939 with it (0.13516). 1 t x 5,000 km:
        # 2,656.5 kg of fuel burnt, 675.8 kg of fuel made, 5,000 x (0.89939 - 0.5313) = 1,840.45 kg of forcing.
        (shipped("1", "t", distance("5000"), "cargo_plane"), "2656.5", "675.8", "1840.45"),
        # Short-haul: 0.75539, 1.27835 (0.20515). 0.1 t x 1,000 km = 100 t*km: 75.539, 20.515, 52.296 kg.
        (shipped("100", "kg", distance("1000"), "plane"), "75.539", "20.515", "52.296"),
    ],
)
def test_mass_times_distance_times_factor(body: dict[str, Any], ttw: str, wtt: str, unknown: str) -> None:
    found = calculate(SHIPPING, body)
    mass = fields_of(found)["mass"]
    details = mass["wtw_details"]
    assert [details[part]["amount"] for part in ("ttw", "wtt", "unknown")] == [ttw, wtt, unknown]
    parts = sum(round(float(details[part]["amount"]) * 1000) for part in details)
    assert found.mass_grams == parts == round(float(mass["amount"]) * 1000)
    assert formulas(found)[-1].endswith(f" {mass['amount']} kg")


def test_containers_by_sea_from_shanghai_to_rotterdam() -> None:
    """3 TEU x 10 t = 30 t. The distance has a test of its own; container ships: 0.01612 (0.00365)."""
    body = {"shipment": {"containers": "3"}, "route": PORTS, "method": CONTAINER_SHIP}
    shipment = calculate(SHIPPING, body)
    found = fields_of(shipment)
    km = float(found["adjusted_distance"]["amount"])
    assert km == pytest.approx(10_600 * 1.852, rel=0.03)
    assert float(found["mass"]["amount"]) == pytest.approx(30 * km * (0.01612 + 0.00365), abs=0.002)
    assert found["distance"] == found["raw_distance"] == found["adjusted_distance"]
    assert found["distance_calculation_method"] == "sea_distance_algorithm"
    assert found["activity"] == {"value": f"{30 * km:.2f}", "unit": "t*km"}
    assert found["intensity"]["wtw"] == {"amount": "0.01977", "unit": "kg_per_tkm"}
    assert found["converted_shipment"] == {"amount": "30000", "unit": "kg"}
    assert found["shipment_conversion_method"] == "average_cargo_type"
    assert "10 t per TEU (average) is an assumption of Tonne" in shipment.explain[0].description
    assert found["route"]["source"]["label"] == "Shanghai (CNSHA)"
    assert [leg["location"]["label"] for leg in found["route"]["legs"]][-2:] == [
        *("Strait of Gibraltar", "Rotterdam (NLRTM)")
    ]
    assert sum(float(leg["distance"]["amount"]) for leg in found["route"]["legs"]) == pytest.approx(km, abs=0.01)
    assert found["emission_factor"]["id"] == "desnz-2025/cargo-ship-container-ship-average/tonne-km"
    for cargo_type, tonnes in {"lightweight": 6, "heavyweight": 14.5, "container_only": 2}.items():
        loaded = {"containers": "3", "cargo_type": cargo_type}
        other = calculate(SHIPPING, body | {"shipment": loaded, "method": CONTAINER_SHIP | {"refrigerated": True}})
        assert other.mass_grams == pytest.approx(3 * tonnes * km * 19.77, abs=1)
        assert "Refrigerated containers have no factor" in " ".join(fields_of(other)["methodology_notes"])
    # The mass of the goods is known: then the number of containers does not matter.
    known = calculate(SHIPPING, body | {"shipment": {"containers": "3", "mass": {"amount": "30", "unit": "t"}}})
    assert fields_of(known)["mass"] == found["mass"]
    assert fields_of(known)["converted_shipment"] is None


def test_on_land_the_great_circle_gets_a_detour() -> None:
    berlin, munich = {"city": "Berlin", "country_code": "DEU"}, {"city": "München", "country_code": "DE"}
    body = shipped("1", "t", {"source": berlin, "destination": munich}, "diesel_truck", country_code="DEU")
    shipment = calculate(SHIPPING, body)
    found = fields_of(shipment)
    raw, real = (float(found[name]["amount"]) for name in ("raw_distance", "distance"))
    assert raw == pytest.approx(504, abs=2)
    assert real == pytest.approx(raw * 1.4, abs=0.001)
    assert float(found["mass"]["amount"]) == pytest.approx(real * (0.10163 + 0.02359), abs=0.001)
    details = found["distance_calculation_details"]
    assert (details["detour_factor"], details["passages"], details["vessel_tracking"]) == ("1.4", [], None)
    assert "The factor 1.4 for detours is an assumption of Tonne" in str(shipment.explain)
    assert "published for GBR. It is used for Germany, too." in found["methodology_notes"][0]
    points = {"source": {"lat": 52.52437, "lon": 13.41053}, "destination": {"lat": 48.13743, "lon": 11.57549}}
    assert calculate(SHIPPING, body | {"route": points}).mass_grams == round(float(found["mass"]["amount"]) * 1000)


def test_freight_by_air_takes_the_haul_of_its_airports() -> None:
    hauls = {
        ("LHR", "EDI"): "Domestic, to/from UK",
        ("LHR", "BER"): "Short-haul, to/from UK",
        ("EGLL", "JFK"): "Long-haul, to/from UK",
        ("BER", "LIS"): "International, to/from non-UK",
    }
    for (source, destination), haul in hauls.items():
        route = {"source": {"code": source}, "destination": {"code": destination}}
        found = fields_of(calculate(SHIPPING, shipped("1", "t", route, "plane")))
        assert found["emission_factor"]["name"] == f"Freight flights / {haul} / With RF"
        assert found["distance_calculation_method"] == "great_circle_distance"


def test_legs_are_added_up() -> None:
    """By rail 100 km, by sea 1,000 km, by air 2,000 km, by road 50 km, 2 t each.

    200 t*km x (0.02779 + 0.00691) = 6.94 kg; 2,000 x (0.01321 + 0.003) = 32.42 kg (general cargo);
    4,000 x (1.27835 + 0.20515) = 5,934 kg (short-haul); 100 x (0.10163 + 0.02359) = 12.522 kg; together 5,985.882 kg.
    """
    ways = (("100", "rail"), ("1000", "sea_general_cargo"), ("2000", "plane"), ("50", "diesel_truck"))
    legs = [{"route": distance(km), "method": method} for km, method in ways]
    body = {"shipment": {"mass": {"amount": "2", "unit": "t"}}, "legs": legs}
    calculated = calculate(MULTI_LEG_SHIPPING, body)
    found = fields_of(calculated)
    assert [leg["mass"]["amount"] for leg in found["legs"]] == ["6.94", "32.42", "5934", "12.522"]
    assert (calculated.mass_grams, found["mass"]["amount"]) == (5_985_882, "5985.882")
    assert found["distance"] == found["raw_distance"] == {"amount": "3150", "unit": "km"}
    assert formulas(calculated)[-1] == "6.94 + 32.42 + 5934 + 12.522 kg = 5985.882 kg"
    assert [each.description for each in calculated.explain][1].startswith("Leg 1: ")
    for part in ("wtt", "ttw", "unknown"):
        parts = [float(leg["mass"]["wtw_details"][part]["amount"]) for leg in found["legs"]]
        assert float(found["mass"]["wtw_details"][part]["amount"]) == pytest.approx(sum(parts))


def test_every_method_has_a_factor_in_the_package() -> None:
    for method in (*METHODS.values(), *CONTAINER_SHIPS.values()):
        names = (method.activity, *(method.uplift or ()))
        if method.mode is not TransportMode.AIR:
            assert all(FACTORS.find(FREIGHT, name, TONNE_KM) for name in names), method.name
    assert {"rail", "diesel_truck", "truck_rigid_7_5t", "truck_articulated_44t", "sea_oil_tanker"} <= METHODS.keys()


ROAD = {"source": {"city": "Berlin"}, "destination": {"city": "Munich", "country_code": "DEU"}}


@pytest.mark.parametrize(
    ("change", "code", "field"),
    [
        ({"route": distance("0")}, "distance_invalid", "route.amount"),
        ({"route": distance("100001")}, "distance_invalid", "route.amount"),
        ({"route": {"amount": "1"}}, "validation_error", "route.unit"),
        ({"route": {}}, "validation_error", "route"),
        ({"route": ROAD | distance("1")}, "validation_error", "route"),
        ({"route": ROAD | {"source": {"city": "Nowhereville"}}}, "address_not_found", "route.source.city"),
        ({"route": ROAD | {"source": {"country_code": "DEU"}}}, "address_not_found", "route.source"),
        (
            {"route": ROAD | {"source": {"city": "Berlin", "country_code": "XX"}}},
            "address_not_found",
            "route.source.country_code",
        ),
        ({"route": ROAD | {"source": {"lat": 52.5}}}, "validation_error", "route.source.lon"),
        ({"route": ROAD | {"source": {"lat": "1e3", "lon": 1}}}, "validation_error", "route.source.lat"),
        ({"route": ROAD | {"source": {"city": "Berlin", "lat": 1, "lon": 1}}}, "validation_error", "route.source"),
        ({"route": ROAD | {"source": {"code": "ZZZZZ"}}}, "source_location_code_invalid", "route.source.code"),
        (
            {"route": ROAD | {"destination": {"code": "ZZZZZ"}}},
            "destination_location_code_invalid",
            "route.destination.code",
        ),
        ({"route": ROAD | {"source": {"locode": "ZZZZZ"}}}, "locode_not_found", "route.source.locode"),
        ({"route": ROAD | {"source": {"city": "Munich"}}}, "route_not_found", "route"),
        ({"route": ROAD | {"source": {"city": "Boston", "country_code": "USA"}}}, "route_not_found", "route"),
        ({"route": ROAD | {"transit_corridor": "suez"}}, "validation_error", "route.transit_corridor"),
        ({"method": "sea_bulk_carrier"}, "port_not_found", "route.source"),
        (
            {"method": CONTAINER_SHIP, "route": PORTS | {"source": {"locode": "USDEN"}}},
            "port_not_found",
            "route.source.locode",
        ),
        (
            {
                "method": CONTAINER_SHIP,
                "route": PORTS | {"source": {"locode": "USNYC"}, "transit_corridor": "suez_canal"},
            },
            "route_not_found",
            "route.transit_corridor",
        ),
        ({"method": "rocket"}, "validation_error", "method"),
        ({"method": {"vessel_type": "yacht"}}, "validation_error", "method.vessel_type"),
        ({"method": 7}, "validation_error", "method"),
        ({"shipment": {}}, "validation_error", "shipment"),
        ({"shipment": {"mass": {"amount": "0", "unit": "t"}}}, "validation_error", "shipment.mass.amount"),
        ({"shipment": {"containers": "0"}}, "validation_error", "shipment.containers"),
        (
            {"shipment": {"mass": {"amount": "1", "unit": "t"}, "cargo_type": "average"}},
            "validation_error",
            "shipment.cargo_type",
        ),
    ],
)
def test_mistakes_have_a_code_and_a_field(change: dict[str, Any], code: str, field: str) -> None:
    with pytest.raises(TonneError) as raised:
        calculate(SHIPPING, shipped("1", "t", ROAD, "diesel_truck") | change)
    fault = raised.value.faults[0]
    assert (fault.error_code, fault.field) == (code, field)
    assert fault.message.endswith(".")


def test_a_mistake_in_a_leg_names_the_leg() -> None:
    legs = [{"route": distance("1"), "method": "rail"}, {"route": distance("0"), "method": "rail"}]
    with pytest.raises(TonneError) as raised:
        calculate(MULTI_LEG_SHIPPING, {"shipment": {"containers": "1"}, "legs": legs})
    assert raised.value.faults[0].field == "legs[1].route.amount"
    for wrong in ([], legs[:1] * 51):
        with pytest.raises(TonneError) as raised:
            calculate(MULTI_LEG_SHIPPING, {"shipment": {"containers": "1"}, "legs": wrong})
        assert raised.value.faults[0].field == "legs"
    with pytest.raises(TonneError) as raised:
        calculate(SHIPPING, shipped("1", "t", distance("1"), "rocket"))
    assert "diesel_truck" in raised.value.faults[0].message


def test_a_route_is_measured_once_and_then_quick() -> None:
    route = {"source": {"locode": "DEHAM"}, "destination": {"lat": 40.7, "lon": -74.0}}
    request = read(decode_json(msgspec.json.encode(shipped("1", "t", route, CONTAINER_SHIP))), SHIPPING.request)
    assert SHIPPING.is_slow is not None
    assert SHIPPING.is_slow(request)
    first = SHIPPING.calculate(request, FACTORS)
    assert not SHIPPING.is_slow(request)
    assert SHIPPING.calculate(request, FACTORS) == first
    # The same places by air are another route.
    by_air = calculate(SHIPPING, shipped("1", "t", route, "plane"))
    assert fields_of(by_air)["distance_calculation_method"] == "great_circle_distance"
