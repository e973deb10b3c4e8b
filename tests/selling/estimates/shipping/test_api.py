"""Shipments over the API: annotations, lists, methods. The arithmetic has tests of its own."""

from typing import Any

from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World

SHIPPING = "/v1/estimates/shipping"
MASS = {"shipment": {"mass": {"amount": "10", "unit": "t"}}}
LEG = {"route": {"amount": "500", "unit": "km"}, "method": "diesel_truck"}


async def send(api: ApiClient, method: str, path: str, body: Any) -> Any:
    return await api.http.request(method, path, json=body, headers=api._headers({}))


async def test_shipments_are_estimated_annotated_and_listed(api: ApiClient, world: World) -> None:
    one = await api.post(SHIPPING, MASS | LEG)
    assert one.status_code == 201, one.text
    first = one.json()
    # 5,000 t*km x (0.10163 + 0.02359) = 626.1 kg.
    assert (first["mass"]["amount"], first["quantity"]) == ("626.1", "0.6261")
    assert first["mass"]["wtw_details"]["wtt"] == {"amount": "117.95", "unit": "kg"}
    assert (first["is_shipment"], first["shipped_at"], first["filename"]) == (False, None, None)
    assert first["request"] == MASS | LEG
    assert (await api.get(f"{SHIPPING}/{first['id']}")).json() == first

    body = MASS | {"legs": [LEG, LEG], "is_shipment": True, "shipped_at": "2026-11-01", "metadata": {"po": 7}}
    many = await api.post(f"{SHIPPING}/multi-leg", body)
    assert many.status_code == 201, many.text
    second = many.json()
    assert (second["kind"], second["mass"]["amount"]) == ("shipping/multi-leg", "1252.2")
    assert (second["is_shipment"], second["shipped_at"]) == (True, "2026-11-01T00:00:00.000Z")
    one_of_many = f"{SHIPPING}/multi-leg/{second['id']}"
    assert (await api.get(one_of_many)).json() == second
    assert codes(await api.get(f"{SHIPPING}/{second['id']}")) == ["estimate_not_found"]
    ordered = await api.post("/v1/orders/by-estimate", {"estimate_id": second["id"]})
    assert ordered.json()["quantity"] == "1.2522"

    notes = {
        "is_shipment": True,
        "shipped_at": "2026-11-02T10:00:00Z",
        "metadata": {"po": 8},
        "idempotency_key": "po 8",
    }
    annotated = (await send(api, "PATCH", f"{SHIPPING}/{first['id']}/annotations", notes)).json()
    assert (annotated["is_shipment"], annotated["metadata"], annotated["idempotency_key"]) == (True, {"po": 8}, "po 8")
    assert annotated["version"] == 1
    plan = (await send(api, "PATCH", f"{one_of_many}/annotations", {"is_shipment": False})).json()
    assert (plan["is_shipment"], plan["shipped_at"]) == (False, "2026-11-01T00:00:00.000Z")
    taken = await send(api, "PATCH", f"{one_of_many}/annotations", {"idempotency_key": "po 8"})
    assert (taken.status_code, codes(taken)) == (409, ["estimate_idempotency_already_exists"])
    again = await send(api, "PUT", one_of_many, MASS | {"legs": [LEG]})
    assert (again.json()["version"], again.json()["mass"]["amount"]) == (2, "626.1")

    everything = (await api.get(f"{SHIPPING}/all")).json()
    assert [each["id"] for each in everything["data"]] == [second["id"], first["id"]]
    assert everything["data"][1] == annotated
    page = (await api.get(f"{SHIPPING}/all?limit=1")).json()
    rest = (await api.get(f"{SHIPPING}/all?limit=1&after={page['next_cursor']}")).json()
    assert (page["has_more"], [each["id"] for each in rest["data"]]) == (True, [first["id"]])
    day = first["created_at"][:10]
    for query, ids in (
        ("is_shipment=true", [first["id"]]),
        ("is_shipment=false", [second["id"]]),
        (f"from={day}&through={day}", [second["id"], first["id"]]),
        ("through=2020-01-01", []),
        ("from=9999-12-30", []),
    ):
        found = (await api.get(f"{SHIPPING}/all?{query}")).json()["data"]
        assert [each["id"] for each in found] == ids, query
    for query, field in (
        ("from=2026-11-02&through=2026-11-01", "through"),
        ("from=yesterday", "from"),
        ("from=2026-02-30", "from"),
        ("through=9999-12-31", "through"),
    ):
        refused = await api.get(f"{SHIPPING}/all?{query}")
        assert (codes(refused), fields(refused)) == (["time_range_invalid"], [field]), query
    assert codes(await api.get(f"{SHIPPING}/all?is_shipment=maybe")) == ["validation_error"]
    assert (await api.as_key(world.theirs_test.key).get(f"{SHIPPING}/all")).json()["data"] == []


async def test_the_methods_are_listed_with_their_factors(api: ApiClient) -> None:
    methods = {str(each["method"]): each for each in (await api.get(f"{SHIPPING}/methods")).json()["data"]}
    assert methods["rail"]["emission_factors"] == ["desnz-2025/rail-freight-train/tonne-km"]
    assert (methods["plane"]["mode"], len(methods["plane"]["emission_factors"])) == ("air", 4)
    for each in methods.values():
        made = await api.post(SHIPPING, MASS | {"route": {"amount": "10", "unit": "km"}, "method": each["method"]})
        assert made.status_code == 201, made.text
        used = made.json()
        assert used["emission_factor"]["id"] in each["emission_factors"]
        assert each["note"] is None or each["note"] in " ".join(used["methodology_notes"])
    assert str({"vehicle_type": "truck", "fuel": "diesel"}) in methods
