"""Metadata comes back exactly as it was sent, from every address and in every event."""

from typing import Any

import pytest

from tests.platform.http.writes import CREATES, count_rows, valid_bodies
from tests.support.api_client import ApiClient, codes, fields
from tests.support.events import stored_events
from tonne.platform.db.database import Database

SPELLINGS = {
    "empty": "{}",
    "key_order": '{"z":1,"a":2,"m":3}',
    "number_spelling": '{"a":1.10,"b":1e3,"c":1E+3,"d":0.0,"e":-0,"f":100}',
    "big_integers": '{"a":123456789012345678901234567890,"b":-99999999999999999999}',
    "many_decimals": '{"a":0.1000000000000000055511151231257827}',
    "unicode_escapes": '{"a":"\\u00e9\\u4e2d","\\u0062":"\\ud83c\\udf0d","c":"\\/\\b"}',
    "unicode": '{"ключ":"值","a":"é","b":"🌍"}',
    "nested": '{"a":{"b":[1,[2,{"c":null}],true,false,"x"]},"d":[]}',
    "white_space": '{ "a" :\t1 ,\n  "b":[ 1, 2 ] }',
    "empty_key": '{"":""}',
    "looks_like_ours": '{"id":"ord_x","status":"paid","metadata":{"error":{}}}',
    "markup": '{"a":"<script>alert(1)</script>","b":"=1+1","c":"{{7*7}}"}',
    "quotes": '{"a":"\\"}],\\\\"}',
    "separators": '{"a":"\u2028\u2029"}',
}


@pytest.mark.parametrize("name", SPELLINGS)
async def test_metadata_is_returned_unchanged(name: str, api: ApiClient, populated_db: Database) -> None:
    metadata = SPELLINGS[name]
    raw = f'{{"metadata":{metadata},"mass":{{"amount":"1","unit":"t"}},"idempotency_key":"k"}}'.encode()
    requested = f'"metadata":{metadata},'.encode()
    answer = await api.post_raw("/v1/orders/by-mass", raw)
    assert answer.status_code == 201, answer.text
    assert requested in answer.content
    order_id = answer.json()["id"]
    for found in (
        await api.get(f"/v1/orders/{order_id}"),
        await api.by_key("k"),
        await api.get("/v1/orders"),
        await api.post_raw("/v1/orders/by-mass", raw),
    ):
        assert found.status_code == 200
        assert requested in found.content
    estimate = await api.post_raw("/v1/estimates", raw)
    assert requested in estimate.content
    assert requested in (await api.get(f"/v1/estimates/{estimate.json()['id']}")).content
    async with populated_db.connection() as connection:
        payloads = [event.payload for event in await stored_events(connection)]
    assert len(payloads) == 2
    assert all(requested in payload for payload in payloads)


async def test_left_out_or_null_metadata_is_an_empty_object(api: ApiClient) -> None:
    assert (await api.order())["metadata"] == {}
    assert (await api.order(metadata=None))["metadata"] == {}


async def test_fifty_keys_are_accepted_and_one_more_is_refused(api: ApiClient, populated_db: Database) -> None:
    fifty: dict[str, Any] = {f"key {i}": {"inner": list(range(60))} for i in range(50)}
    assert (await api.order(metadata=fifty))["metadata"] == fifty
    await assert_refused(api, populated_db, fifty | {"one more": 1})


async def test_metadata_of_16_kib_is_accepted_and_one_byte_more_is_refused(
    api: ApiClient, populated_db: Database
) -> None:
    full = {"a": "é" * ((16 * 1024 - len('{"a":""}')) // 2)}
    assert (await api.order(metadata=full))["metadata"] == full
    await assert_refused(api, populated_db, {"a": full["a"] + "b"})


@pytest.mark.parametrize("dense", [[1] * 8_000, "," * 16_000])
async def test_metadata_of_16_kib_may_consist_of_anything(dense: Any, api: ApiClient) -> None:
    """The limits of what a body may cost leave room for it."""
    assert (await api.order(metadata={"a": dense}))["metadata"] == {"a": dense}


async def test_metadata_that_is_no_object_is_refused(api: ApiClient, populated_db: Database) -> None:
    for value in ([], ["a"], "text", 1, True, [["a", 1]]):
        await assert_refused(api, populated_db, value)


async def assert_refused(api: ApiClient, database: Database, metadata: Any) -> None:
    bodies = await valid_bodies(api)
    before = await count_rows(database)
    for path in CREATES:
        answer = await api.post(path, bodies[path] | {"metadata": metadata})
        found = (answer.status_code, codes(answer), fields(answer))
        assert found == (400, ["validation_error"], ["metadata"]), path
    assert await count_rows(database) == before
