"""The paginated envelope, and the two parameters that every list takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import msgspec

from tonne.base.paging import (
    DEFAULT_LIMIT,
    MAX_LIMIT,
    CursorInvalid,
    LimitInvalid,
    Position,
    make_cursor,
    parse_cursor,
    parse_limit,
)
from tonne.http.route import Parameter, Request, Response, json_response

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


@dataclass(frozen=True, slots=True)
class ListPage:
    """The page that a request asks for. Read `limit + 1` items after `start`: the extra one shows that more follow."""

    list_name: str
    limit: int
    start: Position

    @classmethod
    def of(cls, request: Request, list_name: str) -> "ListPage":
        """`list_name` identifies the list and its filters: the cursor of another list is refused."""
        limit, after = request.query("limit", "after")
        return cls(list_name, parse_limit(limit), parse_cursor(after, list_name))

    def response(self, data: Sequence[T], positions: Sequence[Position]) -> Response:
        """`data` is what the page shows; `positions` are those of all items that were read."""
        more = len(positions) > self.limit
        cursor = make_cursor(positions[self.limit - 1], self.list_name) if more else None
        return json_response(ListOut(more, cursor, list(data)))
