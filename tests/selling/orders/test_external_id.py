"""The client's own names of an order: fields of their own, while metadata stays exactly as it was sent."""

import json
from urllib.parse import urlencode

import pytest

from tests.support.api_client import ApiClient

BODY = {"mass": {"amount": "1", "unit": "t"}}
RAW = '{"mass":{"amount":"1","unit":"t"},"metadata":{"external_id":1e2, "reference":"PO 1" ,"b":{"a":[]}}}'


async def test_they_are_stored_returned_and_found(api: ApiClient) -> None:
    placed = await api.post("/v1/orders/by-mass", {**BODY, "external_id": "A-1/ü", "reference": " PO 20817 "})
    order = placed.json()
    assert (order["external_id"], order["external_id_verified"], order["reference"]) == ("A-1/ü", True, "PO 20817")
    assert order["metadata"] == {}
    other = (await api.post("/v1/orders/by-mass", {**BODY, "reference": "PO 20818"})).json()
    assert "external_id" not in other
    assert "external_id_verified" not in other
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == order
    for query, expected in (
        ({"external_id": "A-1/ü"}, [order["id"]]),
        ({"reference": "PO 20818"}, [other["id"]]),
        ({"external_id": "A-1/ü", "reference": "PO 20818"}, []),
        ({"external_id": "A-1"}, []),
        ({"external_id": "A-1/ü", "status": "cancelled"}, []),
    ):
        listed = (await api.get(f"/v1/orders?{urlencode(query)}")).json()
        assert [each["id"] for each in listed["data"]] == expected, query


async def test_several_orders_may_have_the_same_one(api: ApiClient) -> None:
    ids = [(await api.post("/v1/orders/by-mass", {**BODY, "external_id": "A-1"})).json()["id"] for _ in range(3)]
    page = (await api.get("/v1/orders?external_id=A-1&limit=2")).json()
    rest = (await api.get(f"/v1/orders?external_id=A-1&after={page['next_cursor']}")).json()
    assert {each["id"] for each in page["data"] + rest["data"]} == set(ids)


async def test_metadata_of_these_names_mean_nothing(api: ApiClient) -> None:
    placed = await api.post_raw("/v1/orders/by-mass", RAW.encode())
    assert placed.status_code == 201, placed.text
    assert '"metadata":{"external_id":1e2, "reference":"PO 1" ,"b":{"a":[]}}' in placed.text, "byte for byte"
    assert not {"external_id", "external_id_verified", "reference"} & set(json.loads(placed.text))


@pytest.mark.parametrize(
    "fault",
    [{"external_id": ""}, {"external_id": "x" * 256}, {"external_id": 5}, {"reference": "a\nb"}, {"reference": " "}],
)
async def test_faults_name_the_field(api: ApiClient, fault: dict[str, object]) -> None:
    refused = await api.post("/v1/orders/by-mass", {**BODY, **fault})
    assert refused.status_code == 400
    assert refused.json()["errors"][0]["field"] == next(iter(fault))
