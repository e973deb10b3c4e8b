"""Requests and responses of clients that were written for comparable services."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.clients.shapes import MASS, MULTI_LEG_SHIPMENT, PROJECT, SHIPMENT, TRANSACTION, WEBHOOK, WEBHOOKS, check
from tests.selling.estimates.purchases.factor_set import import_transaction_factors
from tests.support.api_client import ApiClient, codes, fields
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.values.errors import Invalid
from tonne.selling.estimates.shipping.read_method import read_method

RECEIVER = "https://1.1.1.1/hook"
KILOGRAM = {"mg": Decimal(1_000_000), "g": Decimal(1000), "kg": Decimal(1), "t": Decimal("0.001")}
_FREIGHT = {"shipment": {"mass": {"amount": "2", "unit": "t"}}}
_BY_RAIL = {"route": {"amount": "500", "unit": "km"}, "method": "rail"}
_PAID = {"value": {"value": "42.50", "currency": "EUR"}, "merchant": {"country_code": "DEU", "category_code": "5411"}}
ESTIMATES: dict[str, dict[str, Any]] = {
    "/v1/estimates": {"mass": {"amount": "1.5", "unit": "kg"}},
    "/v1/estimates/flight": {"route": {"amount": "1000", "unit": "km"}},
    "/v1/estimates/electricity": {"consumption": {"amount": "10", "unit": "kWh"}, "country_code": "DEU"},
    "/v1/estimates/passenger-transportation": {
        "legs": [{"route": {"amount": "10", "unit": "km"}, "rail_type": "national_rail"}]
    },
    "/v1/estimates/shipping": _FREIGHT | _BY_RAIL,
    "/v1/estimates/shipping/multi-leg": _FREIGHT | {"legs": [_BY_RAIL, _BY_RAIL]},
    "/v1/estimates/transactions": _PAID,
}


async def test_webhooks_are_a_plain_array(api: ApiClient) -> None:
    registered = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    check(registered, WEBHOOK)
    for query in ("", "?limit=100", "?limit=1&after=some-cursor"):
        listed = (await api.get(f"/v1/webhooks{query}")).json()
        check(listed, WEBHOOKS)
        assert [item["id"] for item in listed] == [registered["id"]], query


async def test_a_rotation_without_a_body_keeps_the_old_secret_for_a_day(api: ApiClient, services: Services) -> None:
    webhook = (await api.post("/v1/webhooks", {"url": RECEIVER})).json()
    path = f"/v1/webhooks/{webhook['id']}/rotate-secret"
    rotated = await api.http.put(path, headers=api._headers({}))
    check(rotated.json(), WEBHOOK)
    async with services.database.connection() as connection:
        ends = await connection.fetchval("SELECT old_secret_until FROM webhooks")
    assert abs(ends - datetime.now(UTC) - timedelta(hours=24)) < timedelta(minutes=5)
    assert (await api.http.post(path, headers=api._headers({}))).status_code == 200
    refused = await api.http.put(path, headers=api._headers({}))
    assert (refused.status_code, codes(refused)) == (409, ["webhook_overlap_promised"])
    check((await api.post(path, {"overlap_s": 0})).json(), WEBHOOK)


def _masses(value: Any, path: str = "") -> dict[str, dict[str, str]]:
    """Every mass of a response by its path, without the explanation and what was sent."""
    if isinstance(value, list):
        return {name: mass for n, each in enumerate(value) for name, mass in _masses(each, f"{path}[{n}]").items()}
    if not isinstance(value, dict):
        return {}
    found = {path: value} if value.get("unit") in KILOGRAM and "amount" in value else {}
    for name, each in value.items():
        if name not in {"request", "explain", "quote"}:
            found |= _masses(each, f"{path}.{name}")
    return found


@pytest.mark.parametrize("path", ESTIMATES)
async def test_masses_are_in_the_unit_that_the_request_names(api: ApiClient, populated_db: Database, path: str) -> None:
    await import_transaction_factors(populated_db)
    plain = _masses((await api.post(path, ESTIMATES[path])).json())
    assert ".mass" in plain
    for unit, factor in KILOGRAM.items():
        made = await api.post(path, ESTIMATES[path] | {"estimate_mass_unit": unit})
        assert made.status_code == 201, made.text
        check(made.json()["mass"], MASS)
        found = _masses(made.json())
        assert {mass["unit"] for mass in found.values()} == {unit}
        assert {name: Decimal(mass["amount"]) for name, mass in found.items()} == {
            name: Decimal(mass["amount"]) * factor for name, mass in plain.items()
        }
        assert (await api.get(f"{path}/{made.json()['id']}")).json()["mass"] == made.json()["mass"]
    refused = await api.post(path, ESTIMATES[path] | {"estimate_mass_unit": "lb"})
    assert (codes(refused), fields(refused)) == (["validation_error"], ["estimate_mass_unit"])


async def test_transactions_have_the_fields_of_existing_clients(api: ApiClient, populated_db: Database) -> None:
    await import_transaction_factors(populated_db)
    path = "/v1/estimates/transactions"
    made = (await api.post(path, _PAID)).json()
    check(made, TRANSACTION)
    assert (made["is_transaction"], made["transaction_processed_at"], made["methodology_notes"]) == (False, None, [])
    sent = {"is_transaction": True, "transaction_processed_at": "2026-11-15T10:00:00Z", "diet": "fish_eater"}
    by_term = {"merchant": {"country_code": "DEU", "search_term": "grocery"}}
    full = (await api.post(path, _PAID | by_term | sent | {"region_fallback": "never"})).json()
    check(full, TRANSACTION)
    assert (full["is_transaction"], full["transaction_processed_at"]) == (True, "2026-11-15T10:00:00.000Z")
    assert "grocery" in full["search_term_match"].casefold()
    assert full["methodology_notes"] == ["The diet was not used: no emission factor depends on it."]
    assert (await api.get(f"{path}/{full['id']}")).json() == full
    refused = await api.post(path, _PAID | {"diet": "cake"})
    assert (codes(refused), fields(refused)) == (["validation_error"], ["diet"])


async def test_shipments_have_the_fields_of_existing_clients(api: ApiClient) -> None:
    path, parts = "/v1/estimates/shipping", ("wtt", "ttw", "wtw", "unknown")
    by_mass = (await api.post(path, _FREIGHT | _BY_RAIL | {"is_shipment": True, "shipped_at": "2026-11-15"})).json()
    check(by_mass, SHIPMENT)
    assert (by_mass["converted_shipment"], by_mass["shipment_conversion_method"]) == (None, None)
    assert [by_mass["intensity"][part]["amount"] for part in parts] == ["0.00691", "0.02779", "0.0347", "0"]
    for cargo, method, tonnes in (
        ({}, "average_cargo_type", "20"),
        ({"cargo_type": "heavyweight"}, "user_provided_cargo_type", "29"),
    ):
        body = _BY_RAIL | {"shipment": {"containers": "2"} | cargo, "estimate_mass_unit": "t"}
        made = (await api.post(path, body)).json()
        check(made, SHIPMENT)
        assert made["converted_shipment"] == {"amount": tonnes, "unit": "t"}
        assert made["shipment_conversion_method"] == method
        assert "an assumption of Tonne" in made["methodology_notes"][-1]
    legs = [_BY_RAIL, _BY_RAIL | {"method": "plane"}]
    several = (await api.post(f"{path}/multi-leg", _FREIGHT | {"legs": legs})).json()
    check(several, MULTI_LEG_SHIPMENT)
    flown = several["legs"][1]["intensity"]
    assert Decimal(flown["unknown"]["amount"]) > 0
    wtt, ttw, wtw, unknown = (Decimal(flown[part]["amount"]) for part in parts)
    assert wtw == wtt + ttw + unknown


_ROAD = {"vehicle_type": "truck_rigid_12t", "fuel": "diesel"}
_LANE = {"vessel_type": "container_ship", "refrigerated": False, "trade_lane": "aggregated_transsuez"}
_DESNZ = "desnz-2025/{}/tonne-km"


@pytest.mark.parametrize(
    ("method", "factor", "note"),
    [
        (_ROAD, "hgv-all-diesel-rigid-7-5-tonnes-17-tonnes-average-laden", "between 7.5 t and 17 t"),
        (_ROAD | {"load_factor": 0.5}, "hgv-all-diesel-rigid-7-5-tonnes-17-tonnes-50-laden", "empty runs are not part"),
        (
            _ROAD | {"load_factor": "1.0", "empty_runs_factor": 0},
            "hgv-all-diesel-rigid-7-5-tonnes-17-tonnes-100-laden",
            "",
        ),
        (_ROAD | {"refrigerated": True}, "hgv-refrigerated-all-diesel-rigid-7-5-tonnes-17-tonnes-average-laden", ""),
        (_ROAD | {"gradient": "hilly"}, "hgv-all-diesel-rigid-7-5-tonnes-17-tonnes-average-laden", "on gradient"),
        (
            _ROAD | {"emission_standard": "euro6"},
            "hgv-all-diesel-rigid-7-5-tonnes-17-tonnes-average-laden",
            "on emission",
        ),
        (
            _ROAD | {"situation": "motorway_rural_freeflow"},
            "hgv-all-diesel-rigid-7-5-tonnes-17-tonnes-average-laden",
            "on situation",
        ),
        ({"vehicle_type": "truck", "fuel": "auto_detect"}, "hgv-all-diesel-all-hgvs-average-laden", "taken for diesel"),
        ({"vehicle_type": "truck_generic_van", "fuel": "cng"}, "vans-average-up-to-3-5-tonnes-cng", ""),
        ({"vehicle_type": "truck_generic_van", "fuel": "gasoline"}, "vans-average-up-to-3-5-tonnes-petrol", ""),
        (
            {"vehicle_type": "truck_generic_van", "fuel": "diesel", "refrigerated": True},
            "vans-average-up-to-3-5-tonnes-diesel",
            "Refrigerated vans have no factor",
        ),
        (_LANE, "cargo-ship-container-ship-average", "on trade_lane"),
        (_LANE | {"trade_lane": "disaggregated_intra_se_asia"}, "cargo-ship-container-ship-average", "on trade_lane"),
        ({"vessel_type": "sea_ropax", "fuel": "MGO"}, "cargo-ship-large-ropax-ferry-average", "large RoPax ferries"),
        ({"vessel_type": "sea_roro", "load": "trailer_only"}, "cargo-ship-roro-ferry-average", "on load"),
    ],
)
async def test_trucks_and_ships_may_be_objects(api: ApiClient, method: Any, factor: str, note: str) -> None:
    made = await api.post("/v1/estimates/shipping", _FREIGHT | _BY_RAIL | {"method": method})
    assert made.status_code == 201, made.text
    check(made.json(), SHIPMENT)
    assert made.json()["emission_factor"]["id"] == _DESNZ.format(factor)
    assert note in " ".join(made.json()["methodology_notes"])


@pytest.mark.parametrize(
    ("method", "field", "words"),
    [
        (_ROAD | {"fuel": "hvo_from_tallow"}, "method.fuel", "There is one for diesel, auto_detect."),
        (_ROAD | {"fuel": "HFO"}, "method.fuel", "There is one for diesel, auto_detect."),
        (_ROAD | {"fuel": "coal"}, "method.fuel", "expected one of gasoline"),
        ({"vehicle_type": "truck"}, "method.fuel", "required"),
        (_ROAD | {"vehicle_type": "truck_articulated_60t"}, "method.vehicle_type", "truck_articulated_44t"),
        (_ROAD | {"vehicle_type": "bicycle"}, "method.vehicle_type", "expected one of"),
        (_ROAD | {"load_factor": 0.7}, "method.load_factor", "There is one for 0.5, 1."),
        (_ROAD | {"load_factor": 1.1}, "method.load_factor", "from 0 to 1"),
        (_ROAD | {"empty_runs_factor": 0.2}, "method.empty_runs_factor", "Leave out"),
        (_ROAD | {"situation": "nowhere"}, "method.situation", "motorway_rural_freeflow"),
        (_ROAD | {"trade_lane": "aggregated_other"}, "method.trade_lane", "Remove it."),
        (_ROAD | {"wheels": 4}, "method.wheels", "Unknown field"),
        ({"vehicle_type": "truck_generic_van", "fuel": "lng"}, "method.fuel", "diesel, gasoline, cng, lpg"),
        (
            {"vehicle_type": "truck_generic_van", "fuel": "lpg", "refrigerated": True},
            "method.fuel",
            "There is one for diesel.",
        ),
        (_LANE | {"load_factor": 0.7}, "method.load_factor", "Leave out load_factor."),
        (_LANE | {"trade_lane": "aggregated_moon"}, "method.trade_lane", "aggregated_transsuez"),
        ({"vessel_type": "sea_oil_tanker_huge"}, "method.vessel_type", "sea_oil_tanker”"),
        ({"vessel_type": "sea_roro", "fuel": "LNG"}, "method.fuel", "There is one for HFO, MGO."),
        ({"vessel_type": "sea_ropax", "load": "trailer_only"}, "method.load", "sea_roro only"),
        ({"refrigerated": True}, "method", "vehicle_type, or a vessel_type"),
        ("sea_bulk_carrier_10dwkt_hfo", "method", "There is one for sea_bulk_carrier,"),
        ("maritime_container_terminal_chilled", "method", "logistics sites"),
        ("transhipment_site_mixed", "method", "logistics sites"),
        ("storage_and_transhipment_ambient", "method", "logistics sites"),
        ("warehouse_mixed", "method", "logistics sites"),
        ("liquid_bulk_terminals_ambient", "method", "logistics sites"),
    ],
)
async def test_a_method_without_an_open_factor_is_refused_with_those_that_have_one(
    api: ApiClient, method: Any, field: str, words: str
) -> None:
    body = _FREIGHT | _BY_RAIL | {"method": method}
    refused = await api.post("/v1/estimates/shipping", body)
    assert (refused.status_code, codes(refused), fields(refused)) == (400, ["validation_error"], [field])
    assert words in refused.json()["errors"][0]["message"]
    leg = await api.post("/v1/estimates/shipping/multi-leg", _FREIGHT | {"legs": [_BY_RAIL | {"method": method}]})
    assert fields(leg) == [f"legs[0].{field}"]


_TRUCKS = [
    *("truck", "truck_generic_van", "truck_rigid_7_5t", "truck_rigid_12t", "truck_rigid_20t", "truck_rigid_26t"),
    *("truck_rigid_32t", "truck_articulated_34t", "truck_articulated_40t", "truck_articulated_44t"),
    *("truck_articulated_60t", "truck_articulated_72t"),
]
_FUELS = [
    *("gasoline", "diesel", "99_diesel_1_biodiesel", "98_diesel_2_biodiesel", "95_diesel_5_biodiesel"),
    *("93_diesel_7_biodiesel", "90_diesel_10_biodiesel", "80_diesel_20_biodiesel", "50_diesel_50_biodiesel"),
    *("ethanol_from_corn", "hvo_from_tallow", "lpg", "cng", "lng", "auto_detect"),
]
_SHIPS = [
    *("sea_oil_tanker_small", "sea_oil_tanker_medium", "sea_oil_tanker_large", "sea_oil_tanker_huge"),
    *("sea_general_cargo_small", "sea_general_cargo_large", "sea_bulk_carrier_small", "sea_bulk_carrier_medium"),
    *("sea_bulk_carrier_large", "sea_ropax", "sea_roro"),
]
_LANES = [f"aggregated_{lane}" for lane in ("panama_trade", "transatlantic", "transsuez", "transpacific", "other")]
_SITES = [
    *("maritime_container_terminal", "maritime_container_terminal_ambient", "maritime_container_terminal_chilled"),
    *(f"{site}_{kind}" for site in ("transhipment_site", "warehouse") for kind in ("ambient", "chilled", "mixed")),
]
_SENT: list[Any] = [
    *({"vehicle_type": truck, "fuel": fuel} for truck in _TRUCKS for fuel in _FUELS),
    *(_ROAD | {"gradient": gradient} for gradient in ("flat", "hilly", "mountainous")),
    *(_ROAD | {"emission_standard": f"euro{number}"} for number in range(1, 7)),
    *(
        _ROAD | {"situation": f"{road}_{area}_{traffic}"}
        for road in ("city", "motorway", "arterial_road")
        for area in ("urban", "rural")
        for traffic in ("freeflow", "heavy_traffic", "stop_and_go")
    ),
    *({"vessel_type": ship} | fuel for ship in _SHIPS for fuel in ({}, *({"fuel": f} for f in ("HFO", "MGO", "LNG")))),
    *(_LANE | {"trade_lane": lane} for lane in (*_LANES, "disaggregated_asia_to_north_europe", "disaggregated_other")),
    *_SITES,
]


def test_everything_that_existing_clients_send_has_a_factor_or_is_said_to_have_none() -> None:
    wrong = []
    for sent in _SENT:
        try:
            read_method(sent)
        except (Invalid, ValueError) as error:
            if "no open factor for" not in str(error).casefold():
                wrong.append((sent, str(error)))
    assert wrong == []


async def test_a_leg_without_a_route_is_refused_for_its_method_first(api: ApiClient) -> None:
    site = await api.post(
        "/v1/estimates/shipping/multi-leg", _FREIGHT | {"legs": [_BY_RAIL, {"method": "warehouse_mixed"}]}
    )
    assert fields(site)[0] == "legs[1].method"


async def test_other_query_parameters_stay_refused(api: ApiClient) -> None:
    for path in ("/v1/webhooks", "/v1/projects", "/v1/orders"):
        refused = await api.get(f"{path}?colour=green")
        assert (refused.status_code, fields(refused)) == (400, ["colour"]), path


@pytest.mark.parametrize("path", ESTIMATES)
async def test_every_estimate_takes_a_client_account(api: ApiClient, populated_db: Database, path: str) -> None:
    await import_transaction_factors(populated_db)
    client = {"name": "Fjord Bakery", "currency": "EUR", "handle": "fjord-bakery", "idempotency_key": "client-20817"}
    for _ in range(2):
        made = await api.post(path, ESTIMATES[path] | {"client_account": client})
        assert made.status_code == 201, made.text
    [listed] = (await api.get("/v1/accounts/client?name=Fjord")).json()["data"]
    assert listed["number_of_estimates"] == 2
    read = await api.get(f"{path}/{made.json()['id']}", Service_Account=listed["id"])
    assert read.json()["mass"] == made.json()["mass"]


async def test_projects_have_what_existing_clients_show_of_them(api: ApiClient) -> None:
    listed = (await api.get("/v1/projects?limit=100")).json()["data"]
    projects = [(await api.get(f"/v1/projects/{each['id']}")).json() for each in listed]
    for project in projects:
        check(project, PROJECT)
    for name in ("impact_summary", "datasets", "links_and_news"):
        assert {project[name] is None for project in projects} == {True, False}, name
