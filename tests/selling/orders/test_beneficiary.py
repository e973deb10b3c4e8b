"""Orders may name their own beneficiary."""

import pytest

from tests.support.api_client import ApiClient, codes, fields

NAMED = {"mass": {"amount": "1", "unit": "t"}, "beneficiary": {"name": " Fjord Bakery AS "}}


async def test_money_8_the_body_names_the_beneficiary(api: ApiClient) -> None:
    own = await api.order()
    named = (await api.post("/v1/orders/by-mass", NAMED)).json()
    assert named["beneficiary"] == {"name": "Fjord Bakery AS"}
    assert own["beneficiary"]["name"] != "Fjord Bakery AS", "the account's, by default"
    by_value = await api.post(
        "/v1/orders/by-value", {"value": "25.00", "beneficiary": {"name": "Ærø Øl", "kind": "person"}}
    )
    assert (by_value.status_code, by_value.json()["beneficiary"]) == (201, {"name": "Ærø Øl"})
    by_estimate = await api.post(
        "/v1/orders/by-estimate", {"estimate_id": await api.estimate(), "beneficiary": {"name": "Ada"}}
    )
    assert by_estimate.json()["beneficiary"] == {"name": "Ada"}
    quote = await api.post("/v1/orders/by-mass/quote", NAMED)
    assert quote.status_code == 200


@pytest.mark.parametrize(
    ("beneficiary", "field"),
    [
        ({"name": ""}, "beneficiary.name"),
        ({"name": "   "}, "beneficiary.name"),
        ({"name": "a" * 201}, "beneficiary.name"),
        ({"name": "Ada\nBerta"}, "beneficiary.name"),
        ({"name": "Ada\u202eatreB"}, "beneficiary.name"),
        ({"name": 17}, "beneficiary.name"),
        ({"name": "Ada", "kind": "company"}, "beneficiary.kind"),
        ({"name": "Ada", "public": True}, "beneficiary.public"),
        ({}, "beneficiary.name"),
        ("Ada", "beneficiary"),
    ],
)
async def test_names_that_cannot_be_printed_are_refused(api: ApiClient, beneficiary: object, field: str) -> None:
    for path in ("/v1/orders/by-mass", "/v1/orders/by-mass/quote"):
        answer = await api.post(path, {"mass": {"amount": "1", "unit": "t"}, "beneficiary": beneficiary})
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], [field])


async def test_the_name_is_part_of_the_request_that_a_key_stands_for(api: ApiClient) -> None:
    first = await api.post("/v1/orders/by-mass", {**NAMED, "idempotency_key": "k"})
    other = await api.post(
        "/v1/orders/by-mass", {**NAMED, "beneficiary": {"name": "Another AS"}, "idempotency_key": "k"}
    )
    assert (other.status_code, other.headers["idempotency-mismatch"]) == (200, "true")
    assert other.json()["beneficiary"] == first.json()["beneficiary"]
