"""Import a catalogue from CSV files: all of it or nothing."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from tonne.base.currency import DECIMALS
from tonne.base.scope import Mode
from tonne.catalog import import_lots_store, import_store
from tonne.catalog.csv_files import BadLine, CsvFile, FileKind, show
from tonne.catalog.csv_rows import Context, DefaultRow
from tonne.catalog.csv_sheets import Sheets, judge_files
from tonne.catalog.import_plan import FileReport, Plan, Planner, Stored
from tonne.catalog.import_store import CatalogueHead
from tonne.db.pool import Connection


class CatalogueError(Exception):
    """An import that cannot be begun; the message says what to do."""


class BadLinesError(Exception):
    """Nothing was imported; `bad_lines` has all there is to mend."""

    def __init__(self, bad_lines: Sequence[BadLine]) -> None:
        super().__init__("\n".join(str(bad_line) for bad_line in bad_lines))
        self.bad_lines = bad_lines


@dataclass(frozen=True, slots=True)
class ImportReport:
    currency: str
    version: int
    changed: bool
    files: list[FileReport]


async def import_catalogue(
    tx: Connection, mode: Mode, files: Sequence[CsvFile], now: datetime, *, currency: str | None = None
) -> ImportReport:
    """Bring the catalogue to what the files say, or raise with every bad line and leave the transaction to roll back.

    Rows are found again by their natural key, so the same files again change nothing. Imports of both modes take
    turns. `currency` is needed once, for the first import.
    """
    by_kind = _one_of_each_kind(files)
    await import_store.take_turn(tx)
    head = await import_store.find_catalogue(tx, mode)
    currency = _settle_currency(mode, head, currency)
    sheets = judge_files(by_kind, Context(currency, now))
    plan = Planner(sheets, await _read_stored(tx, mode, sheets, head), mode).plan()
    bad_lines = [*sheets.bad_lines, *plan.bad_lines, *await _lock_changed_lots(tx, mode, sheets, plan)]
    if bad_lines:
        raise BadLinesError(_in_reading_order(bad_lines, files))
    if head is None:
        await import_store.create_catalogue(tx, mode, currency)
    with _refusals_as_bad_lines():
        await _write(tx, mode, plan, now)
    reports = _reports(sheets, plan)
    if head is not None and not any(report.has_changes for report in reports):
        return ImportReport(currency, head.version, changed=False, files=reports)
    return ImportReport(currency, await import_store.raise_version(tx, mode), changed=True, files=reports)


def _one_of_each_kind(files: Sequence[CsvFile]) -> dict[FileKind, CsvFile]:
    by_kind: dict[FileKind, CsvFile] = {}
    for file in files:
        if by_kind.setdefault(file.kind, file) is not file:
            raise CatalogueError(f"Two files hold {file.kind.name.lower()}: import them one after the other.")
    return by_kind


def _settle_currency(mode: Mode, head: CatalogueHead | None, currency: str | None) -> str:
    if currency is not None and currency not in DECIMALS:
        raise CatalogueError(f"{show(currency)} is not a currency: give its ISO 4217 code in capitals, such as EUR.")
    if head is None:
        if currency is None:
            raise CatalogueError(
                f"There is no {mode} catalogue yet: import one with `tonne catalogue import --mode {mode}`, and "
                "name the currency of its prices with --currency."
            )
        return currency
    if currency not in {None, head.currency}:
        raise CatalogueError(
            f"The {mode} catalogue is priced in {head.currency}, and {currency} would change what every price means: "
            "leave --currency out."
        )
    return head.currency


async def _read_stored(tx: Connection, mode: Mode, sheets: Sheets, head: CatalogueHead | None) -> Stored:
    bundles = await import_store.read_bundles(tx, mode)
    bundle_slugs = {row.bundle_slug for row in sheets.bundle_projects.rows}
    blocks = {row.block_key for row in sheets.lots.rows}
    selection = [choice for choice in (head.default_selection if head else []) if choice["bundle_id"] in bundles]
    return Stored(
        projects=await import_store.read_projects(tx, mode),
        bundles=bundles,
        bundle_projects=await import_store.read_bundle_projects(tx, mode, bundle_slugs),
        exchange_rates=await import_store.read_exchange_rates(tx, mode, sheets.exchange_rates.rows),
        lots=await import_lots_store.read_lots(tx, blocks),
        defaults=[
            DefaultRow(
                bundle_slug=bundles[choice["bundle_id"]].slug, percentage=choice.get("percentage"), position=position
            )
            for position, choice in enumerate(selection)
        ],
    )


async def _lock_changed_lots(tx: Connection, mode: Mode, sheets: Sheets, plan: Plan) -> list[BadLine]:
    """Lots whose tonnes are promised to orders must stay what they were when they were promised."""
    free_ids = await import_lots_store.lock_unallocated_lots(
        tx, mode, [plan.lot_ids[row.key] for row in plan.lots.changed]
    )
    message = "tonnes of this lot are allocated to orders, so it cannot change: restore the line as it was imported."
    return [
        BadLine(sheets.lots.name, row.line, None, message)
        for row in plan.lots.changed
        if plan.lot_ids[row.key] not in free_ids
    ]


async def _write(tx: Connection, mode: Mode, plan: Plan, now: datetime) -> None:
    bundle_ids, project_ids = plan.bundle_ids, plan.project_ids
    await import_store.save_projects(tx, mode, plan.projects.saved, project_ids, now)
    await import_store.save_bundles(tx, mode, plan.bundles.saved, bundle_ids, now)
    await import_store.remove_bundle_projects(
        tx, mode, [(bundle_ids[row.bundle_slug], project_ids[row.project_key]) for row in plan.bundle_projects.removed]
    )
    await import_store.save_bundle_projects(tx, mode, plan.bundle_projects.saved, bundle_ids, project_ids)
    await import_store.save_exchange_rates(tx, mode, plan.exchange_rates.saved)
    await import_lots_store.save_serial_blocks(tx, {row.block_key for row in plan.lots.new})
    await import_lots_store.insert_lots(tx, mode, plan.lots.new, project_ids, now)
    changed_lots = {plan.lot_ids[row.key]: row for row in plan.lots.changed}
    await import_lots_store.update_lots(tx, mode, changed_lots, project_ids)
    if plan.defaults.saved or plan.defaults.removed:
        await import_store.save_defaults(tx, mode, plan.selection, bundle_ids)


@contextmanager
def _refusals_as_bad_lines() -> Iterator[None]:
    """Every line was judged, so a constraint can only be broken by a change that did not take its turn."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        message = f"another change got in between and broke {error.constraint_name}: import again."
        raise BadLinesError([BadLine(f"table {error.table_name}", None, None, message)]) from error


def _reports(sheets: Sheets, plan: Plan) -> list[FileReport]:
    """One per file that was given."""
    reports = [
        plan.projects.report(sheets.projects.name),
        plan.bundles.report(sheets.bundles.name),
        plan.bundle_projects.report(sheets.bundle_projects.name),
        plan.exchange_rates.report(sheets.exchange_rates.name),
        plan.lots.report(sheets.lots.name),
        plan.defaults.report(sheets.defaults.name),
    ]
    return [report for report in reports if report.name]


def _in_reading_order(bad_lines: list[BadLine], files: Sequence[CsvFile]) -> list[BadLine]:
    order = {file.name: i for i, file in enumerate(files)}
    return sorted(bad_lines, key=lambda bad_line: (order[bad_line.file], bad_line.line or 0))
