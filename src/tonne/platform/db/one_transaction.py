"""All that one task writes in one transaction, however many transactions its functions begin.

For a caller that has to write something together with what they write, and knows only afterwards what that is.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from contextvars import ContextVar, Token
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

import asyncpg

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

_CURRENT: ContextVar["OneTransaction | None"] = ContextVar("one_transaction", default=None)


class Pool(Protocol):
    """`Database`, which needs this module."""

    def connection(self) -> AbstractAsyncContextManager[Connection]: ...


class OneTransaction:
    """Begins with the first transaction of the task, and ends with this context; those of the task are savepoints.

    Not before: what the task does until then, such as resolving a host name, must not hold a connection. Tasks that the
    task starts have transactions of their own, because a connection runs one statement at a time.
    """

    def __init__(self, database: Pool, first: Callable[[Connection], Awaitable[None]]) -> None:
        """`first` is called as soon as the transaction has begun, before the task writes anything."""
        self._database = database
        self._first = first
        self._task = asyncio.current_task()
        self._stack = AsyncExitStack()
        self._token: Token[OneTransaction | None] | None = None
        # None until the transaction has begun.
        self.connection: Connection | None = None

    async def __aenter__(self) -> Self:
        self._token = _CURRENT.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        await self._stack.__aexit__(kind, error, traceback)

    def is_of(self, database: Pool) -> bool:
        return self._database is database and self._task is asyncio.current_task()

    async def begin(self) -> None:
        """Does nothing if it has begun."""
        if self.connection is None:
            connection = await self._stack.enter_async_context(self._database.connection())
            await self._stack.enter_async_context(connection.transaction())
            self.connection = connection
            await self._first(connection)


def one_transaction_of(database: Pool) -> OneTransaction | None:
    """The one that the current task is in."""
    one = _CURRENT.get()
    return one if one is not None and one.is_of(database) else None
