"""Import lots, alone or together with the catalogue: all or nothing.

No two lots may contain the same serial number: the database would refuse them too, but could not name the line. The
granularity of a project is fixed once credits of it are allocated, because parcels consist of whole units.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import date
from decimal import Decimal
from functools import partial

import asyncpg
import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid, quoted
from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.platform.documents.sheets.read_sheet import RowChanges, Sheet, SheetFile, read_sheet
from tonne.platform.events.audit.record import record_all
from tonne.platform.process.progress import progress
from tonne.platform.values.context import By, Mode, new_id
from tonne.selling.catalogue.imports.audit import catalogue_entries, import_entry, row_entries
from tonne.selling.catalogue.imports.import_catalogue import ImportReport, begin_import, finish_import, save_catalogue
from tonne.selling.catalogue.imports.plan import CataloguePlan, FileKind, Files, check_project
from tonne.selling.catalogue.sources import lock_members
from tonne.selling.orders.queue import wake_all_short
from tonne.supply.stock.holds.hold_store import find_overheld_any_account, is_removed_project_held_any_account
from tonne.supply.stock.lots.lot_case_store import wake_resupply
from tonne.supply.stock.lots.lots import (
    LotRow,
    SerialBlock,
    StoredLot,
    check_lot,
    find_allocated,
    find_canonical,
    find_holders_any_account,
    latest_day,
    lock_unallocated_lots,
    name_holders,
    read_lots,
    save_lots,
)

_REMEDY = "a serial number can be sold only once, so correct the numbers or delete the line."


def find_overlaps(
    sheet: Sheet[LotRow], blocks: Mapping[SerialBlock, str], others: Iterable[StoredLot], mode: Mode
) -> Iterator[RowError]:
    """Report each row that overlaps another row or one of the `others`: stored lots that the file does not change.

    `blocks` has the canonical spelling of every block in the file. `others` are ordered by first number.
    """
    others_by_block: defaultdict[str, list[StoredLot]] = defaultdict(list)
    for lot in others:
        others_by_block[lot.block].append(lot)
    rows_by_block: defaultdict[str, list[LotRow]] = defaultdict(list)
    for row in sheet.rows:
        rows_by_block[blocks[row.block_key]].append(row)
    for block, rows in rows_by_block.items():
        yield from _overlaps_in_file(sheet.name, rows)
        yield from _overlaps_with_stored(sheet.name, rows, others_by_block[block], mode)


def _overlaps_in_file(file: str, rows: list[LotRow]) -> Iterator[RowError]:
    furthest: LotRow | None = None
    for row in sorted(rows, key=lambda row: (row.first_number, row.line)):
        other = furthest
        if other is None or row.last_number > other.last_number:
            furthest = row
        if other is not None and row.first_number <= other.last_number:
            earlier, later = sorted((row, other), key=lambda row: row.line)
            message = f"the lot overlaps {earlier.numbers} of line {earlier.line} in its serial block: {_REMEDY}"
            yield RowError(file, later.line, "first_number", message)


def _overlaps_with_stored(file: str, rows: list[LotRow], others: list[StoredLot], mode: Mode) -> Iterator[RowError]:
    first_numbers = [lot.row.first_number for lot in others]
    for row in rows:
        # Stored lots do not overlap one another, so only the last one that starts within the row can overlap it.
        i = bisect_right(first_numbers, row.last_number) - 1
        if i < 0 or others[i].row.last_number < row.first_number:
            continue
        other = others[i]
        where = f"which the {other.mode} catalogue holds in block {quoted(other.row.serial_block)}"
        hint = f" To correct that lot, enter {other.id} in the column lot_id." if other.mode == mode else ""
        message = f"the lot overlaps {other.row.numbers}, {where}: {_REMEDY}{hint}"
        yield RowError(file, row.line, "first_number", message)


FIND_ALLOCATED_LOTS = """
SELECT id, project_id FROM lots WHERE mode = $1 AND project_id = ANY ($2::text[]) AND allocated_grams > 0 ORDER BY id
"""


async def find_allocated_lots(tx: Connection, mode: Mode, project_ids: Collection[str]) -> dict[str, list[str]]:
    """The ids of the lots of which orders hold grams, by project."""
    found: dict[str, list[str]] = {}
    for row in await tx.fetch(FIND_ALLOCATED_LOTS, mode, list(project_ids)):
        found.setdefault(row["project_id"], []).append(row["id"])
    return found


async def check_granularity(tx: Connection, mode: Mode, catalogue: CataloguePlan) -> list[RowError]:
    """Report projects whose granularity would change under allocated credits. The caller has locked the projects."""
    before = catalogue.projects.stored
    changed = {
        catalogue.project_ids[row.key]: row
        for row in catalogue.projects.changed
        if row.granularity_grams != before[row.key].granularity_grams
    }
    if not changed:
        return []
    lots = await find_allocated_lots(tx, mode, changed)
    errors = []
    for project_id, lot_ids in lots.items():
        row = changed[project_id]
        holders = await find_holders_any_account(tx, mode, lot_ids)
        orders = sorted({order_id for ids in holders.values() for order_id in ids})
        message = (
            f"tonnes of {row.registry} {row.registry_project_id} are allocated to {name_holders(orders)} in units of "
            f"{before[row.key].granularity_grams} g, so the unit cannot change: write "
            f"{before[row.key].granularity_grams}."
        )
        errors.append(RowError(catalogue.projects.file, row.line, "granularity_grams", message))
    return errors


# New lots, and projects that a bundle did not have before.
_BRINGS_SUPPLY = {FileKind.LOTS, FileKind.BUNDLE_PROJECTS}


class LotPlan(msgspec.Struct, frozen=True):
    changes: RowChanges[LotRow]
    # New and changed lots, by id.
    saved: dict[str, LotRow]
    errors: list[RowError]
    # What changes in each lot, for people.
    corrections: list[str]


async def import_files(
    tx: Connection,
    mode: Mode,
    files: Files,
    *,
    by: By,
    currency: str | None = None,
    max_rate_change: Decimal | None = None,
) -> ImportReport:
    """Import catalogue files and lots, or raise SheetInvalid with every error. Orders that wait for supply are retried.

    Only the first import of a mode needs `currency`. Without `max_rate_change`, exchange rates may change in any way.
    """
    if _BRINGS_SUPPLY & files.keys():
        # Before any lot is locked: workers lock orders before lots, too.
        await wake_all_short(tx, mode)
        await wake_resupply(tx, mode)
    head, catalogue = await begin_import(tx, mode, files, currency=currency, max_rate_change=max_rate_change)
    await _lock_members(tx, mode, catalogue)
    granularity_errors = await check_granularity(tx, mode, catalogue)
    lots = await _plan_lots(tx, mode, files.get(FileKind.LOTS), catalogue, latest_day(by.at))
    errors = [*catalogue.errors, *granularity_errors, *lots.errors]
    if errors:
        order = [file.name for file in files.values()]
        raise SheetInvalid(sorted(errors, key=lambda error: (order.index(error.file), error.line or 0)))
    with _violations_as_errors(), progress("Saving", 2) as advance:
        await save_catalogue(tx, head, catalogue, by.at)
        advance(1)
        await save_lots(tx, mode, lots.saved, catalogue.project_ids, by.at)
        advance(1)
    if catalogue.bundle_projects.removed and await is_removed_project_held_any_account(tx, mode):
        message = "customers who are paying now hold tonnes of a project that is removed: import again in 35 minutes."
        raise SheetInvalid([RowError(catalogue.bundle_projects.file, None, None, message)])
    if lots.corrections and await find_overheld_any_account(tx, mode):
        message = "customers who are paying now hold tonnes of a lot that would shrink: import again in 35 minutes."
        raise SheetInvalid([RowError(lots.changes.file, None, None, message)])
    changes = [*catalogue.changes, lots.changes] if lots.changes.file else catalogue.changes
    report = await finish_import(tx, head, changes)
    if report.changed:
        lot_ids = {row.key: id_ for id_, row in lots.saved.items()}
        entries = [
            import_entry(head, report.version, files, changes),
            *catalogue_entries(head, catalogue),
            *row_entries("lot", lots.changes, lot_ids, mode),
        ]
        await record_all(tx, entries, by=by)
    return msgspec.structs.replace(report, details=tuple(lots.corrections))


async def _lock_members(tx: Connection, mode: Mode, catalogue: CataloguePlan) -> None:
    """Before any lot is locked: workers lock the projects of bundles before lots, too."""
    changes = catalogue.bundle_projects
    bundle_ids = {catalogue.bundle_ids.get((row.bundle_slug,), "") for row in (*changes.saved, *changes.removed)}
    project_ids = {catalogue.project_ids[row.key] for row in catalogue.projects.changed}
    if bundle_ids or project_ids:
        await lock_members(tx, mode, bundle_ids=bundle_ids, project_ids=project_ids)


async def _plan_lots(
    tx: Connection, mode: Mode, file: SheetFile | None, catalogue: CataloguePlan, latest: date
) -> LotPlan:
    sheet = read_sheet(file, LotRow, partial(check_lot, latest))
    blocks = await find_canonical(tx, {row.block_key for row in sheet.rows})
    every = await read_lots(tx, set(blocks.values()), {row.lot_id for row in sheet.rows if row.lot_id})
    stored = _match(sheet, {row.line: blocks[row.block_key] for row in sheet.rows}, every, mode)
    known_ids = {lot.id for lot in stored.values()}
    errors = [
        *sheet.errors,
        *find_overlaps(sheet, blocks, [lot for lot in every if lot.id not in known_ids], mode),
    ]
    new, changed = [], {}
    for row in sheet.rows:
        errors += check_project(sheet.name, row, catalogue.known_projects)
        # A stored lot keeps its values, because certificates may already show them.
        lot = stored.get(row.line)
        source = lot.row if lot else catalogue.known_projects.by_key.get(row.project_key, row)
        full = replace(
            row,
            serial_block=_as_stored(row, lot),
            country=row.country or source.country,
            methodology=row.methodology or source.methodology,
            unit_cost=row.unit_cost if lot is None or row.unit_cost is not None else lot.row.unit_cost,
            cost_currency=row.cost_currency or (None if lot is None else lot.row.cost_currency),
            lot_id=lot.id if lot else None,
        )
        if lot is None:
            new.append(full)
        elif full != lot.row:
            changed[lot.id] = full
    errors += await _check_unallocated(tx, mode, sheet.name, changed)
    before = {lot.id: lot.row for lot in stored.values()}
    corrections = [f"{id_}: {_difference(before[id_], row)}" for id_, row in changed.items()]
    unchanged = len(sheet.rows) - len(new) - len(changed)
    compared = {row.key: before[id_] for id_, row in changed.items()}
    changes = RowChanges(sheet.name, new, list(changed.values()), [], unchanged, compared)
    return LotPlan(changes, changed | {new_id("lot"): row for row in new}, errors, corrections)


def _match(sheet: Sheet[LotRow], blocks: dict[int, str], every: list[StoredLot], mode: Mode) -> dict[int, StoredLot]:
    """The stored lot of each row that has one, by line: the one that it names, or that has the same serial numbers.

    `blocks` has the canonical serial block of each line. Adds errors of `lot_id` to the sheet.
    """
    by_id = {lot.id: lot for lot in every if lot.mode == mode}
    named: dict[str, int] = {}
    found: dict[int, StoredLot] = {}
    for row in sheet.rows:
        if row.lot_id is None:
            continue
        if row.lot_id not in by_id:
            remedy = f"copy the id from `tonne lot list --mode {mode}`, or leave the cell empty for a new lot."
            sheet.add_error(row.line, "lot_id", f"there is no lot {quoted(row.lot_id)} in {mode} mode: {remedy}")
        elif row.lot_id in named:
            sheet.add_error(row.line, "lot_id", f"line {named[row.lot_id]} corrects the same lot: keep one of the two.")
        else:
            named[row.lot_id] = row.line
            found[row.line] = by_id[row.lot_id]
    by_numbers = {
        (lot.block, lot.row.first_number, lot.row.last_number): lot for lot in by_id.values() if lot.id not in named
    }
    for row in sheet.rows:
        lot = by_numbers.get((blocks[row.line], row.first_number, row.last_number))
        if row.lot_id is None and lot is not None:
            # Spellings of one block may differ between two lines. The second is reported as an overlap.
            found.setdefault(row.line, lot)
    return found


async def _check_unallocated(tx: Connection, mode: Mode, file: str, changed: dict[str, LotRow]) -> list[RowError]:
    """Lock the lots that change. Those of which orders hold grams, or that others have locked, are errors."""
    in_use = changed.keys() - await lock_unallocated_lots(tx, mode, list(changed))
    if not in_use:
        return []
    allocated = await find_allocated(tx, mode, in_use)
    holders = await find_holders_any_account(tx, mode, in_use)
    return [
        RowError(
            file,
            changed[id_].line,
            None,
            f"tonnes of this lot are allocated to {name_holders(holders.get(id_, []))}, so it cannot change: restore "
            "the line as it was imported."
            if id_ in allocated
            else "an order or a checkout is using this lot right now: import again in a moment.",
        )
        for id_ in sorted(in_use)
    ]


def _as_stored(row: LotRow, lot: StoredLot | None) -> str:
    """An exported block may have got a quote mark in front, so that a spreadsheet does not run it as a formula."""
    is_escaped = lot is not None and row.serial_block == escape_formula(lot.row.serial_block)
    return lot.row.serial_block if lot is not None and is_escaped else row.serial_block


def _difference(before: LotRow, after: LotRow) -> str:
    changes = [
        f"{name} {_shown(old)} → {_shown(new)}"
        for name, old in asdict(before).items()
        if name != "line" and (new := getattr(after, name)) != old
    ]
    return ", ".join(changes)


def _shown(value: object) -> str:
    return "-" if value is None else quoted(value) if isinstance(value, str) else str(value)


@contextmanager
def _violations_as_errors() -> Iterator[None]:
    """All rows are valid, so only a change that did not acquire the import lock can cause a constraint violation."""
    try:
        yield
    except asyncpg.IntegrityConstraintViolationError as error:
        message = f"a concurrent change violated {error.constraint_name}: import again."
        raise SheetInvalid([RowError(f"table {error.table_name}", None, None, message)]) from error
