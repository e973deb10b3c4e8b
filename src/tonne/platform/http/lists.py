"""Paginated lists: their two query parameters, the selection of the page, and the envelope."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from tonne.platform.http.route import Parameter, Request, Response, json_response
from tonne.platform.values import paging

T = TypeVar("T")

LIST_PARAMETERS = (
    Parameter(
        "limit",
        f"How many items at most, 1 to {paging.MAX_LIMIT}.",
        {"type": "string", "pattern": "^[0-9]+$", "default": str(paging.DEFAULT_LIMIT)},
    ),
    Parameter("after", "The `next_cursor` of the page before. Leave it out for the first page.", {"type": "string"}),
)
LIST_ERRORS = (paging.LimitInvalid, paging.CursorInvalid)


class ListOut(msgspec.Struct, Generic[T]):
    has_more: Annotated[bool, msgspec.Meta(description="Whether there is a next page.")]
    next_cursor: Annotated[
        str | None,
        msgspec.Meta(
            description="`after` of the next page. Null if there is none.",
            examples=["Tr9iVbG8AAABmoWpQHtvcmRfMDZndHY2N3BqZ2RzZzUwcWpuZmZndTVmaW8"],
        ),
    ]
    data: Annotated[list[T], msgspec.Meta(description="The items of this page.")]


def _position(item: Any) -> paging.Position:
    return paging.Position(item.created_at, item.id)


class Paging(msgspec.Struct, frozen=True):
    """The page that a request asks for. `list_name` binds its cursors to one account and filter."""

    limit: int
    start: paging.Position
    list_name: str

    @classmethod
    def of(cls, request: Request, list_name: str) -> "Paging":
        limit, after = request.query("limit", "after")
        return cls(paging.parse_limit(limit), paging.parse_cursor(after, list_name), list_name)

    @property
    def fetch(self) -> int:
        """How many rows to read: one more than the page shows if another page follows."""
        return self.limit + 1

    def cut(
        self, found: Sequence[T], position: Callable[[T], paging.Position] = _position
    ) -> tuple[Sequence[T], str | None]:
        """The page, and the cursor of the next page if there is one."""
        page = found[: self.limit]
        return page, self.cursor(position(page[-1])) if len(found) > self.limit else None

    def cursor(self, last: paging.Position) -> str:
        return paging.make_cursor(last, self.list_name)


def list_response(page: list[Any], next_cursor: str | None) -> Response:
    return json_response(ListOut(next_cursor is not None, next_cursor, page))


def raw_list_response(items: bytes | memoryview, next_cursor: str | None) -> Response:
    """`items` are JSON documents joined by commas: stored documents are copied, not parsed."""
    more = b"false" if next_cursor is None else b"true"
    cursor = b"null" if next_cursor is None else b'"%b"' % next_cursor.encode()
    return Response(b"".join((b'{"has_more":%b,"next_cursor":%b,"data":[' % (more, cursor), items, b"]}")))
