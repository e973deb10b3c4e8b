"""Files of a Sustainability page: totals and retirements as CSV, and a summary as a PDF."""

import hashlib
import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
from babel import Locale

from tonne.channels.public_pages.embeds import without_symbols
from tonne.channels.public_pages.errors import SustainabilityPageNotFound
from tonne.channels.public_pages.figures import figure_store
from tonne.channels.public_pages.figures.drawings import Drawings
from tonne.channels.public_pages.figures.figure_store import FigurePeriod, MonthTotal
from tonne.channels.public_pages.figures.figures import Figures
from tonne.channels.public_pages.figures.read_figures import PageFigures, ReadFigures, asked_year
from tonne.channels.public_pages.model import PageSection, SustainabilityPage
from tonne.platform.documents.pdf import render_pdf
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MassUnit, format_tonnes, to_grams
from tonne.platform.values.context import Mode
from tonne.platform.values.language import N_
from tonne.platform.values.paging import START, Position
from tonne.platform.web import visitor
from tonne.platform.web.caching import ONE_MINUTE
from tonne.platform.web.translate import Translator
from tonne.platform.web.visitor import VisitorLanguage, visitor_language
from tonne.selling.catalogue.model import Catalogue
from tonne.supply.certificates.pdf import qr_code
from tonne.supply.certificates.record import CertificateRecord
from tonne_verify.formulas import escape_formula

TEMPLATE = Path(__file__).parent / "templates" / "summary.typ"
MAX_PROJECTS = 24
MAX_BARS = 24


def summary_record(
    page: SustainabilityPage, found: PageFigures, language: VisitorLanguage, *, today: datetime, settings: Settings
) -> dict[str, Any]:
    _, locale, figures = language.translator, language.locale, found.figures
    address = page.address(settings.base_url)
    shown = figures.projects[:MAX_PROJECTS]
    amounts = visitor.aligned([project.grams for project in shown], locale)
    others = sum(project.grams for project in (*figures.projects[MAX_PROJECTS:], *figures.other_projects))
    return {
        "mode": page.scope.mode.value,
        "language": language.code,
        "title": without_symbols(page.title),
        "beneficiary": without_symbols(found.beneficiary),
        "seller": without_symbols(settings.seller_name),
        "address": address,
        "qr": qr_code(address),
        "total": visitor.rounded(figures.total_grams, locale),
        "exact": visitor.exact(figures.total_grams, locale),
        "year": "" if figures.year is None else str(figures.year),
        "tiles": _tiles(figures, _, locale),
        "shares": [
            {"name": _mechanism(share.name, _), "percent": share.percent, "grams": share.grams, "series": share.series}
            for share in figures.mechanisms
        ],
        "months": _months(figures),
        "projects": [
            {
                "name": without_symbols(project.name),
                "kind": [part for part in (_mechanism(project.mechanism, _), project.type, project.country) if part],
                "registry": project.registry,
                "vintages": project.vintages,
                "amount": amount,
            }
            for project, amount in zip(shown, amounts, strict=True)
        ],
        "others": "" if not others else _("Smaller projects: %(amount)s", amount=visitor.rounded(others, locale)),
        "labels": _labels(_, visitor.day(today, locale)),
    }


def _labels(_: Translator, today: str) -> dict[str, str]:
    return {
        "heading": _("Summary of retirements"),
        "retired": _("of CO₂ equivalent, as carbon credits retired on behalf of"),
        "as_of": _("As of %(day)s", day=today),
        "shares": _("Removal and avoidance"),
        "per_month": _("Per month"),
        "project": _("Project"),
        "registry": _("Registry"),
        "vintage": _("Vintage"),
        "amount": _("Retired"),
        "meaning": _("What this means"),
        "credits": _(
            "Each credit represents one tonne of CO₂ equivalent that a project has removed or avoided. Retired credits "
            "are permanently taken off the market and can't be sold or used again."
        ),
        "claims": _(
            "Retiring credits supports these projects. It doesn't change the emissions of an organisation, a product "
            "or a journey, so it isn't proof that any of them is neutral."
        ),
        "current": _("Current figures and certificates"),
        "test": _("TEST: nothing here is real"),
    }


def _tiles(figures: Figures, _: Translator, locale: Locale) -> list[dict[str, str]]:
    projects, countries = figures.projects_count, len(figures.countries)
    tiles = [{"figure": str(projects), "text": _.plural("project", "projects", projects)}]
    if countries:
        tiles.append({"figure": str(countries), "text": _.plural("country", "countries", countries)})
    if figures.removal is not None:
        tiles.append({"figure": figures.removal.percent, "text": _("carbon removal")})
    if figures.first_month is not None and figures.year is None:
        tiles.append({"figure": visitor.month(figures.first_month, locale), "text": _("first retirement")})
    return tiles


def _mechanism(name: str, _: Translator) -> str:
    return {"removal": _("Removal"), "avoidance": _("Avoidance")}.get(name, "")


def _months(figures: Figures) -> list[dict[str, Any]]:
    """Heights are shares of the highest month."""
    months = () if figures.timeline is None else figures.timeline.months
    return [{"name": month.name, "height": month.width / 100} for month in months[-MAX_BARS:]]


CSV = b"text/csv; charset=utf-8"
PDF = b"application/pdf"
# Certificates that are read from the database at once.
BATCH = 500
TOTAL_COLUMNS = (
    *("month", "bundle", "project", "type", "mechanism", "country", "registry", "registry_project_id", "grams"),
    "tonnes",
)
RETIREMENT_COLUMNS = (
    *("certificate", "issued_at", "beneficiary", "project", "type", "country", "registry", "registry_project_id"),
    *("vintage", "serial_numbers", "grams", "tonnes", "retired_on", "retirement_url", "verification_url"),
)


