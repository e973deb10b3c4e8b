"""The files of a catalogue and their rows, and what their import would change compared with what is stored. No I/O."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, ClassVar, Generic

from msgspec import Struct

from tonne.platform.documents.sheets import columns
from tonne.platform.documents.sheets.columns import RowError, quoted
from tonne.platform.documents.sheets.read_sheet import R, Row, RowChanges, Sheet, SheetFile, Values, compare, read_sheet
from tonne.platform.values.amounts import DECIMALS, scaled
from tonne.platform.values.context import new_id
from tonne.selling.catalogue.details import Approach, BundleDetails, CarbonPermanence, ProjectDetails
from tonne.selling.catalogue.imports.detail_columns import check_details, parse_colour
from tonne.selling.catalogue.imports.project_rows import ProjectKey, ProjectReference, ProjectRow
from tonne.selling.catalogue.selection import DIGITS, percent_text

MAX_PRICE = 10**9
MAX_RATE = 10**12 - 1
MAX_POSITION = 1_000_000
MAX_WEIGHT = 1_000_000


class FileKind(StrEnum):
    """A file is recognised by its name. Lots belong to `retirements`, which imports them with the other files."""

    PROJECTS = "projects.csv"
    BUNDLES = "bundles.csv"
    BUNDLE_PROJECTS = "bundle_projects.csv"
    EXCHANGE_RATES = "exchange_rates.csv"
    LOTS = "lots.csv"
    DEFAULTS = "defaults.csv"


Files = Mapping[FileKind, SheetFile]


def _percentage(cell: str) -> str:
    """As it is stored: without trailing zeros."""
    return percent_text(scaled(columns.decimal(DIGITS, 100)(cell), DIGITS) or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("slug",)

    slug: columns.Slug
    name: Annotated[str, columns.Column(columns.text(200))]
    description: Annotated[str, columns.Column(columns.text(2000), if_empty=None)]
    primary_image: columns.Image | None
    unit_price: Annotated[Decimal, columns.Column(columns.decimal(12, MAX_PRICE))]
    enabled: Annotated[bool, columns.Column(columns.parse_flag)]
    position: Annotated[int, columns.Column(columns.whole(0, MAX_POSITION))]
    # The fields of BundleDetails.
    approach: Annotated[str, columns.Column(columns.choice(*Approach))] | None = None
    carbon_permanence: Annotated[str, columns.Column(columns.choice(*CarbonPermanence))] | None = None
    background_colour: Annotated[str, columns.Column(parse_colour)] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleProjectRow(ProjectReference):
    KEY: ClassVar[tuple[str, ...]] = ("bundle_slug", "registry", "registry_project_id")

    bundle_slug: columns.Slug
    weight: Annotated[int, columns.Column(columns.whole(1, MAX_WEIGHT))]
    # Within the bundle, from the order of the lines.
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeRateRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("base", "quote", "as_of")

    base: columns.Currency
    quote: columns.Currency
    rate: Annotated[Decimal, columns.Column(columns.decimal(12, MAX_RATE))]
    source: Annotated[str, columns.Column(columns.text(200))]
    as_of: Annotated[datetime, columns.Column(columns.parse_time)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("bundle_slug",)

    bundle_slug: columns.Slug
    # None splits equally.
    percentage: Annotated[str, columns.Column(_percentage)] | None
    # From the order of the lines.
    position: int = 0


class Sheets(Struct, frozen=True):
    """All files of one import except lots."""

    projects: Sheet[ProjectRow]
    bundles: Sheet[BundleRow]
    bundle_projects: Sheet[BundleProjectRow]
    exchange_rates: Sheet[ExchangeRateRow]
    defaults: Sheet[DefaultRow]

    @property
    def errors(self) -> list[RowError]:
        sheets = (self.projects, self.bundles, self.bundle_projects, self.exchange_rates, self.defaults)
        return [error for sheet in sheets for error in sheet.errors]


def read_files(files: Files, currency: str) -> Sheets:
    return Sheets(
        projects=read_sheet(files.get(FileKind.PROJECTS), ProjectRow, check_details),
        bundles=read_sheet(files.get(FileKind.BUNDLES), BundleRow, partial(_check_price, currency)),
        bundle_projects=read_sheet(files.get(FileKind.BUNDLE_PROJECTS), BundleProjectRow),
        exchange_rates=read_sheet(files.get(FileKind.EXCHANGE_RATES), ExchangeRateRow, _check_pair),
        defaults=read_sheet(files.get(FileKind.DEFAULTS), DefaultRow),
    )


def _check_price(currency: str, values: Values) -> Iterator[tuple[str, str]]:
    if "unit_price" in values and (message := columns.precision_error(values["unit_price"], DECIMALS[currency])):
        yield "unit_price", message


def _check_pair(values: Values) -> Iterator[tuple[str, str]]:
    if "base" in values and values["base"] == values.get("quote"):
        yield "quote", "a currency has no rate to itself: name another currency or delete the line."


MAX_MADE_SLUG_LENGTH = 80


class StoredCatalogue(Struct, frozen=True):
    """What is stored, as far as the files affect it. Projects and bundles are by id."""

    projects: dict[str, ProjectRow]
    bundles: dict[str, BundleRow]
    bundle_projects: list[BundleProjectRow]
    exchange_rates: list[ExchangeRateRow]
    defaults: list[DefaultRow]


class Referable(Struct, Generic[R], frozen=True):
    """Rows that other rows may refer to: those stored and those of a file."""

    by_key: dict[Any, R]
    sheet: Sheet[R]

    def is_unknown(self, key: tuple[str, ...]) -> bool:
        """False for invalid and unreadable lines too: a reference to one of them is not a second error."""
        return key not in self.by_key and key not in self.sheet.line_of and self.sheet.complete


class CataloguePlan(Struct, frozen=True):
    projects: RowChanges[ProjectRow]
    bundles: RowChanges[BundleRow]
    bundle_projects: RowChanges[BundleProjectRow]
    exchange_rates: RowChanges[ExchangeRateRow]
    defaults: RowChanges[DefaultRow]
    # The whole new default selection, in order.
    selection: list[DefaultRow]
    project_ids: dict[tuple[Any, ...], str]
    bundle_ids: dict[tuple[Any, ...], str]
    known_projects: Referable[ProjectRow]
    errors: list[RowError]

    @property
    def changes(self) -> list[RowChanges[Any]]:
        """The changes of the files that were given."""
        every = (self.projects, self.bundles, self.bundle_projects, self.exchange_rates, self.defaults)
        return [changes for changes in every if changes.file]


def plan_catalogue(sheets: Sheets, stored: StoredCatalogue) -> CataloguePlan:
    errors = sheets.errors
    project_rows = _with_slugs(sheets.projects, stored.projects, errors)
    project_rows = _with_details(project_rows, sheets.projects.columns, stored.projects, ProjectDetails)
    bundle_rows = _with_details(sheets.bundles.rows, sheets.bundles.columns, stored.bundles, BundleDetails)
    projects = compare(sheets.projects.name, project_rows, stored.projects.values())
    bundles = compare(sheets.bundles.name, bundle_rows, stored.bundles.values())
    known_projects = _referable(sheets.projects, stored.projects, projects.saved)
    known_bundles = _referable(sheets.bundles, stored.bundles, bundles.saved)
    errors += _check_bundle_projects(sheets.bundle_projects, known_bundles, known_projects)
    errors += _check_defaults(sheets.defaults, known_bundles)
    selection = [replace(row, position=i) for i, row in enumerate(sheets.defaults.rows)]
    positioned = _with_positions(sheets.bundle_projects.rows)
    if not errors:
        members = positioned if sheets.bundle_projects.name else stored.bundle_projects
        errors += _check_deliveries(sheets.bundle_projects.name or sheets.projects.name, members, known_projects)
    return CataloguePlan(
        projects=projects,
        bundles=bundles,
        bundle_projects=compare(sheets.bundle_projects.name, positioned, stored.bundle_projects, replaces=True),
        exchange_rates=compare(sheets.exchange_rates.name, sheets.exchange_rates.rows, stored.exchange_rates),
        defaults=compare(sheets.defaults.name, selection, stored.defaults if selection else [], replaces=True),
        selection=selection,
        project_ids={row.key: id_ for id_, row in stored.projects.items()} | _new_ids("prj", projects),
        bundle_ids={row.key: id_ for id_, row in stored.bundles.items()} | _new_ids("bun", bundles),
        known_projects=known_projects,
        errors=errors,
    )


def check_project(file: str, row: ProjectReference, known: Referable[ProjectRow]) -> Iterator[RowError]:
    if known.is_unknown(row.project_key):
        project = f"no project {quoted(row.registry_project_id)} of the registry {quoted(row.registry)}"
        message = f"there is {project}: correct the two cells, or add the project to {FileKind.PROJECTS}."
        yield RowError(file, row.line, "registry_project_id", message)


def _referable(sheet: Sheet[R], stored: dict[str, R], saved: list[R]) -> Referable[R]:
    return Referable({row.key: row for row in (*stored.values(), *saved)}, sheet)


def _new_ids(prefix: str, changes: RowChanges[Any]) -> dict[tuple[Any, ...], str]:
    return {row.key: new_id(prefix) for row in changes.new}


def _with_slugs(sheet: Sheet[ProjectRow], stored: dict[str, ProjectRow], errors: list[RowError]) -> list[ProjectRow]:
    """A project without a slug in the file keeps its stored slug, or else gets one from its name."""
    slugs = {row.key: row.slug for row in stored.values()}
    holders: dict[str | None, ProjectKey] = {row.slug: row.project_key for row in stored.values()}
    for row in sheet.rows:
        holder = holders.setdefault(row.slug, row.project_key) if row.slug else row.project_key
        if holder != row.project_key:
            message = f"{quoted(row.slug or '')} is already the slug of {' '.join(holder)}: choose another one."
            errors.append(RowError(sheet.name, row.line, "slug", message))
    rows = []
    for row in sheet.rows:
        slug = row.slug or slugs.get(row.key) or _free_slug(row, holders)
        holders[slug] = row.project_key
        rows.append(replace(row, slug=slug))
    return rows


def _with_details(
    rows: list[R], columns: Collection[str], stored: Mapping[str, R], details: type[ProjectDetails | BundleDetails]
) -> list[R]:
    """A file without the column of a detail does not change it: files from before the column stay valid."""
    kept = [name for name in details.__struct_fields__ if name not in columns]
    known = {row.key: row for row in stored.values()}
    return [
        replace(row, **{name: getattr(known[row.key], name) for name in kept}) if row.key in known else row
        for row in rows
    ]


def _free_slug(row: ProjectRow, taken: dict[str | None, ProjectKey]) -> str:
    stem = _slug_of(row.name) or _slug_of(row.registry_project_id) or "project"
    slug, number = stem, 2
    while slug in taken:
        slug, number = f"{stem}-{number}", number + 1
    return slug


def _slug_of(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_MADE_SLUG_LENGTH].strip("-")


def _with_positions(rows: list[BundleProjectRow]) -> list[BundleProjectRow]:
    """Numbered within their bundle, in the order of the lines."""
    count: Counter[str] = Counter()
    numbered = []
    for row in rows:
        numbered.append(replace(row, position=count[row.bundle_slug]))
        count[row.bundle_slug] += 1
    return numbered


def _check_bundle_projects(
    sheet: Sheet[BundleProjectRow], bundles: Referable[BundleRow], projects: Referable[ProjectRow]
) -> Iterator[RowError]:
    for row in sheet.rows:
        yield from _check_bundle(sheet.name, row, bundles)
        yield from check_project(sheet.name, row, projects)


def _check_deliveries(
    file: str, rows: Collection[BundleProjectRow], projects: Referable[ProjectRow]
) -> Iterator[RowError]:
    """Credits that are issued and such as may never be cannot be sold as one."""
    first: dict[str, bool] = {}
    for row in rows:
        is_issued = projects.by_key[row.project_key].is_issued
        if first.setdefault(row.bundle_slug, is_issued) is not is_issued:
            message = (
                f"the bundle {quoted(row.bundle_slug)} mixes projects whose credits are issued (offset_delivery "
                "ex_post) with others: make a bundle of each kind."
            )
            yield RowError(file, row.line or None, "registry_project_id", message)


def _check_bundle(file: str, row: BundleProjectRow | DefaultRow, known: Referable[BundleRow]) -> Iterator[RowError]:
    if known.is_unknown((row.bundle_slug,)):
        slug = quoted(row.bundle_slug)
        message = f"there is no bundle {slug}: correct the slug, or add the bundle to {FileKind.BUNDLES}."
        yield RowError(file, row.line, "bundle_slug", message)


def _check_defaults(sheet: Sheet[DefaultRow], bundles: Referable[BundleRow]) -> Iterator[RowError]:
    for row in sheet.rows:
        yield from _check_bundle(sheet.name, row, bundles)
        bundle = bundles.by_key.get((row.bundle_slug,))
        if bundle is not None and not bundle.enabled:
            message = f"the bundle {quoted(row.bundle_slug)} is not enabled: enable it or choose another one."
            yield RowError(sheet.name, row.line, "bundle_slug", message)
    if not sheet.name or sheet.errors:
        return
    percentages = [Decimal(row.percentage) for row in sheet.rows if row.percentage is not None]
    if not sheet.rows:
        message = "the file names no bundle: name at least one, or leave the file out."
        yield RowError(sheet.name, None, None, message)
    elif percentages and len(percentages) < len(sheet.rows):
        empty = next(row.line for row in sheet.rows if row.percentage is None)
        message = "the cell is empty, but other lines have a percentage: enter one in every line or in none."
        yield RowError(sheet.name, empty, "percentage", message)
    elif percentages and sum(percentages) != 100:
        message = f"the percentages sum to {sum(percentages)}: change them so that they sum to exactly 100."
        yield RowError(sheet.name, sheet.rows[-1].line, "percentage", message)
