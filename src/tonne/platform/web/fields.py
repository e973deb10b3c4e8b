"""How people see a field of the API. The wire struct says it once: forms, messages, options and columns ask here.

A wire struct annotates the type of a field with what `described` returns:

    described("…", label="Name on the button", hint="The button reads “Back to …”.")
"""

import functools
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

_FIELD = "field"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """`fields_of` sets those after `input` from the struct."""

    # In forms, and in messages after "the": "Name on the button".
    label: str
    # Below the input of a form.
    hint: str = ""
    # The part of the form that shows the field without further markup; none: the template has its own.
    section: str = ""
    # The option of the command line, if not the name with dashes. Empty: none, or the command declares it itself.
    option: str | None = None
    # The heading in tables of the command line, if not the name with spaces.
    column: str | None = None
    # Whether a form must have a value. Set it for the fields of a change, none of which is required by its struct.
    is_required: bool = False
    # The type of the input in a form.
    input: str = "text"
    name: str = ""
    description: str = ""
    max_length: int | None = None
    # The values of an enum.
    choices: tuple[str, ...] = ()
    is_flag: bool = False
    is_number: bool = False
    is_list: bool = False

    @property
    def in_sentence(self) -> str:
        return f"the {self.label[:1].lower()}{self.label[1:]}"


def described(description: str, *, example: object = None, **shown: Any) -> msgspec.Meta:
    """The text and the example of the API documentation, and what a `Field` says."""
    examples = None if example is None else [example]
    return msgspec.Meta(description=description, examples=examples, extra={_FIELD: Field(**shown)})


@functools.cache
def fields_of(struct: type[msgspec.Struct]) -> dict[str, Field]:
    """The described fields of a struct by name, in their order."""
    hints, found = get_type_hints(struct, include_extras=True), {}
    for member in msgspec.structs.fields(struct):
        metas = list(_metas(hints[member.name]))
        lengths = [meta.max_length for meta in metas if meta.max_length is not None]
        types = list(_types(hints[member.name]))
        for meta in metas:
            field: Field | None = (meta.extra or {}).get(_FIELD)
            if field is not None:
                found[member.name] = msgspec.structs.replace(
                    field,
                    name=member.name,
                    description=meta.description,
                    is_required=member.required or field.is_required,
                    max_length=lengths[0] if lengths else None,
                    choices=tuple(each.value for kind in types if issubclass(kind, StrEnum) for each in kind),
                    is_flag=bool in types,
                    is_number=int in types,
                    is_list=list in types,
                )
    return found


def _metas(hint: Any) -> Iterator[msgspec.Meta]:
    """Of `Annotated[str, …]`, `Annotated[str, …] | None` and `Annotated[str | None, …]`."""
    if get_origin(hint) is Annotated:
        yield from (extra for extra in get_args(hint)[1:] if isinstance(extra, msgspec.Meta))
    for part in get_args(hint):
        yield from _metas(part)


def _types(hint: Any) -> Iterator[type]:
    """Of the value itself, not of the members of a list."""
    if isinstance(hint, type):
        yield hint
    elif get_origin(hint) is list:
        yield list
    else:
        for part in get_args(hint)[:1] if get_origin(hint) is Annotated else get_args(hint):
            yield from _types(part)
