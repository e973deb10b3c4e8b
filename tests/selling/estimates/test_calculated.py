"""Calculated estimates over the API: versions, idempotency, quotes, orders. The arithmetic is in tests/calculations."""

from typing import Any

import httpx

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

FLIGHT = "/v1/estimates/flight"
# 1,000 km in economy: 1,000 x (0.12576 + 0.02249) = 148.25 kg.
BODY: dict[str, Any] = {"route": {"amount": "1000", "unit": "km"}, "cabin_class": "economy"}
COMMON = [
    *("id", "kind", "version", "name", "mass", "quantity", "quote", "request", "metadata"),
    *("idempotency_key", "created_at", "calculated_at"),
]


async def put(api: ApiClient, path: str, body: Any) -> httpx.Response:
    return await api.http.put(path, json=body, headers=api._headers({}))


async def test_an_estimate_is_calculated_stored_ordered_and_calculated_again(
    api: ApiClient, populated_db: Database
) -> None:
    body = BODY | {"name": "Trip", "metadata": {"trip": 7}, "idempotency_key": "trip 7"}
    made = await api.post(FLIGHT, body)
    assert made.status_code == 201, made.text
    first = made.json()
    assert list(first)[: len(COMMON)] == COMMON
    assert (first["kind"], first["version"], first["name"]) == ("flight", 1, "Trip")
    assert (first["mass"], first["quantity"]) == ({"amount": "148.25", "unit": "kg"}, "0.14825")
    assert (first["request"], first["metadata"], first["idempotency_key"]) == (body, {"trip": 7}, "trip 7")
    assert first["quote"]["requested_quantity"] == "0.14825"
    assert first["explain"][-1]["formula"] == "74.35 + 51.41 + 22.49 = 148.25 kg"
    assert [each["version"] for each in first["emission_factors"]] == [1, 1]
    assert "Open Government Licence" in first["emission_factors"][0]["attribution"]
    path = f"{FLIGHT}/{first['id']}"
    assert (await api.get(path)).json() == first
    assert (await api.get(f"/v1/estimates/{first['id']}")).json()["quantity"] == "0.14825"
    assert codes(await api.get(f"/v1/estimates/electricity/{first['id']}")) == ["estimate_not_found"]

    # The same request with the same key is the same estimate; another one is refused.
    again = await api.post(FLIGHT, body)
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (200, first, "true")
    for taken in (
        await api.post(FLIGHT, body | {"passengers": 2}),
        await api.post("/v1/estimates/hotel", {"country_code": "PRT", "nights": 1, "idempotency_key": "trip 7"}),
        await api.post(FLIGHT, BODY | {"route": {"amount": "0", "unit": "km"}, "idempotency_key": "trip 7"}),
    ):
        assert (taken.status_code, codes(taken)) == (409, ["estimate_idempotency_already_exists"])

    ordered = await api.post("/v1/orders/by-estimate", {"estimate_id": first["id"]})
    assert ordered.json()["quantity"] == "0.14825"
    second = (await put(api, path, body | {"passengers": 2})).json()
    assert (second["id"], second["version"], second["mass"]["amount"]) == (first["id"], 2, "296.5")
    assert second["created_at"] == first["created_at"]
    # Repeating the PUT changes nothing.
    assert (await put(api, path, body | {"passengers": 2})).json() == second
    assert (await api.get(f"{path}?version=1")).json()["request"] == body
    assert codes(await api.get(f"{path}?version=3")) == ["estimate_version_not_found"]
    assert codes(await api.get(f"{path}?version=x")) == ["validation_error"]
    assert (await api.get(f"/v1/orders/{ordered.json()['id']}")).json()["quantity"] == "0.14825"
    assert (await api.post("/v1/orders/by-estimate", {"estimate_id": first["id"]})).json()["quantity"] == "0.2965"
    # The first request with its key still finds the estimate, as it is now.
    assert (await api.post(FLIGHT, body)).json() == second

    other = (await api.post(FLIGHT, BODY)).json()
    assert "idempotency_key" not in other
    assert other["request"] == BODY
    taken = await put(api, f"{FLIGHT}/{other['id']}", body)
    assert (taken.status_code, codes(taken)) == (409, ["estimate_idempotency_already_exists"])
    assert codes(await put(api, f"{FLIGHT}/est_none", {})) == ["estimate_not_found"]
    async with populated_db.connection() as connection:
        stored = await connection.fetchval("SELECT count(*) FROM estimate_versions")
    assert stored == 3


