"""What pages of the dashboard work with."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.layout import PageLayout
from tonne.apps.dashboard.viewer import existing
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.notification import Notifier
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock

P = ParamSpec("P")
T = TypeVar("T")


class DashboardPage(Struct, frozen=True):
    """A page adds what only it needs."""

    database: Database
    layout: PageLayout
    clock: Clock
    settings: Settings
    notifier: Notifier

    async def find(
        self, query: Callable[Concatenate[Connection, P], Awaitable[T | None]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """What `query` finds when it is called with a connection. Raises DashboardPageNotFound if that is nothing."""
        return existing(await self.database.run(query, *args, **kwargs))

    @asynccontextmanager
    async def saving(self, form: Form) -> AsyncIterator[Connection]:
        """A transaction for what a form asks for. The error of a use case undoes it and becomes a fault of the form."""
        with form.catch():
            async with self.database.transaction() as tx:
                yield tx
