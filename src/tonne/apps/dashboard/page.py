"""What pages of the dashboard work with, and the sections that they belong to.

Paths of a section are relative to the organisation and mode.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, date
from typing import Concatenate, ParamSpec, TypeVar

from msgspec import Struct, field

from tonne.apps.dashboard.layout import PageLayout
from tonne.apps.dashboard.viewer import Form, MemberForm, MemberPage, OperatorForm, OperatorPage, existing
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.notification import Notifier
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import TonneError
from tonne.selling.users.model import Right

P = ParamSpec("P")
T = TypeVar("T")
TOO_MANY_EXPORTS = "Too many exports. Wait a minute, then try again."


def export_limit(name: str) -> TokenBuckets:
    """Exports read many rows: per organisation or operator 10 at once, then one every 30 seconds."""
    return TokenBuckets(name, 1 / 30, 10)


class DashboardPage(Struct, frozen=True):
    """A page adds what only it needs."""

    database: Database
    layout: PageLayout
    clock: Clock
    settings: Settings
    notifier: Notifier

    def today(self) -> date:
        """In UTC."""
        return self.clock().astimezone(UTC).date()

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


class Section(Struct, frozen=True, kw_only=True):
    errors: tuple[type[TonneError], ...] = ()
    limits: tuple[TokenBuckets, ...] = ()
    # By path of a form with a file: how large its body may be.
    uploads: dict[str, int] = field(default_factory=dict)


class OrganisationSection(Section, frozen=True):
    """Pages of one organisation, at /dashboard/{mode}/{organisation_id}."""

    pages: dict[str, tuple[MemberPage, Right]]
    forms: dict[str, tuple[MemberForm, Right]] = field(default_factory=dict)


class OperatorSection(Section, frozen=True):
    """Pages of the operator, at /operator/{mode}."""

    pages: dict[str, OperatorPage]
    forms: dict[str, OperatorForm] = field(default_factory=dict)
