"""What forms, options and columns learn from a wire struct."""

from enum import StrEnum
from typing import Annotated

import msgspec
import pytest
from msgspec import Meta

from tonne.platform.http.json_body import read_some, read_values
from tonne.platform.values.context import same_named
from tonne.platform.values.errors import Invalid
from tonne.platform.web.fields import described, fields_of

_TITLE = described("Headline.", label="Title")
_NOTE = described("Small print.", label="Note", hint="Below the form.", option="--remark")


class PageIn(msgspec.Struct, forbid_unknown_fields=True):
    title: Annotated[str, Meta(min_length=1, max_length=200), _TITLE]
    note: Annotated[str, Meta(max_length=20), _NOTE] | None = None
    is_open: bool = True


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class PageChange(msgspec.Struct):
    colour: Annotated[Colour | None, described("Of the page.", label="Colour", is_required=True)] = None
    is_open: Annotated[bool, described("Whether people see it.", label="Open")] | None = None
    tags: Annotated[list[Annotated[str, Meta(max_length=5)]] | None, described("Words.", label="Tags")] = None


class PageOut(msgspec.Struct):
    title: Annotated[str, _TITLE]
    note: Annotated[str | None, _NOTE]
    size: int = 0


def test_a_struct_describes_its_fields_once() -> None:
    title, note = fields_of(PageIn).values()
    assert (title.name, title.label, title.is_required, title.max_length) == ("title", "Title", True, 200)
    assert (note.name, note.description, note.is_required) == ("note", "Small print.", False)
    assert (note.hint, note.option, note.max_length) == ("Below the form.", "--remark", 20)
    assert note.in_sentence == "the note"
    assert fields_of(PageOut)["note"].label == "Note"
    assert msgspec.json.schema(PageOut)["$defs"]["PageOut"]["properties"]["title"] == {
        "type": "string",
        "description": "Headline.",
    }


def test_choices_flags_and_lists_are_known_by_their_types() -> None:
    colour, is_open, tags = fields_of(PageChange).values()
    assert (colour.choices, colour.is_required, colour.is_flag) == (("red", "blue"), True, False)
    assert (is_open.choices, is_open.is_flag, is_open.is_list) == ((), True, False)
    assert (tags.is_list, tags.is_flag, tags.choices) == (True, False, ())


def test_fields_of_the_same_name_are_copied() -> None:
    assert same_named(PageOut, PageIn("Fly", "Soon"), size=3) == PageOut("Fly", "Soon", 3)
    assert same_named(PageOut, PageIn("Fly", "Soon"), note=None) == PageOut("Fly", None)


def test_values_of_forms_are_validated_like_a_body() -> None:
    assert read_values({"title": "Fly", "note": None}, PageIn) == PageIn("Fly")
    for values, message in (
        ({"title": ""}, "title is not valid"),
        ({"note": "x"}, "title is required."),
        ({"title": "Fly", "note": "a\x00b"}, "NUL character"),
    ):
        with pytest.raises(Invalid, match=message):
            read_values(values, PageIn)


def test_a_change_has_only_the_given_members() -> None:
    assert read_some({"note": "Soon"}, PageIn) == {"note": "Soon"}
    assert read_some({"note": None, "is_open": None}, PageIn) == {"note": None, "is_open": True}
    with pytest.raises(Invalid) as refused:
        read_some({"title": None, "note": "x" * 21}, PageIn)
    assert [fault.field for fault in refused.value.faults] == ["title", "note"]
