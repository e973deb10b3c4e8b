"""Import lots, alone or together with the catalogue: all or nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial

import asyncpg

from tonne.accounts.audit import record_all
from tonne.base.actor import Actor
from tonne.base.ids import new_id
from tonne.base.scope import Mode
from tonne.catalog.import_audit import catalogue_entries, import_entry, row_entries
from tonne.catalog.import_catalogue import ImportReport, begin_import, finish_import, save_catalogue
from tonne.catalog.import_plan import CataloguePlan, check_project
from tonne.catalog.import_rows import FileKind, Files
from tonne.db.pool import Connection
from tonne.orders.queue import wake_short_any_account
from tonne.retirements.lot_overlaps import find_overlaps
from tonne.retirements.lots import LotRow, check_lot, latest_day, lock_unallocated_lots, read_lots, save_lots
from tonne.sheets.compare import RowChanges, compare
from tonne.sheets.csv_lines import SheetFile
from tonne.sheets.errors import RowError, SheetInvalid
from tonne.sheets.read_sheet import read_sheet

# New lots, and projects that a bundle did not have before.
_BRINGS_SUPPLY = {FileKind.LOTS, FileKind.BUNDLE_PROJECTS}


@dataclass(frozen=True, slots=True)
class LotPlan:
    changes: RowChanges[LotRow]
    # New and changed lots, by id.
    saved: dict[str, LotRow]
    errors: list[RowError]


async def import_files(
    tx: Connection, mode: Mode, files: Files, now: datetime, *, actor: Actor, currency: str | None = None
) -> ImportReport:
    """Import catalogue files and lots, or raise SheetInvalid with every error. Orders that wait for supply are retried.

    Only the first import of a mode needs `currency`.
    """
    if _BRINGS_SUPPLY & files.keys():
        # Before any lot is locked: workers lock orders before lots, too.
        await wake_short_any_account(tx, mode)
    head, catalogue = await begin_import(tx, mode, files, currency=currency)
    lots = await _plan_lots(tx, mode, files.get(FileKind.LOTS), catalogue, latest_day(now))
    errors = [*catalogue.errors, *lots.errors]
    if errors:
        order = [file.name for file in files.values()]
        raise SheetInvalid(sorted(errors, key=lambda error: (order.index(error.file), error.line or 0)))
    with _violations_as_errors():
        await save_catalogue(tx, head, catalogue, now)
        await save_lots(tx, mode, lots.saved, catalogue.project_ids, now)
    changes = [*catalogue.changes, lots.changes] if lots.changes.file else catalogue.changes
    report = await finish_import(tx, head, changes)
    if report.changed:
        lot_ids = {row.key: id_ for id_, row in lots.saved.items()}
        entries = [
            import_entry(head, report.version, files, changes),
            *catalogue_entries(head, catalogue),
            *row_entries("lot", lots.changes, lot_ids, mode),
        ]
        await record_all(tx, entries, actor=actor, at=now)
    return report


async def _plan_lots(
    tx: Connection, mode: Mode, file: SheetFile | None, catalogue: CataloguePlan, latest_day: date
) -> LotPlan:
    sheet = read_sheet(file, LotRow, partial(check_lot, latest_day))
    every = await read_lots(tx, {row.block_key for row in sheet.rows})
    stored = {lot.row.key: lot for lot in every if lot.mode == mode}
    errors = [*sheet.errors, *find_overlaps(sheet, every, mode)]
    rows = []
    for row in sheet.rows:
        errors += check_project(sheet.name, row, catalogue.known_projects)
        # A stored lot keeps its values, because certificates may already show them.
        known = stored.get(row.key)
        source = known.row if known else catalogue.known_projects.by_key.get(row.project_key, row)
        rows.append(
            replace(row, country=row.country or source.country, methodology=row.methodology or source.methodology)
        )
    changes = compare(sheet.name, rows, [lot.row for lot in stored.values()])
    changed = {stored[row.key].id: row for row in changes.changed}
    unallocated = await lock_unallocated_lots(tx, mode, list(changed))
    message = "tonnes of this lot are allocated to orders, so it cannot change: restore the line as it was imported."
    errors += [RowError(sheet.name, row.line, None, message) for id_, row in changed.items() if id_ not in unallocated]
    return LotPlan(changes, changed | {new_id("lot"): row for row in changes.new}, errors)


@contextmanager
def _violations_as_errors() -> Iterator[None]:
    """All rows are valid, so only a change that did not acquire the import lock can cause a constraint violation."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        message = f"a concurrent change violated {error.constraint_name}: import again."
        raise SheetInvalid([RowError(f"table {error.table_name}", None, None, message)]) from error
