"""Lists: the service returns them page by page; iterating fetches the pages as they are needed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tonne_client.attempts import OMIT
from tonne_client.base_model import converter

T = TypeVar("T")
# The most that the service allows: fewer requests.
PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page. `next_cursor` is the `after` of the next one; None at the end."""

    data: list[T]
    has_more: bool
    next_cursor: str | None


class _Query:
    """The parameters of a list without those of pagination."""

    def __init__(self, item: Any, query: dict[str, Any]) -> None:
        self._convert = converter(item)
        self._query = {**query, "limit": PAGE_SIZE} if query.get("limit", OMIT) is OMIT else query

    def _at(self, cursor: str | None) -> dict[str, Any]:
        return self._query if cursor is None else {**self._query, "after": cursor}

    def _page(self, json: dict[str, Any]) -> Page[Any]:
        data = [self._convert(item) for item in json["data"]]
        return Page(data, json["has_more"], json["next_cursor"])


class Pages(_Query, Generic[T]):
    """A list of the API: `for order in client.orders.list()` walks all pages. Each iteration starts anew."""

    def __init__(self, fetch: Callable[..., Any], item: Any, query: dict[str, Any]) -> None:
        super().__init__(item, query)
        self._fetch = fetch

    def page(self, cursor: str | None = None) -> Page[T]:
        """The first page, or the one at this cursor: one request."""
        return self._page(self._fetch(query=self._at(cursor)))

    def __iter__(self) -> Iterator[T]:
        page = self.page()
        yield from page.data
        while page.has_more:
            page = self.page(page.next_cursor)
            yield from page.data


class AsyncPages(_Query, Generic[T]):
    """A list of the API: `async for order in client.orders.list()` walks all pages. Each iteration starts anew."""

    def __init__(self, fetch: Callable[..., Awaitable[Any]], item: Any, query: dict[str, Any]) -> None:
        super().__init__(item, query)
        self._fetch = fetch

    async def page(self, cursor: str | None = None) -> Page[T]:
        """The first page, or the one at this cursor: one request."""
        return self._page(await self._fetch(query=self._at(cursor)))

    async def __aiter__(self) -> AsyncIterator[T]:
        page = await self.page()
        for item in page.data:
            yield item
        while page.has_more:
            page = await self.page(page.next_cursor)
            for item in page.data:
                yield item
