"""What an import would change: the judged files against what is stored. No I/O."""

import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Generic, Protocol, TypeVar

from tonne.base.ids import new_id
from tonne.base.scope import Mode
from tonne.catalog.csv_files import BadLine, FileKind, show
from tonne.catalog.csv_rows import (
    BundleProjectRow,
    BundleRow,
    DefaultRow,
    ExchangeRateRow,
    LotKey,
    LotRow,
    ProjectKey,
    ProjectRow,
)
from tonne.catalog.csv_sheets import Sheet, Sheets
from tonne.catalog.import_lots_store import StoredLot
from tonne.catalog.lot_overlaps import find_overlaps

MAX_MADE_SLUG_LENGTH = 80


class Keyed(Protocol):
    @property
    def key(self) -> Hashable: ...


R = TypeVar("R", bound=Keyed)


@dataclass(frozen=True, slots=True)
class FileReport:
    """How many rows of a file were new, and so on."""

    name: str
    new_count: int
    changed_count: int
    unchanged_count: int
    removed_count: int

    @property
    def has_changes(self) -> bool:
        return bool(self.new_count or self.changed_count or self.removed_count)


@dataclass(frozen=True, slots=True)
class Change(Generic[R]):
    """What one file changes."""

    new: list[R]
    changed: list[R]
    removed: list[R]
    unchanged_count: int

    @property
    def saved(self) -> list[R]:
        return self.new + self.changed

    def report(self, file_name: str) -> FileReport:
        return FileReport(file_name, len(self.new), len(self.changed), self.unchanged_count, len(self.removed))


def compare(rows: list[R], stored: Iterable[R], *, replaces: bool = False) -> Change[R]:
    """With `replaces`, what is stored and not among the rows is removed; otherwise it stays."""
    before = {row.key: row for row in stored}
    new = [row for row in rows if row.key not in before]
    changed = [row for row in rows if row.key in before and row != before[row.key]]
    kept = {row.key for row in rows} if replaces else before.keys()
    removed = [row for key, row in before.items() if key not in kept]
    return Change(new, changed, removed, len(rows) - len(new) - len(changed))


@dataclass(frozen=True, slots=True)
class Stored:
    """As much of what is stored as the files touch. Projects and bundles by id, lots of both modes."""

    projects: dict[str, ProjectRow]
    bundles: dict[str, BundleRow]
    bundle_projects: list[BundleProjectRow]
    exchange_rates: list[ExchangeRateRow]
    lots: list[StoredLot]
    defaults: list[DefaultRow]


@dataclass(frozen=True, slots=True)
class Plan:
    projects: Change[ProjectRow]
    bundles: Change[BundleRow]
    bundle_projects: Change[BundleProjectRow]
    exchange_rates: Change[ExchangeRateRow]
    lots: Change[LotRow]
    defaults: Change[DefaultRow]
    # The whole new selection, in order.
    selection: list[DefaultRow]
    project_ids: dict[ProjectKey, str]
    bundle_ids: dict[str, str]
    lot_ids: dict[LotKey, str]
    bad_lines: list[BadLine]


