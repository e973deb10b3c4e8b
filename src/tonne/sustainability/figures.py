"""The figures of a Sustainability page: totals, shares and chart data."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from babel import Locale
from babel.numbers import format_percent

from tonne.base.money import apportion
from tonne.catalog.model import Catalogue
from tonne.sustainability.charts import ColumnChart, Segment, bar_width, column_chart, stacked_bar
from tonne.sustainability.store import Retired
from tonne.web import visitor

SHORT_SPAN, LONG_SPAN = 12, 24
# The style sheet has this many colours; further bundles share the last one.
SERIES = 6
MAX_PROJECTS = 60


@dataclass(frozen=True, slots=True)
class Month:
    first_day: date
    name: str
    grams: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The months of the chart, and the earlier totals by year."""

    months: tuple[Month, ...]
    chart: ColumnChart
    best: Month
    older_years: tuple[tuple[int, int], ...]

    @property
    def older_grams(self) -> int:
        return sum(grams for _, grams in self.older_years)


@dataclass(frozen=True, slots=True)
class BundleTotal:
    name: str
    grams: int
    percent: str
    series: int


@dataclass(frozen=True, slots=True)
class ProjectTotal:
    """`country`, `registry` and `url` are empty for a project that is no longer in the catalogue."""

    name: str
    type: str
    country: str
    registry: str
    url: str | None
    grams: int
    width: float


@dataclass(frozen=True, slots=True)
class Figures:
    total_grams: int
    timeline: Timeline | None
    bundles: tuple[BundleTotal, ...]
    bundle_bar: tuple[Segment, ...]
    projects: tuple[ProjectTotal, ...]
    # Beyond MAX_PROJECTS: shown as one total.
    other_projects: tuple[ProjectTotal, ...]
    countries_count: int


def figures_of(retired: Sequence[Retired], catalogue: Catalogue, locale: Locale, this_month: date) -> Figures:
    """`retired` is ordered as `sum_retired` returns it."""
    months = {each.month: each.grams for each in retired if each.month is not None}
    by_project = [each for each in retired if each.project_id is not None]
    projects = [_project(each, catalogue, by_project[0].grams) for each in by_project]
    bundles = _bundles([each for each in retired if each.bundle_id is not None], catalogue, locale)
    series: defaultdict[int, int] = defaultdict(int)
    for bundle in bundles:
        series[bundle.series] += bundle.grams
    return Figures(
        total_grams=sum(months.values()),
        timeline=_timeline(months, locale, this_month) if months else None,
        bundles=tuple(bundles),
        bundle_bar=tuple(stacked_bar(list(series.values()))),
        projects=tuple(projects[:MAX_PROJECTS]),
        other_projects=tuple(projects[MAX_PROJECTS:]),
        countries_count=len({project.country for project in projects if project.country}),
    )


def _timeline(grams: dict[date, int], locale: Locale, this_month: date) -> Timeline:
    """Ends with this month and includes empty months. Spans two years when one is not enough."""
    last = max(this_month, *grams)
    span = SHORT_SPAN if min(grams) > _months_before(last, SHORT_SPAN) else LONG_SPAN
    days = [_months_before(last, back) for back in range(span - 1, -1, -1)]
    months = tuple(Month(day, visitor.month(day, locale), grams.get(day, 0)) for day in days)
    years: defaultdict[int, int] = defaultdict(int)
    for day in sorted(grams, reverse=True):
        if day < days[0]:
            years[day.year] += grams[day]
    return Timeline(
        months=months,
        chart=column_chart([month.grams for month in months], [month.name for month in months]),
        best=max(months, key=lambda month: month.grams),
        older_years=tuple(years.items()),
    )


def _months_before(month: date, count: int) -> date:
    index = month.year * 12 + month.month - 1 - count
    return date(index // 12, index % 12 + 1, 1)


def _bundles(retired: Sequence[Retired], catalogue: Catalogue, locale: Locale) -> list[BundleTotal]:
    known = catalogue.bundles
    # Tenths of a per cent, apportioned so that they add up to exactly 100 %.
    parts = apportion(1000, [each.grams for each in retired]) if retired else []
    return [
        BundleTotal(
            name=known[each.bundle_id].name if each.bundle_id in known else each.name,
            grams=each.grams,
            percent=format_percent(Decimal(part) / 1000, locale=locale, decimal_quantization=False),
            series=min(place, SERIES),
        )
        for place, (each, part) in enumerate(zip(retired, parts, strict=True), 1)
    ]


def _project(retired: Retired, catalogue: Catalogue, largest: int) -> ProjectTotal:
    known, width = catalogue.projects.get(retired.project_id or ""), bar_width(retired.grams, largest)
    if known is None:
        return ProjectTotal(retired.name, retired.project_type, "", "", None, retired.grams, width)
    return ProjectTotal(
        name=known.name,
        type=known.type,
        country=country_in_words(known.country),
        registry=known.registry,
        # A javascript: URL would run on the page. The import rejects it too.
        url=known.registry_url if (known.registry_url or "").startswith(("https://", "http://")) else None,
        grams=retired.grams,
        width=width,
    )


def country_in_words(country: str) -> str:
    """The English name of a country code. Catalogues may also hold the name itself."""
    return str(visitor.DEFAULT.territories.get(country, country))
