"""How people see a field of the API. The wire struct says it once: forms, messages, options and columns ask here.

The description is part of the field's `Meta`, beside the text for the API documentation:

    Meta(description="…", extra={FIELD: Field(label="Name on the button", hint="The button reads “Back to …”.")})
"""

import functools
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

FIELD = "field"


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """`fields_of` sets the last four from the struct."""

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
    name: str = ""
    description: str = ""
    is_required: bool = False
    max_length: int | None = None

    @property
    def in_sentence(self) -> str:
        return f"the {self.label[:1].lower()}{self.label[1:]}"


@functools.cache
def fields_of(struct: type[msgspec.Struct]) -> dict[str, Field]:
    """The described fields of a struct by name, in their order."""
    hints, found = get_type_hints(struct, include_extras=True), {}
    for member in msgspec.structs.fields(struct):
        metas = list(_metas(hints[member.name]))
        lengths = [meta.max_length for meta in metas if meta.max_length is not None]
        for meta in metas:
            field: Field | None = (meta.extra or {}).get(FIELD)
            if field is not None:
                found[member.name] = msgspec.structs.replace(
                    field,
                    name=member.name,
                    description=meta.description,
                    is_required=member.required,
                    max_length=lengths[0] if lengths else None,
                )
    return found


def _metas(hint: Any) -> Iterator[msgspec.Meta]:
    """Of `Annotated[str, …]`, `Annotated[str, …] | None` and `Annotated[str | None, …]`."""
    if get_origin(hint) is Annotated:
        yield from (extra for extra in get_args(hint)[1:] if isinstance(extra, msgspec.Meta))
    for part in get_args(hint):
        yield from _metas(part)