class Planner:
    """Compares file by file; `bad_lines` fills up on the way."""

    def __init__(self, sheets: Sheets, stored: Stored, mode: Mode) -> None:
        self._sheets = sheets
        self._stored = stored
        self._mode = mode
        self._bad_lines: list[BadLine] = []
        self._projects = {row.key: row for row in stored.projects.values()}
        self._bundles = {row.key: row for row in stored.bundles.values()}
        self._bundles.update({row.key: row for row in sheets.bundles.rows})

    def plan(self) -> Plan:
        projects = compare(self._with_slugs(), self._stored.projects.values())
        self._projects.update({row.key: row for row in projects.saved})
        bundles = compare(self._sheets.bundles.rows, self._stored.bundles.values())
        selection = self._judge_defaults()
        project_ids = {row.key: project_id for project_id, row in self._stored.projects.items()}
        bundle_ids = {row.key: bundle_id for bundle_id, row in self._stored.bundles.items()}
        return Plan(
            projects=projects,
            bundles=bundles,
            bundle_projects=compare(self._judge_bundle_projects(), self._stored.bundle_projects, replaces=True),
            exchange_rates=compare(self._sheets.exchange_rates.rows, self._stored.exchange_rates),
            lots=compare(self._judge_lots(), [lot.row for lot in self._stored.lots if lot.mode == self._mode]),
            defaults=compare(selection, self._stored.defaults if selection else [], replaces=True),
            selection=selection,
            project_ids=project_ids | {row.key: new_id("prj") for row in projects.new},
            bundle_ids=bundle_ids | {row.key: new_id("bun") for row in bundles.new},
            lot_ids={lot.row.key: lot.id for lot in self._stored.lots if lot.mode == self._mode},
            bad_lines=self._bad_lines,
        )

    def _with_slugs(self) -> list[ProjectRow]:
        """A slug once given stays, because addresses hold it; a new project without one gets it from its name."""
        holders = {row.slug: row.key for row in self._projects.values()}
        for row in self._sheets.projects.rows:
            holder = holders.setdefault(row.slug, row.key) if row.slug else row.key
            if holder != row.key:
                message = f"{show(row.slug or '')} is the slug of {' '.join(holder)} already: choose another one."
                self._note(self._sheets.projects.name, row.line, "slug", message)
        rows = []
        for row in self._sheets.projects.rows:
            known = self._projects.get(row.key)
            slug = row.slug or (known.slug if known else None) or _free_slug(row, holders)
            holders[slug] = row.key
            rows.append(replace(row, slug=slug))
        return rows

    def _judge_bundle_projects(self) -> list[BundleProjectRow]:
        """The rows, numbered within their bundle."""
        sheet = self._sheets.bundle_projects
        count: Counter[str] = Counter()
        rows = []
        for row in sheet.rows:
            self._judge_bundle_reference(sheet.name, row.line, row.bundle_slug)
            self._judge_project_reference(sheet.name, row.line, row.project_key)
            rows.append(replace(row, position=count[row.bundle_slug]))
            count[row.bundle_slug] += 1
        return rows

    def _judge_lots(self) -> list[LotRow]:
        """The rows with country and methodology filled in: as the lot has them already, else as the project has."""
        sheet = self._sheets.lots
        self._bad_lines.extend(find_overlaps(sheet, self._stored.lots, self._mode))
        stored = {lot.row.key: lot.row for lot in self._stored.lots if lot.mode == self._mode}
        rows = []
        for row in sheet.rows:
            self._judge_project_reference(sheet.name, row.line, row.project_key)
            source = stored.get(row.key) or self._projects.get(row.project_key) or row
            country = row.country or source.country
            rows.append(replace(row, country=country, methodology=row.methodology or source.methodology))
        return rows

    def _judge_defaults(self) -> list[DefaultRow]:
        sheet = self._sheets.defaults
        for row in sheet.rows:
            self._judge_bundle_reference(sheet.name, row.line, row.bundle_slug)
            bundle = self._bundles.get(row.bundle_slug)
            if bundle is not None and not bundle.enabled:
                message = f"the bundle {show(row.bundle_slug)} is not enabled: enable it or choose another one."
                self._note(sheet.name, row.line, "bundle_slug", message)
        if sheet.name and sheet.complete and not sheet.bad_lines:
            self._judge_percentages(sheet)
        return [replace(row, position=i) for i, row in enumerate(sheet.rows)]

    def _judge_percentages(self, sheet: Sheet[DefaultRow]) -> None:
        if not sheet.rows:
            self._note(sheet.name, None, None, "the file names no bundle: name at least one, or leave the file out.")
            return
        percentages = [Decimal(row.percentage) for row in sheet.rows if row.percentage is not None]
        last_line = sheet.rows[-1].line
        if percentages and len(percentages) < len(sheet.rows):
            blank = next(row.line for row in sheet.rows if row.percentage is None)
            message = "the cell is empty, but other lines have a percentage: give one to all lines or to none."
            self._note(sheet.name, blank, "percentage", message)
        elif percentages and sum(percentages) != 100:
            message = f"the percentages sum to {sum(percentages)}: mend them so that they sum to exactly 100."
            self._note(sheet.name, last_line, "percentage", message)

    def _judge_bundle_reference(self, file_name: str, line: int, slug: str) -> None:
        if slug not in self._bundles and slug not in self._sheets.bundles.named and self._sheets.bundles.complete:
            message = f"there is no bundle {show(slug)}: mend the slug, or add the bundle to {FileKind.BUNDLES}."
            self._note(file_name, line, "bundle_slug", message)

    def _judge_project_reference(self, file_name: str, line: int, key: ProjectKey) -> None:
        if key not in self._projects and key not in self._sheets.projects.named and self._sheets.projects.complete:
            project = f"no project {show(key[1])} of the registry {show(key[0])}"
            message = f"there is {project}: mend the two cells, or add the project to {FileKind.PROJECTS}."
            self._note(file_name, line, "registry_project_id", message)

    def _note(self, file_name: str, line: int | None, column: str | None, message: str) -> None:
        self._bad_lines.append(BadLine(file_name, line, column, message))


def _free_slug(row: ProjectRow, taken: dict[str | None, ProjectKey]) -> str:
    stem = _slug_of(row.name) or _slug_of(row.registry_project_id) or "project"
    slug, number = stem, 2
    while slug in taken:
        slug, number = f"{stem}-{number}", number + 1
    return slug


def _slug_of(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_MADE_SLUG_LENGTH].strip("-")
