"""Where a part gets its connections: a pool, or the one connection of a command."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from tonne.platform.db.database import Connection


class Connections(Protocol):
    def connection(self) -> AbstractAsyncContextManager[Connection]: ...

    def transaction(self) -> AbstractAsyncContextManager[Connection]: ...


class HeldConnection:
    """The connection of a command, possibly inside its transaction. For one task at a time."""

    def __init__(self, connection: Connection) -> None:
        self._held = connection

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        yield self._held

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self._held.transaction():
            yield self._held
