"""Invalid JSON bodies are refused, and nothing is written."""

import json
from typing import Any

import pytest

from tests.platform.http.writes import WRITES, count_rows, valid_bodies
from tests.support.api_client import ApiClient, codes, fields
from tests.support.world import World
from tonne.platform.db.database import Database

NOT_JSON = {
    "nothing": b"",
    "only_space": b" \n",
    "cut_off": b'{"mass": {"amount": "1", "unit": "t"',
    "trailing_comma": b'{"value": "1",}',
    "single_quotes": b"{'value': '1'}",
    "unquoted_key": b'{value: "1"}',
    "comment": b'{"value": "1"} // please',
    "two_documents": b'{"value": "1"} {"value": "2"}',
    "byte_order_mark": b'\xef\xbb\xbf{"value": "1"}',
    "utf_16": '{"value": "1"}'.encode("utf-16"),
    "latin_1": '{"value": "é"}'.encode("latin-1"),
    "nan": b'{"value": NaN}',
    "infinity": b'{"value": Infinity}',
    "minus_infinity": b'{"metadata": {"a": -Infinity}}',
    "leading_zero": b'{"value": 01}',
    "leading_plus": b'{"value": +1}',
    "bare_point": b'{"value": .5}',
    "hexadecimal": b'{"value": 0x10}',
    "arabic_digits": '{"value": ٣}'.encode(),
    "raw_nul_in_string": b'{"value": "1\x00"}',
    "raw_nul_between": b'{"value":\x00 "1"}',
    "raw_newline_in_string": b'{"value": "1\n"}',
    "raw_surrogate_in_string": b'{"value": "\xed\xa0\x80"}',
    "overlong_utf_8": b'{"value": "\xc0\x80"}',
    "a_number": b"1",
    "a_string": b'"order please"',
    "an_array": b'[{"value": "1"}]',
    "null": b"null",
    "a_form": b"value=1",
}


@pytest.mark.parametrize("path", WRITES)
async def test_a_body_that_is_not_a_json_object_is_refused(path: str, api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for name, raw in NOT_JSON.items():
        answer = await api.post_raw(path, raw)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], [None]), name
    assert await count_rows(populated_db) == before


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 10_000 + b"]" * 10_000,
        b"[" * 10_000,
        b'{"metadata":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
        b'{"metadata":' + b"[" * 32 + b"]" * 32 + b"}",
        b'{"metadata":' + b"[" * 31 + b"1" + b"]" * 31 + b"}",
    ],
    ids=["arrays", "unclosed_arrays", "arrays_in_metadata", "objects", "one_level_too_many", "a_number_too_deep"],
)
async def test_very_deep_nesting_is_refused(raw: bytes, api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for path in WRITES:
        answer = await api.post_raw(path, raw)
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), path
    assert await count_rows(populated_db) == before


async def test_nesting_up_to_the_limit_is_accepted(api: ApiClient) -> None:
    nested = "[" * 30 + "]" * 30
    raw = f'{{"mass":{{"amount":"1","unit":"t"}},"metadata":{{"a":{nested}}}}}'.encode()
    answer = await api.post_raw("/v1/orders/by-mass", raw)
    assert answer.status_code == 201, answer.text
    assert f'"metadata":{{"a":{nested}}}' in answer.text


async def test_a_duplicate_key_is_refused_in_every_object(api: ApiClient, populated_db: Database) -> None:
    bodies = await valid_bodies(api)
    before = await count_rows(populated_db)
    for path in WRITES:
        text = json.dumps(bodies[path])[1:-1]
        for raw in (
            f"{{{text}, {text}}}",
            f'{{{text}, "metadata": {{}}, "metadata": {{}}}}',
            f'{{{text}, "metadata": {{"a": 1, "a": 2}}}}',
            f'{{{text}, "metadata": {{"deep": [{{"a": 1, "\\u0061": 1}}]}}}}',
            f'{{{text}, "idempotency_key": "a", "idempotency_key": "b"}}',
        ):
            answer = await api.post_raw(path, raw.encode())
            assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), raw
            assert "twice" in answer.json()["error"]["message"]
    assert await count_rows(populated_db) == before


UNSAFE = {
    "nul": "\\u0000",
    "nul_amid_text": "a\\u0000b",
    "high_surrogate": "\\ud800",
    "low_surrogate": "\\udfff",
    "surrogates_in_the_wrong_order": "\\ude00\\ud83d",
}


@pytest.mark.parametrize("name", UNSAFE)
async def test_nul_and_lone_surrogates_are_refused_in_every_string(
    name: str, api: ApiClient, world: World, populated_db: Database
) -> None:
    bodies = await valid_bodies(api)
    bundle_id = next(iter(world.bundles_test.values()))
    before = await count_rows(populated_db)
    for path in WRITES:
        for place in _string_places(bodies[path], bundle_id):
            raw = json.dumps(place).replace("CANARY", UNSAFE[name]).encode()
            answer = await api.post_raw(path, raw)
            assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), raw
    assert await count_rows(populated_db) == before