async def test_the_quote_follows_selection_and_unit(api: ApiClient, world: World) -> None:
    bundle_id = next(iter(world.bundles_test.values()))
    selection = [{"bundle_id": bundle_id, "percentage": 100}]
    # 148.25 kg is cut to 148 kg for the quote, and stays in the estimate.
    made = (await api.post(FLIGHT, BODY | {"bundle_selection": selection, "quantity_trunc": "kg"})).json()
    assert (made["quantity"], made["quote"]["estimated_quantity"]) == ("0.14825", "0.148")
    assert [each["bundle_id"] for each in made["quote"]["bundles"]] == [bundle_id]
    assert (await api.get(f"{FLIGHT}/{made['id']}")).json()["quote"] == made["quote"]
    # Less than a tonne cannot be priced in tonnes: the estimate exists, its quote is an error.
    none = (await api.post(FLIGHT, BODY | {"quantity_trunc": "t"})).json()
    assert none["quote"]["error"] == none["quote"]["errors"][0]
    assert none["quote"]["error"]["error_code"] == "order_quantity_invalid"
    wrong = await api.post(FLIGHT, BODY | {"bundle_selection": [{"bundle_id": "bun_none"}]})
    assert (wrong.status_code, codes(wrong)) == (400, ["bundle_selection_bundle_invalid"])
    unknown = await api.post(FLIGHT, BODY | {"cabin": "economy"})
    assert fields(unknown) == ["cabin"]
    tiny = await api.post("/v1/estimates/electricity", {"consumption": {"amount": "0.001", "unit": "kWh"}})
    assert (tiny.status_code, codes(tiny)) == (400, ["estimate_mass_invalid"])


async def test_factors_can_be_found_by_name_source_year_region_and_unit(api: ApiClient) -> None:
    async def ids(query: str) -> list[str]:
        answer = await api.get(f"/v1/emission-factors?{query}")
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["data"]]

    grid = "owid-2023/electricity-deu/kwh"
    assert await ids("name=germany+grid") == [grid]
    assert await ids("region=DEU&unit=energy") == await ids("region=de&unit=energy") == [grid]
    both = await ids("region=DEU&region=FRA&source=ember&publication_year=2023&limit=100")
    assert both == [grid, "owid-2023/electricity-fra/kwh"]
    assert await ids("source=beis&region=DEU") == []
    page = (await api.get("/v1/emission-factors?unit=room-time&limit=20")).json()
    rest = (await api.get(f"/v1/emission-factors?unit=room-time&limit=20&after={page['next_cursor']}")).json()
    assert (len(page["data"]), len(rest["data"]), rest["has_more"]) == (20, 19, False)
    factor = (await api.get(f"/v1/emission-factors/{grid}")).json()
    assert (factor["value"], factor["numerator_unit"], factor["denominator_unit"]) == ("0.38095", "kg", "kWh")
    assert (factor["source"], factor["publication_year"], factor["licence"]) == ("ember", 2023, "CC-BY-4.0")
    assert (await api.get(f"/v1/emission-factors/{grid.replace('/', '%2F')}")).json() == factor
    assert codes(await api.get("/v1/emission-factors/none")) == ["emission_factor_not_found"]
    assert codes(await api.get("/v1/emission-factors?publication_year=soon")) == ["validation_error"]
    regions = (await api.get("/v1/emission-factors/regions")).json()
    assert regions == sorted(regions)
    assert {"GBR", "DEU"} <= set(regions)


async def test_a_batch_has_a_result_for_every_estimate_in_its_order(api: ApiClient) -> None:
    flight = BODY | {"idempotency_key": "one"}
    items: list[Any] = [
        {"kind": "flight", **flight},
        {"kind": "hotel", "country_code": "PRT", "nights": 3},
        {"kind": "flight", "route": {"source": {"code": "BER"}, "destination": {"code": "XXX"}}},
        {"kind": "teleport"},
        "nothing",
        {"kind": "flight", **flight},
    ]
    answer = await api.post("/v1/estimates/batch", items)
    assert answer.status_code == 200, answer.text
    first, hotel, airport, kind, nothing, again = answer.json()
    assert (first["mass"]["amount"], hotel["mass"]["amount"]) == ("148.25", "57")
    assert again == first
    assert first["request"] == flight
    # The same request alone is the same estimate.
    assert (await api.post(FLIGHT, flight)).json() == first
    assert (airport["error"]["error_code"], airport["errors"][0]["field"]) == (
        *("airport_invalid", "route.destination.code"),
    )
    assert {each["error"]["error_code"] for each in (kind, nothing)} == {"validation_error"}
    mistakes: list[Any] = [[], [{}] * 101, {}]
    for wrong in mistakes:
        assert codes(await api.post("/v1/estimates/batch", wrong)) == ["validation_error"]
