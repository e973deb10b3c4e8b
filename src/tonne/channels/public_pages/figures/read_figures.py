"""Reads the figures of a page for one period, in one snapshot of the database."""

from typing import NamedTuple

from babel import Locale
from msgspec import Struct

from tonne.channels.public_pages import store
from tonne.channels.public_pages.figures import figure_store
from tonne.channels.public_pages.figures.figure_store import FigurePeriod
from tonne.channels.public_pages.figures.figures import Figures, Retirements, figures_of
from tonne.channels.public_pages.model import PageSection, SustainabilityPage, TitleFormat
from tonne.platform.db.database import Connection
from tonne.platform.db.replica import Reads
from tonne.platform.http.route import Request
from tonne.platform.values.context import Clock
from tonne.platform.values.paging import START, Position
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.certificates.totals import month_of


class Spent(NamedTuple):
    minor: int
    currency: str


class PageFigures(Struct, frozen=True):
    """`certificates` are positions and records, newest first."""

    beneficiary: str
    figures: Figures
    certificates: list[tuple[Position, bytes]]
    # What the total cost, if the page shows it: of all years only.
    spent: Spent | None = None


class ReadFigures(Struct, frozen=True):
    reads: Reads
    catalogues: Catalogues
    clock: Clock

    async def read(
        self,
        page: SustainabilityPage,
        locale: Locale,
        year: str | None = None,
        *,
        start: Position = START,
        certificates: int = 0,
    ) -> PageFigures:
        """`year` is what the visitor asked for: a year without retirements means all years."""
        catalogue = await self.catalogues.current(page.scope.mode)
        listed = certificates if PageSection.CERTIFICATES in page.sections else 0

        async def read(tx: Connection) -> tuple[store.PageOwner, Retirements, list[tuple[Position, bytes]], int | None]:
            owner = await store.find_owner(tx, page.scope)
            months = await figure_store.list_months(tx, page.scope)
            period = FigurePeriod(next((month.year for month in months if str(month.year) == year), None))
            retired = await figure_store.sum_retired(tx, page.scope, period)
            vintages = await figure_store.list_vintages(tx, page.scope, period)
            found = []
            if listed:
                found = await figure_store.list_certificates(tx, page.scope, period, start, limit=listed)
            shows_spent = page.title_format is TitleFormat.BY_PRICE and period.year is None
            spent_minor = await figure_store.sum_spent(tx, page.scope) if shows_spent else None
            return owner, Retirements(period, months, retired, vintages), found, spent_minor

        owner, retirements, found, spent_minor = await self.reads.read(read)
        figures = figures_of(retirements, catalogue, locale, month_of(self.clock()))
        spent = None if not spent_minor else Spent(spent_minor, owner.currency)
        return PageFigures(owner.beneficiary, figures, found, spent)


def asked_year(request: Request) -> str | None:
    return request.query("year")[0]
