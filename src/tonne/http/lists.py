"""The paginated envelope, and the two parameters that every list takes."""

from typing import Annotated, Generic, TypeVar

import msgspec

from tonne.base.paging import DEFAULT_LIMIT, MAX_LIMIT, CursorInvalid, LimitInvalid
from tonne.http.route import Parameter

T = TypeVar("T")

LIST_PARAMETERS = (
    Parameter(
        "limit",
        f"How many items at most, 1 to {MAX_LIMIT}.",
        {"type": "string", "pattern": "^[0-9]+$", "default": str(DEFAULT_LIMIT)},
    ),
    Parameter("after", "The `next_cursor` of the page before. Leave it out for the first page.", {"type": "string"}),
)
LIST_ERRORS = (LimitInvalid, CursorInvalid)


class ListOut(msgspec.Struct, Generic[T]):
    has_more: bool
    next_cursor: Annotated[
        str | None, msgspec.Meta(description="Pass it as `after` for the next page. Null when has_more is false.")
    ]
    data: list[T]