def _string_places(body: dict[str, Any], bundle_id: str) -> list[dict[str, Any]]:
    """One body for every string and key in `body`, with CANARY in its place."""
    places: list[dict[str, Any]] = [
        body | {"idempotency_key": "CANARY"},
        body | {"metadata": {"CANARY": 1}},
        body | {"metadata": {"a": "CANARY"}},
        body | {"metadata": {"a": [{"b": ["CANARY"]}]}},
        body | {"metadata": {"a": [{"CANARY": 1}]}},
        body | {"bundle_selection": [{"bundle_id": "CANARY"}]},
        body | {"bundle_selection": [{"bundle_id": bundle_id, "percentage": "CANARY"}]},
        body | {"description": "CANARY"},
        body | {"CANARY": 1},
    ]
    for name, value in body.items():
        if isinstance(value, dict):
            places += [body | {name: value | {inner: "CANARY"}} for inner in value]
        else:
            places.append(body | {name: "CANARY"})
    return places


async def test_a_pair_of_surrogates_is_accepted_as_one_character(api: ApiClient) -> None:
    raw = rb'{"mass":{"amount":"1","unit":"t"},"idempotency_key":"\ud83c\udf0d","metadata":{"a":"\ud83c\udf0d"}}'
    answer = await api.post_raw("/v1/orders/by-mass", raw)
    assert answer.status_code == 201, answer.text
    assert answer.json()["idempotency_key"] == "🌍"
    assert rb'{"a":"\ud83c\udf0d"}' in answer.content


async def test_unknown_missing_and_ill_typed_fields_are_each_named(api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    body = {
        "mass": {"amount": True, "unit": "lb", "colour": "green"},
        "idempotency_key": 5,
        "bundle_selection": [{"percentage": 50}, "forest", {"bundle_id": 7}],
        "metadata": ["a"],
        "notes": "",
    }
    for path in ("/v1/orders/by-mass", "/v1/orders/by-mass/quote"):
        answer = await api.post(path, body)
        assert answer.status_code == 400
        assert set(codes(answer)) == {"validation_error"}
        assert sorted(str(field) for field in fields(answer)) == [
            "bundle_selection[0].bundle_id",
            "bundle_selection[1]",
            "bundle_selection[2].bundle_id",
            "idempotency_key",
            "mass.amount",
            "mass.colour",
            "mass.unit",
            "metadata",
            "notes",
        ]
    assert await count_rows(populated_db) == before


async def test_a_field_in_another_spelling_is_recognised(api: ApiClient) -> None:
    answer = await api.post("/v1/orders/by-mass", {"Mass": {}, "idempotencyKey": "k", "bundle-selection": [], "x": 1})
    messages = [fault["message"] for fault in answer.json()["errors"]]
    assert messages[:4] == [
        "Unknown field Mass. Did you mean mass?",
        "Unknown field idempotencyKey. Did you mean idempotency_key?",
        "Unknown field bundle-selection. Did you mean bundle_selection?",
        "Unknown field x. Remove it.",
    ]


async def test_a_required_field_that_is_missing_or_null_is_refused(api: ApiClient) -> None:
    for path, required in {
        "/v1/orders/by-estimate": "estimate_id",
        "/v1/orders/by-mass": "mass",
        "/v1/orders/by-value": "value",
        "/v1/estimates": "mass",
    }.items():
        for body in ({}, {required: None}):
            answer = await api.post(path, body)
            assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], [required])
    answer = await api.post("/v1/orders/by-mass", {"mass": {}})
    assert fields(answer) == ["mass.amount", "mass.unit"]


async def test_null_for_an_optional_field_is_the_same_as_omitting_it(api: ApiClient) -> None:
    bodies = await valid_bodies(api)
    for path in WRITES:
        optional = ["idempotency_key", "metadata"]
        optional.append("description" if path == "/v1/estimates" else "bundle_selection")
        answer = await api.post(path, bodies[path] | dict.fromkeys(optional))
        assert answer.status_code in {200, 201}, answer.text


async def test_a_body_without_the_media_type_of_json_is_refused(api: ApiClient, populated_db: Database) -> None:
    bodies = await valid_bodies(api)
    before = await count_rows(populated_db)
    for called in ("text/plain", "application/x-www-form-urlencoded", "application/json-patch+json", "json", ""):
        for path in WRITES:
            answer = await api.post_raw(path, json.dumps(bodies[path]).encode(), called)
            assert (answer.status_code, codes(answer)) == (415, ["media_type_invalid"]), (called, path)
    assert await count_rows(populated_db) == before


async def test_the_media_type_of_json_is_case_insensitive_and_may_have_parameters(api: ApiClient) -> None:
    body = b'{"mass":{"amount":"1","unit":"t"}}'
    for called in ("application/json; charset=utf-8", "Application/JSON", "application/json ;a=b"):
        assert (await api.post_raw("/v1/orders/by-mass", body, called)).status_code == 201, called


async def test_a_body_above_256_kib_is_refused_and_one_of_that_size_is_read(
    api: ApiClient, populated_db: Database
) -> None:
    before = await count_rows(populated_db)
    for path in WRITES:
        answer = await api.post_raw(path, b" " * (256 * 1024 + 1))
        assert (answer.status_code, codes(answer)) == (413, ["body_too_large"]), path
        assert (await api.post_raw(path, b" " * (256 * 1024))).status_code == 400
    assert await count_rows(populated_db) == before
