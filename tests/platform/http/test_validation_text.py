"""Errors of single values say what is expected in words for clients, not in those of Python."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from tonne.platform.http.json_body import decode_json, read
from tonne.platform.values.errors import Invalid


class Body(msgspec.Struct):
    country: Annotated[Annotated[str, Meta(pattern="^[A-Z]{3}$")] | None, Meta(examples=[None, "DEU"])] = None
    code: Annotated[str, Meta(pattern="^[0-9]{4}$")] | None = None
    name: Annotated[str, Meta(min_length=1, max_length=20)] | None = None
    count: Annotated[int, Meta(ge=1, le=50)] | None = None
    live: bool | None = None
    tags: Annotated[list[str], Meta(max_length=2)] | None = None


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("country", "de", "expected a string such as DEU, that matches ^[A-Z]{3}$"),
        ("code", "de", "expected a string that matches ^[0-9]{4}$"),
        ("country", 5, "expected a string, not a whole number"),
        ("name", "", "expected at least 1 character"),
        ("name", "x" * 21, "expected at most 20 characters"),
        ("name", ["x"], "expected a string, not an array"),
        ("count", 0, "expected a number of at least 1"),
        ("count", 51, "expected a number of at most 50"),
        ("count", 1.5, "expected a whole number, not a number with decimals"),
        ("live", "yes", "expected true or false, not a string"),
    ],
)
def test_a_value_that_is_not_valid(member: str, value: Any, words: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(decode_json(msgspec.json.encode({member: value})), Body)
    assert [fault.message for fault in refused.value.faults] == [f"{member} is not valid: {words}."]


def test_the_items_of_a_list_are_named() -> None:
    with pytest.raises(Invalid) as refused:
        read(decode_json(b'{"tags": ["a", 1]}'), Body)
    assert [fault.message for fault in refused.value.faults] == [
        "tags[1] is not valid: expected a string, not a whole number."
    ]
