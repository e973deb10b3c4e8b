"""Creating and reading estimates with their quotes."""

from typing import Any

from tests.platform.http.writes import count_rows
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

FIELDS = ["id", "idempotency_key", "mass", "quantity", "description", "metadata", "created_at", "quote"]
MASS: dict[str, Any] = {"mass": {"amount": "1105.697", "unit": "kg"}}


async def test_an_estimate_is_recorded_with_a_quote_and_can_be_read_again(api: ApiClient) -> None:
    body = MASS | {"description": "Flight BER to LIS", "metadata": {"leg": 1}, "idempotency_key": "k"}
    answer = await api.post("/v1/estimates", body)
    assert answer.status_code == 201
    estimate = answer.json()
    assert list(estimate) == FIELDS
    assert estimate["id"].startswith("est_")
    assert estimate["mass"] == MASS["mass"]
    assert (estimate["quantity"], estimate["description"]) == ("1.105697", "Flight BER to LIS")
    assert (estimate["metadata"], estimate["idempotency_key"]) == ({"leg": 1}, "k")
    assert estimate["quote"]["estimate_id"] == estimate["id"]
    found = await api.get(f"/v1/estimates/{estimate['id']}")
    assert (found.status_code, found.content) == (200, answer.content)
    asked = await api.post("/v1/orders/by-estimate/quote", {"estimate_id": estimate["id"]})
    assert asked.json() == estimate["quote"]


async def test_every_field_is_present_when_optional_ones_are_omitted(api: ApiClient) -> None:
    estimate = (await api.post("/v1/estimates", MASS)).json()
    assert list(estimate) == FIELDS
    assert (estimate["description"], estimate["metadata"]) == (None, {})
    assert estimate["idempotency_key"]


async def test_the_mass_is_shown_as_it_was_sent(api: ApiClient) -> None:
    for amount in ("1.50", "0.000001", "100000000", "2", "0.50000000"):
        answer = await api.post("/v1/estimates", {"mass": {"amount": amount, "unit": "t"}})
        assert answer.json()["mass"] == {"amount": amount, "unit": "t"}


async def test_a_description_has_at_most_1000_characters(api: ApiClient, populated_db: Database) -> None:
    longest = "é" * 1000
    assert (await api.post("/v1/estimates", MASS | {"description": longest})).json()["description"] == longest
    before = await count_rows(populated_db)
    too_much: list[Any] = [longest + "x", 5, True, [], {}]
    for description in too_much:
        answer = await api.post("/v1/estimates", MASS | {"description": description})
        found = (answer.status_code, codes(answer), fields(answer))
        assert found == (400, ["validation_error"], ["description"]), description
    assert await count_rows(populated_db) == before


async def test_an_estimate_takes_no_selection(api: ApiClient, world: World) -> None:
    selection = [{"bundle_id": next(iter(world.bundles_test.values()))}]
    answer = await api.post("/v1/estimates", MASS | {"bundle_selection": selection})
    assert (answer.status_code, fields(answer)) == (400, ["bundle_selection"])


async def test_an_estimate_is_visible_to_its_account_only(api: ApiClient, world: World) -> None:
    estimate_id = await api.estimate()
    strangers = [await api.get(f"/v1/estimates/{estimate_id}", Service_Account=world.ours_test.client_account_id)]
    strangers += [
        await api.as_key(tenant.key).get(f"/v1/estimates/{estimate_id}")
        for tenant in (world.theirs_test, world.ours_live)
    ]
    for answer in strangers:
        assert (answer.status_code, codes(answer)) == (404, ["estimate_not_found"])


async def test_invalid_ids_return_404(api: ApiClient) -> None:
    for estimate_id in ("x", "est_" + "0" * 26, "%00", "%FF", "est_%F0%9F%8C%8D", "x" * 3000, "%2e%2e", "null"):
        answer = await api.get(f"/v1/estimates/{estimate_id}")
        assert (answer.status_code, codes(answer)) == (404, ["estimate_not_found"]), estimate_id
