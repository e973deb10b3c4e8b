"""The figures of a Sustainability page: totals, shares and chart data."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import NamedTuple

from babel import Locale
from babel.numbers import format_percent
from msgspec import Struct

from tonne.channels.public_pages.figures.figure_store import FigurePeriod, Retired, VintageTotal
from tonne.channels.public_pages.timeline import Timeline, timeline_of
from tonne.platform.values.amounts import apportion
from tonne.platform.web.charts import Segment, bar_width, stacked_bar
from tonne.selling.catalogue.countries import country_code
from tonne.selling.catalogue.model import Catalogue, Project
from tonne.selling.catalogue.pictures.pictures import project_picture

# One passenger in economy class, one way: 5,540 km (great circle, JFK to LHR) at 0.11704 kg per km, the factor of DESNZ
# 2025 for long-haul flights with radiative forcing.
GRAMS_PER_FLIGHT = 648_402


class Goal(NamedTuple):
    number: int
    # How many projects contribute to it.
    projects_count: int


def goals_of(projects: Iterable[Project]) -> tuple[Goal, ...]:
    """The UN Sustainable Development Goals that the projects contribute to, by number."""
    counts = Counter(number for project in projects for number in set(project.details.un_sdg or ()))
    return tuple(Goal(number, counts[number]) for number in sorted(counts))


def flights_of(grams: int) -> int:
    """Whole flights from New York to London that cause at most these emissions."""
    return grams // GRAMS_PER_FLIGHT


# The size of `world.svg`.
MAP_WIDTH, MAP_HEIGHT = 1080, 464


def country_name(country: str, locale: Locale) -> str:
    """Catalogues hold the code of a country or its English name. An unknown name stays as it is."""
    return str(locale.territories.get(country_code(country), country))


def place_of(country: str) -> tuple[int, int] | None:
    """The middle of the country on the map."""
    return _places().get(country_code(country))


@cache
def _places() -> dict[str, tuple[int, int]]:
    text = (resources.files("tonne.channels.public_pages.figures") / "country_places.txt").read_text(encoding="ascii")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {code: (int(x), int(y)) for code, x, y in lines}


# The style sheet has this many colours; further bundles share the last one.
SERIES = 6
MAX_PROJECTS = 60
MECHANISMS = ("removal", "avoidance")
# The series of a project whose mechanism is not known.
UNKNOWN_MECHANISM = 6
# Radii of markers on the map.
SMALLEST_MARKER, LARGEST_MARKER = 9.0, 30.0


class FigureShare(Struct, frozen=True):
    """A part of the total: a bundle, a vintage, or what removes or avoids emissions."""

    name: str
    grams: int
    percent: str
    series: int
    width: float


class CountryTotal(Struct, frozen=True):
    """`place` is None for a country that is not on the map."""

    name: str
    grams: int
    projects_count: int
    place: tuple[int, int] | None
    radius: float


class ProjectTotal(Struct, frozen=True):
    """`project` is None, and what comes from it empty, if it is no longer in the catalogue."""

    project: Project | None
    name: str
    type: str
    country: str
    registry: str
    url: str | None
    mechanism: str
    vintages: str
    picture: str | None
    grams: int
    width: float


class Retirements(Struct, frozen=True):
    """What the page is made of. `months` has all years, the others only those of the period."""

    period: FigurePeriod
    months: dict[date, int]
    retired: Sequence[Retired]
    vintages: Sequence[VintageTotal]

    @property
    def years(self) -> list[int]:
        """Those with retirements, the latest first."""
        return sorted({month.year for month in self.months}, reverse=True)


class Figures(Struct, frozen=True):
    year: int | None
    years: Sequence[int]
    total_grams: int
    first_month: date | None
    timeline: Timeline | None
    bundles: tuple[FigureShare, ...]
    bundle_bar: tuple[Segment, ...]
    mechanisms: tuple[FigureShare, ...]
    mechanism_bar: tuple[Segment, ...]
    vintages: tuple[FigureShare, ...]
    projects: tuple[ProjectTotal, ...]
    # Beyond MAX_PROJECTS: shown as one total.
    other_projects: tuple[ProjectTotal, ...]
    countries: tuple[CountryTotal, ...]
    goals: tuple[Goal, ...] = ()

    @property
    def flights(self) -> int:
        return flights_of(self.total_grams)

    @property
    def projects_count(self) -> int:
        return len(self.projects) + len(self.other_projects)

    @property
    def removal(self) -> FigureShare | None:
        return next((share for share in self.mechanisms if share.name == "removal"), None)


def figures_of(found: Retirements, catalogue: Catalogue, locale: Locale, this_month: date) -> Figures:
    year = found.period.year
    months = {month: grams for month, grams in found.months.items() if year in {None, month.year}}
    by_project = [each for each in found.retired if each.project_id is not None]
    vintages = _vintages_by_project(found.vintages)
    projects = [_project(each, catalogue, by_project[0].grams, vintages, locale) for each in by_project]
    bundles = _bundles([each for each in found.retired if each.bundle_id is not None], catalogue, locale)
    series: defaultdict[int, int] = defaultdict(int)
    for bundle in bundles:
        series[bundle.series] += bundle.grams
    mechanisms = _mechanisms(projects, locale)
    return Figures(
        year=year,
        years=found.years,
        total_grams=sum(months.values()),
        first_month=min(months, default=None),
        timeline=timeline_of(months, locale, this_month, year) if months else None,
        bundles=tuple(bundles),
        bundle_bar=tuple(stacked_bar(list(series.values()))),
        mechanisms=tuple(mechanisms),
        mechanism_bar=tuple(stacked_bar([share.grams for share in mechanisms])),
        vintages=tuple(_vintages(found.vintages, locale)),
        projects=tuple(projects[:MAX_PROJECTS]),
        other_projects=tuple(projects[MAX_PROJECTS:]),
        countries=tuple(_countries(projects)),
        goals=goals_of(each.project for each in projects if each.project is not None),
    )


def _shares(parts: Sequence[tuple[str, int, int]], locale: Locale) -> list[FigureShare]:
    """`parts` are names, grams and series."""
    grams = [part[1] for part in parts]
    # Tenths of a per cent, apportioned so that they add up to exactly 100 %.
    tenths = apportion(1000, grams) if parts else []
    return [
        FigureShare(
            name=name,
            grams=mass,
            percent=format_percent(Decimal(tenth) / 1000, locale=locale, decimal_quantization=False),
            series=series,
            width=bar_width(mass, max(grams)),
        )
        for (name, mass, series), tenth in zip(parts, tenths, strict=True)
    ]


def _bundles(retired: Sequence[Retired], catalogue: Catalogue, locale: Locale) -> list[FigureShare]:
    known = catalogue.bundles
    names = [known[each.bundle_id].name if each.bundle_id in known else each.name for each in retired]
    places = enumerate(zip(names, retired, strict=True), 1)
    return _shares([(name, each.grams, min(place, SERIES)) for place, (name, each) in places], locale)


def _mechanisms(projects: Sequence[ProjectTotal], locale: Locale) -> list[FigureShare]:
    grams: defaultdict[str, int] = defaultdict(int)
    for project in projects:
        grams[project.mechanism] += project.grams
    series = dict(zip((*MECHANISMS, ""), (1, 2, UNKNOWN_MECHANISM), strict=True))
    return _shares([(name, grams[name], place) for name, place in series.items() if grams[name]], locale)


def _vintages(totals: Sequence[VintageTotal], locale: Locale) -> list[FigureShare]:
    """The newest first."""
    grams: defaultdict[int, int] = defaultdict(int)
    for each in totals:
        grams[each.vintage] += each.grams
    return _shares([(str(vintage), mass, 1) for vintage, mass in sorted(grams.items(), reverse=True)], locale)


def _vintages_by_project(totals: Sequence[VintageTotal]) -> dict[tuple[str, str], str]:
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for each in totals:
        found[each.registry, each.registry_project_id].append(each.vintage)
    return {key: years_text(vintages) for key, vintages in found.items()}


def years_text(years: Sequence[int]) -> str:
    """`2019–2021, 2023`."""
    runs: list[list[int]] = []
    for year in sorted(set(years)):
        if runs and runs[-1][-1] == year - 1:
            runs[-1].append(year)
        else:
            runs.append([year])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def _countries(projects: Sequence[ProjectTotal]) -> list[CountryTotal]:
    """The largest first."""
    members: defaultdict[str, list[ProjectTotal]] = defaultdict(list)
    for project in projects:
        if project.project is not None and project.country:
            members[country_code(project.project.country) or project.country].append(project)
    grams = {code: sum(project.grams for project in found) for code, found in members.items()}
    largest = max(grams.values(), default=0)
    return [
        CountryTotal(
            name=members[code][0].country,
            grams=grams[code],
            projects_count=len(members[code]),
            place=place_of(code),
            # The area of a marker grows with its tonnes.
            radius=max(SMALLEST_MARKER, LARGEST_MARKER * (grams[code] / largest) ** 0.5),
        )
        for code in sorted(grams, key=lambda code: (-grams[code], code))
    ]


def _project(
    retired: Retired, catalogue: Catalogue, largest: int, vintages: dict[tuple[str, str], str], locale: Locale
) -> ProjectTotal:
    known, width = catalogue.projects.get(retired.project_id or ""), bar_width(retired.grams, largest)
    if known is None:
        return ProjectTotal(None, retired.name, retired.project_type, "", "", None, "", "", None, retired.grams, width)
    return ProjectTotal(
        project=known,
        name=known.name,
        type=known.type,
        country=country_name(known.country, locale),
        registry=known.registry,
        # A javascript: URL would run on the page. The import rejects it too.
        url=known.registry_url if (known.registry_url or "").startswith(("https://", "http://")) else None,
        mechanism=known.mechanism if known.mechanism in MECHANISMS else "",
        vintages=vintages.get((known.registry, known.registry_project_id), ""),
        picture=project_picture(known),
        grams=retired.grams,
        width=width,
    )