class Exports:
    def __init__(self, figures: ReadFigures, drawings: Drawings, settings: Settings) -> None:
        self._figures = figures
        self._drawings = drawings
        self._settings = settings
        self._downloads = TokenBuckets("page_downloads", settings.verify_per_minute / 60, settings.verify_burst)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self._downloads,)

    async def totals_csv(self, request: Request, page: SustainabilityPage) -> Response:
        """All retirements, also those whose certificates are not public, by month, bundle and project."""
        self._count(request)
        period = await self._period(request, page)
        catalogue = await self._figures.catalogues.current(page.scope.mode)
        totals = await self._figures.reads.read(lambda tx: figure_store.list_totals(tx, page.scope, period))
        body = await in_turn(lambda: _csv([TOTAL_COLUMNS, *(_total_row(total, catalogue) for total in totals)]))
        return Response(body, media_type=CSV, headers=_file(page, period, "totals", "csv"))

    async def retirements_csv(self, request: Request, page: SustainabilityPage) -> Response:
        """The lines of all public certificates, with serial numbers, newest first."""
        if PageSection.CERTIFICATES not in page.sections:
            raise SustainabilityPageNotFound
        self._count(request)
        period = await self._period(request, page)
        headers = _file(page, period, "retirements", "csv")
        return Response(b"", media_type=CSV, headers=headers, stream=self._retirements(page, period))

    async def _retirements(self, page: SustainabilityPage, period: FigurePeriod) -> AsyncGenerator[bytes]:
        """In batches, so that neither memory nor a connection is held for the whole file."""
        yield _csv([RETIREMENT_COLUMNS])
        start: Position | None = START
        while start is not None:
            found = await self._certificates(page, period, start)
            start = found[-1][0] if len(found) == BATCH else None
            yield _csv([row for _, raw in found for row in _retirement_rows(raw)])

    async def _certificates(
        self, page: SustainabilityPage, period: FigurePeriod, start: Position
    ) -> list[tuple[Position, bytes]]:
        return await self._figures.reads.read(
            lambda tx: figure_store.list_certificates(tx, page.scope, period, start, limit=BATCH)
        )

    async def summary_pdf(self, request: Request, page: SustainabilityPage) -> Response:
        self._count(request)
        language = visitor_language(request, page.language)
        found = await self._figures.read(page, language.locale, asked_year(request))
        today = self._figures.clock().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        record = summary_record(page, found, language, today=today, settings=self._settings)
        version = hashlib.sha256(json.dumps(record).encode()).hexdigest()
        pdf = await self._drawings.draw(version, lambda: render_pdf(TEMPLATE, record, issued_at=today))
        headers = _file(page, FigurePeriod(found.figures.year), "summary", "pdf", disposition="inline")
        return Response(pdf, media_type=PDF, headers={**headers, "Vary": "Accept-Language, Cookie"})

    async def _period(self, request: Request, page: SustainabilityPage) -> FigurePeriod:
        """A year without retirements means all years, as on the page."""
        year = asked_year(request)
        if year is None:
            return FigurePeriod()
        months = await self._figures.reads.read(lambda tx: figure_store.list_months(tx, page.scope))
        return FigurePeriod(next((month.year for month in months if str(month.year) == year), None))

    def _count(self, request: Request) -> None:
        message = N_("Too many downloads from your network. Wait a minute, then try again.")
        self._downloads.require(request.limited_as, 1, message)


def _total_row(total: MonthTotal, catalogue: Catalogue) -> Sequence[str]:
    known = catalogue.projects.get(total.project_id)
    bundle = catalogue.bundles.get(total.bundle_id)
    names = (
        f"{total.month:%Y-%m}",
        total.bundle_name if bundle is None else bundle.name,
        total.project_name if known is None else known.name,
        total.project_type if known is None else known.type,
    )
    place = ("", "", "", "")
    if known is not None:
        place = (known.mechanism, known.country, known.registry, known.registry_project_id)
    return (*names, *place, str(total.grams), format_tonnes(total.grams))


def _retirement_rows(raw: bytes) -> Iterable[Sequence[str]]:
    record = msgspec.json.decode(raw, type=CertificateRecord)
    for line in record.lines:
        yield (
            *(record.number, record.issued_at, record.beneficiary, line.project_name, line.project_type),
            *(line.country, line.registry, line.project_id, line.vintage, line.serial_range),
            *(str(to_grams(Decimal(line.quantity), MassUnit.T)), line.quantity, line.retired_on),
            *(line.retirement_url or "", record.verification_url),
        )


def _csv(rows: Iterable[Sequence[str]]) -> bytes:
    return csv_text([escape_formula(cell) for cell in row] for row in rows).encode()


def _file(
    page: SustainabilityPage, period: FigurePeriod, what: str, kind: str, *, disposition: str = "attachment"
) -> dict[str, str]:
    mode = "test-" if page.scope.mode is Mode.TEST else ""
    name = f"{mode}{page.slug}-{what}{'' if period.year is None else f'-{period.year}'}.{kind}"
    # Files have no canonical link: search engines should find the page.
    named = {"Content-Disposition": f'{disposition}; filename="{name}"', "X-Robots-Tag": "noindex"}
    return {**ONE_MINUTE, **named}
