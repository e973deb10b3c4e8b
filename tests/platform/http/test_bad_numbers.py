"""Invalid numbers in orders are refused, never rounded."""

import pytest

from tests.platform.http.writes import count_rows
from tests.support.api_client import ApiClient, codes, fields
from tonne.platform.db.database import Database

FORTY_DIGITS = "1234567890" * 4
BY_MASS = ("/v1/orders/by-mass", "/v1/orders/by-mass/quote", "/v1/estimates")
BY_VALUE = ("/v1/orders/by-value", "/v1/orders/by-value/quote")
NOT_DECIMALS = ["-1", "1e999", "1e3", "1E3", "-0", FORTY_DIGITS, f"0.{FORTY_DIGITS}", "1" * 4301]


async def assert_refused(api: ApiClient, paths: tuple[str, ...], raw: str, field: str) -> None:
    for path in paths:
        answer = await api.post_raw(path, raw.encode())
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], [field]), (path, raw)


async def test_a_mass_that_is_not_a_plain_bounded_decimal_is_refused(api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for number in NOT_DECIMALS:
        for amount in (number, f'"{number}"'):
            await assert_refused(api, BY_MASS, f'{{"mass":{{"amount":{amount},"unit":"t"}}}}', "mass.amount")
    assert await count_rows(populated_db) == before


async def test_a_mass_in_any_other_spelling_or_of_another_type_is_refused(api: ApiClient) -> None:
    for spelling in ("", " 1", "1 ", "+1", "1,5", "1.", ".5", "٣", "１", "0x10", "1_000", "NaN", "Infinity", "1\\n"):
        await assert_refused(api, BY_MASS, f'{{"mass":{{"amount":"{spelling}","unit":"t"}}}}', "mass.amount")
    for value in ("true", "null", "[]", "{}", "[1]", '{"value":"1"}'):
        await assert_refused(api, BY_MASS, f'{{"mass":{{"amount":{value},"unit":"t"}}}}', "mass.amount")


async def test_an_unknown_unit_is_refused(api: ApiClient) -> None:
    for unit in ('"lb"', '"T"', '""', '"tonnes"', "1", "null", '["t"]', '{"t":"t"}'):
        await assert_refused(api, BY_MASS, f'{{"mass":{{"amount":"1","unit":{unit}}}}}', "mass.unit")


@pytest.mark.parametrize(
    ("amount", "unit"),
    [("0", "t"), ("0.0000009", "t"), ("0.9", "g"), ("100000000.000001", "t"), ("999999999999999", "t")],
)
async def test_a_mass_below_a_gram_or_above_the_maximum_is_refused(
    amount: str, unit: str, api: ApiClient, populated_db: Database
) -> None:
    before = await count_rows(populated_db)
    for path in BY_MASS:
        code = "estimate_mass_invalid" if path == "/v1/estimates" else "order_quantity_invalid"
        answer = await api.post(path, {"mass": {"amount": amount, "unit": unit}})
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], ["mass.amount"])
    assert await count_rows(populated_db) == before


async def test_a_value_that_is_not_a_plain_bounded_decimal_is_refused(api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for spelling in (*NOT_DECIMALS, "", "1,00", "EUR 5", "٣", "NaN", " 1", "1."):
        await assert_refused(api, BY_VALUE, f'{{"value":"{spelling}"}}', "value")
    assert await count_rows(populated_db) == before


async def test_a_value_must_be_a_string(api: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for value in ("100", "100.00", "1e2", "1e999", "-1", FORTY_DIGITS, "true", "{}", "[]", '["1"]'):
        await assert_refused(api, BY_VALUE, f'{{"value":{value}}}', "value")
    assert await count_rows(populated_db) == before


async def test_extreme_numbers_in_metadata_are_returned_as_they_were_sent(api: ApiClient) -> None:
    metadata = f'{{"a":1e999,"b":-{FORTY_DIGITS},"c":0.{FORTY_DIGITS},"d":-0.0,"e":1E-999}}'
    raw = f'{{"mass":{{"amount":"1","unit":"t"}},"idempotency_key":"absurd","metadata":{metadata}}}'
    answer = await api.post_raw("/v1/orders/by-mass", raw.encode())
    assert answer.status_code == 201, answer.text
    assert f'"metadata":{metadata},' in answer.text
    assert (await api.by_key("absurd")).content == answer.content
    assert metadata in (await api.get("/v1/orders")).text
