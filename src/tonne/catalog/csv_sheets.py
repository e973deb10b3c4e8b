"""A catalogue's files, each with its columns, judged line by line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from tonne.catalog.csv_cells import Cells
from tonne.catalog.csv_files import BadLine, CsvFile, CsvReader, FileKind
from tonne.catalog.csv_rows import (
    BundleProjectRow,
    BundleRow,
    Context,
    DefaultRow,
    ExchangeRateRow,
    LotRow,
    ProjectRow,
    judge_bundle,
    judge_bundle_project,
    judge_default,
    judge_exchange_rate,
    judge_lot,
    judge_project,
)


class Row(Protocol):
    @property
    def line(self) -> int: ...
    @property
    def key(self) -> object: ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Layout(Generic[R]):
    """`key_columns` are those by which a row is found again: no two rows of a file may agree in all of them."""

    required: tuple[str, ...]
    key_columns: tuple[str, ...]
    judge: Callable[[Cells, Context], R]
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sheet(Generic[R]):
    """One file, judged. `named` has the keys of bad rows too: a reference to one of them is not a second fault."""

    name: str = ""
    rows: list[R] = field(default_factory=list)
    named: set[object] = field(default_factory=set)
    complete: bool = True
    bad_lines: list[BadLine] = field(default_factory=list)


PROJECTS = Layout(
    required=(
        "registry",
        "registry_project_id",
        "name",
        "country",
        "type",
        "methodology",
        "mechanism",
        "granularity_grams",
    ),
    optional=("slug", "description", "image", "registry_url"),
    key_columns=("registry", "registry_project_id"),
    judge=judge_project,
)
BUNDLES = Layout(
    required=("slug", "name", "description", "primary_image", "unit_price", "enabled", "position"),
    key_columns=("slug",),
    judge=judge_bundle,
)
BUNDLE_PROJECTS = Layout(
    required=("bundle_slug", "registry", "registry_project_id", "weight"),
    key_columns=("bundle_slug", "registry", "registry_project_id"),
    judge=judge_bundle_project,
)
EXCHANGE_RATES = Layout(
    required=("base", "quote", "rate", "source", "as_of"),
    key_columns=("base", "quote", "as_of"),
    judge=judge_exchange_rate,
)
LOTS = Layout(
    required=(
        "registry",
        "registry_project_id",
        "vintage",
        "serial_block",
        "first_number",
        "last_number",
        "status",
        "retirement_url",
        "retired_on",
    ),
    optional=("country", "methodology"),
    key_columns=("registry", "serial_block", "first_number", "last_number"),
    judge=judge_lot,
)
DEFAULTS = Layout(required=("bundle_slug", "percentage"), key_columns=("bundle_slug",), judge=judge_default)


@dataclass(frozen=True, slots=True)
class Sheets:
    """All files of one import. A file that was not given is an empty sheet without a name."""

    projects: Sheet[ProjectRow]
    bundles: Sheet[BundleRow]
    bundle_projects: Sheet[BundleProjectRow]
    exchange_rates: Sheet[ExchangeRateRow]
    lots: Sheet[LotRow]
    defaults: Sheet[DefaultRow]

    @property
    def bad_lines(self) -> list[BadLine]:
        return [
            *self.projects.bad_lines,
            *self.bundles.bad_lines,
            *self.bundle_projects.bad_lines,
            *self.exchange_rates.bad_lines,
            *self.lots.bad_lines,
            *self.defaults.bad_lines,
        ]


def judge_files(files: Mapping[FileKind, CsvFile], context: Context) -> Sheets:
    return Sheets(
        projects=judge_file(files.get(FileKind.PROJECTS), PROJECTS, context),
        bundles=judge_file(files.get(FileKind.BUNDLES), BUNDLES, context),
        bundle_projects=judge_file(files.get(FileKind.BUNDLE_PROJECTS), BUNDLE_PROJECTS, context),
        exchange_rates=judge_file(files.get(FileKind.EXCHANGE_RATES), EXCHANGE_RATES, context),
        lots=judge_file(files.get(FileKind.LOTS), LOTS, context),
        defaults=judge_file(files.get(FileKind.DEFAULTS), DEFAULTS, context),
    )


def judge_file(file: CsvFile | None, layout: Layout[R], context: Context) -> Sheet[R]:
    if file is None:
        return Sheet()
    reader = CsvReader(file, layout.required, layout.optional)
    rows: list[R] = []
    line_of: dict[object, int] = {}
    for raw in reader.rows():
        cells = Cells(file.name, raw)
        row = layout.judge(cells, context)
        if cells.is_sound(layout.key_columns):
            first_line = line_of.setdefault(row.key, row.line)
            if first_line != row.line:
                columns = " and ".join(layout.key_columns)
                cells.note(layout.key_columns[-1], f"line {first_line} has the same {columns}: keep one of the two.")
        if cells.faults:
            reader.bad_lines.extend(cells.faults)
        else:
            rows.append(row)
    return Sheet(file.name, rows, set(line_of), reader.complete, reader.bad_lines)
