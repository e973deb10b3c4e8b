"""The mistakes of a first integration: the message says what to do next."""

import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.world import open_tenant
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode


async def test_people_c_a_missing_authorization_header_is_named(api: ApiClient) -> None:
    answer = await api.http.get("/v1/orders")
    assert (answer.status_code, codes(answer)) == (401, ["unauthorised"])
    assert answer.json()["error"]["message"].startswith("There is no Authorization header.")
    wrong = await api.http.get("/v1/orders", headers={"Authorization": "Basic eA=="})
    assert "There is no" not in wrong.json()["error"]["message"]


async def test_people_c_post_to_orders_names_the_ways_to_order(api: ApiClient) -> None:
    answer = await api.post("/v1/orders", {})
    assert (answer.status_code, codes(answer)) == (405, ["method_not_allowed"])
    paths = "/v1/orders/by-estimate, /v1/orders/by-mass, /v1/orders/by-value, /v1/orders/batch"
    assert answer.json()["error"]["message"] == f"This path does not support POST. Use POST with {paths}."
    # Without a path below that supports the method, the header has to do.
    other = await api.http.request("DELETE", "/v1/orders", headers=api._headers({}))
    assert "The Allow header lists" in other.json()["error"]["message"]


@pytest.mark.parametrize(
    ("currency", "value", "beginning"),
    [
        ("EUR", "10.555", "EUR has 2 decimals."),
        ("JPY", "10.5", "JPY has no decimals."),
        ("KWD", "10.5555", "KWD has 3 decimals."),
        ("EUR", "0", "The value must be above zero."),
    ],
)
async def test_people_c_the_decimals_of_the_currency_are_named(
    services: Services, api: ApiClient, currency: str, value: str, beginning: str
) -> None:
    async with services.database.transaction() as tx:
        organisation_id = await tx.fetchval("SELECT organisation_id FROM accounts LIMIT 1")
        tenant = await open_tenant(tx, organisation_id, Mode.TEST, currency)
    for path in ("/v1/orders/by-value", "/v1/orders/by-value/quote"):
        answer = await api.as_key(tenant.key).post(path, {"value": value})
        assert (answer.status_code, codes(answer)) == (400, ["order_value_invalid"])
        assert answer.json()["error"]["message"].startswith(beginning)


async def test_an_unknown_query_parameter_is_answered_with_the_known_ones(api: ApiClient) -> None:
    answer = await api.get("/v1/orders?colour=paid")
    assert (answer.status_code, codes(answer)) == (400, ["validation_error"])
    message = answer.json()["error"]["message"]
    assert message.startswith("Unknown query parameter colour. Remove it: this path knows ")
    assert "limit" in message
    assert "offset_link_id" in message
    misspelt = await api.get("/v1/orders?limt=1")
    assert misspelt.json()["error"]["message"] == "Unknown query parameter limt. Did you mean limit?"
    none = await api.get("/v1/account?limit=1")
    assert none.json()["error"]["message"] == "Unknown query parameter limit. Remove it."
