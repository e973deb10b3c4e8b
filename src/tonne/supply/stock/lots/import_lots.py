"""Import lots, alone or together with the catalogue: all or nothing.

No two lots may contain the same serial number: the database would refuse them too, but could not name the line. The
granularity of a project is the unit of all its lots, because parcels consist of whole units.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import date
from decimal import Decimal
from functools import partial
from operator import itemgetter

import asyncpg
import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import RowChanges, Sheet, SheetFile, read_sheet
from tonne.platform.events.audit.record import record_all
from tonne.platform.process.progress import progress
from tonne.platform.values.context import By, Mode, new_id
from tonne.selling.catalogue.imports.audit import catalogue_entries, import_entry, row_entries
from tonne.selling.catalogue.imports.import_catalogue import ImportReport, begin_import, finish_import, save_catalogue
from tonne.selling.catalogue.imports.plan import CataloguePlan, FileKind, Files, check_project
from tonne.selling.catalogue.imports.store import read_projects
from tonne.selling.catalogue.sources import lock_members
from tonne.selling.orders.queue import wake_all_short
from tonne.supply.stock.holds.hold_store import find_overheld_any_account, is_removed_project_held_any_account
from tonne.supply.stock.lots.check_serials import Disagreement, read_units
from tonne.supply.stock.lots.freeze_facts import refresh_facts, set_lot_facts
from tonne.supply.stock.lots.lot_case_store import wake_resupply
from tonne.supply.stock.lots.lot_facts import LotFacts
from tonne.supply.stock.lots.lot_store import has_demo_lots
from tonne.supply.stock.lots.lots import (
    LotRow,
    LotUnits,
    StoredLot,
    check_lot,
    find_allocated,
    find_holders_any_account,
    latest_day,
    lock_unallocated_lots,
    name_holders,
    read_lots,
    save_lots,
)
from tonne.supply.stock.lots.public_exports import ExportRequest, convert_export, is_lots_file, read_header
from tonne_verify.formulas import escape_formula
from tonne_verify.serials.units import UnitRange

_REMEDY = "a serial number can be sold only once, so correct the numbers or delete the line."


def find_overlaps(file: str, lines: Sequence[LotUnits], others: Iterable[StoredLot], mode: Mode) -> Iterator[RowError]:
    """Report each line that overlaps another one or one of the `others`: stored lots that the file does not change.

    `others` are ordered by first number.
    """
    others_by_namespace: defaultdict[str, list[StoredLot]] = defaultdict(list)
    for lot in others:
        others_by_namespace[lot.units.namespace].append(lot)
    by_namespace: defaultdict[str, list[LotUnits]] = defaultdict(list)
    for line in lines:
        by_namespace[line.units.namespace].append(line)
    for namespace, of_namespace in by_namespace.items():
        yield from _overlaps_in_file(file, of_namespace)
        yield from _overlaps_with_stored(file, of_namespace, others_by_namespace[namespace], mode)


def _overlaps_in_file(file: str, lines: list[LotUnits]) -> Iterator[RowError]:
    furthest: LotUnits | None = None
    for each in sorted(lines, key=lambda each: (each.units.first, each.row.line)):
        other = furthest
        if other is None or each.units.last > other.units.last:
            furthest = each
        if other is not None and each.units.first <= other.units.last:
            earlier, later = sorted((each.row, other.row), key=lambda row: row.line)
            message = f"the lot overlaps {quoted(earlier.serial or '')} of line {earlier.line}: {_REMEDY}"
            yield RowError(file, later.line, "serial", message)


def _overlaps_with_stored(file: str, lines: list[LotUnits], others: list[StoredLot], mode: Mode) -> Iterator[RowError]:
    first_numbers = [lot.units.first for lot in others]
    for row, units in lines:
        # Stored lots do not overlap one another, so only the last one that starts within the row can overlap it.
        i = bisect_right(first_numbers, units.last) - 1
        if i < 0 or others[i].units.last < units.first:
            continue
        other = others[i]
        hint = f" To correct that lot, enter {other.id} in the column lot_id." if other.mode == mode else ""
        message = f"the lot overlaps {quoted(other.units.text)} of the {other.mode} catalogue: {_REMEDY}{hint}"
        yield RowError(file, row.line, "serial", message)


FIND_OTHER_UNITS = """
SELECT DISTINCT ON (lots.project_id) lots.project_id, lots.unit_grams
FROM unnest($2::text[], $3::bigint[]) AS changed (project_id, unit_grams)
JOIN lots ON lots.mode = $1 AND lots.project_id = changed.project_id AND lots.unit_grams <> changed.unit_grams
ORDER BY lots.project_id
"""


async def check_granularity(tx: Connection, mode: Mode, catalogue: CataloguePlan) -> list[RowError]:
    """Report projects whose granularity would differ from the units of their lots."""
    changed = {catalogue.project_ids[row.key]: row for row in catalogue.projects.changed}
    if not changed:
        return []
    units = [row.granularity_grams for row in changed.values()]
    return [
        RowError(
            catalogue.projects.file,
            changed[lot["project_id"]].line,
            "granularity_grams",
            f"the project has lots in units of {lot['unit_grams']} g: write {lot['unit_grams']}, or withdraw them.",
        )
        for lot in await tx.fetch(FIND_OTHER_UNITS, mode, list(changed), units)
    ]


HAVE_LOTS = "SELECT DISTINCT project_id FROM lots WHERE mode = $1 AND project_id = ANY ($2::text[])"


async def check_issued(tx: Connection, mode: Mode, catalogue: CataloguePlan) -> list[RowError]:
    """Report projects with lots whose credits are said not to be issued."""
    unissued = {catalogue.project_ids[row.key]: row for row in catalogue.projects.changed if not row.is_issued}
    rows = await tx.fetch(HAVE_LOTS, mode, list(unissued)) if unissued else []
    message = "the project has lots, so its credits are issued: write ex_post, or withdraw the lots."
    lines = sorted(unissued[row["project_id"]].line for row in rows)
    return [RowError(catalogue.projects.file, line, "offset_delivery", message) for line in lines]


LIST_NUMBERS = """
SELECT lots.first_number, lots.last_number, lots.serial, serial_blocks.namespace
FROM serial_blocks JOIN lots ON lots.serial_block = serial_blocks.number
WHERE serial_blocks.namespace LIKE 'VERRA %' ORDER BY lots.first_number
"""


async def find_same_numbers(tx: Connection, lines: Sequence[LotUnits]) -> list[str]:
    """For people: new lots of Verra with numbers of another batch. They may be the same credits.

    Numbers run through all batches of a registrar, as far as is known.
    """
    verra = [each for each in lines if each.units.grammar == "verra"]
    by_registrar: defaultdict[str, list[asyncpg.Record]] = defaultdict(list)
    for lot in await tx.fetch(LIST_NUMBERS) if verra else ():
        by_registrar[lot["namespace"].rpartition(" ")[0]].append(lot)
    found = []
    for row, units in verra:
        lots = by_registrar[units.namespace.rpartition(" ")[0]]
        i = bisect_right(lots, units.last, key=itemgetter("first_number")) - 1
        if i >= 0 and lots[i]["last_number"] >= units.first and lots[i]["namespace"] != units.namespace:
            message = "has some of its numbers in another batch. Check that these are two runs."
            found.append(f"Line {row.line}: {lots[i]['serial']} {message}")
    return found


# New lots, and projects that a bundle did not have before.
_BRINGS_SUPPLY = {FileKind.LOTS, FileKind.BUNDLE_PROJECTS}


class LotPlan(msgspec.Struct, frozen=True):
    changes: RowChanges[LotRow]
    # New and changed lots, by id.
    saved: dict[str, LotUnits]
    # Lots of which only facts change, which orders may hold meanwhile.
    restated: dict[str, LotUnits]
    errors: list[RowError]
    # What changes in each lot, for people.
    corrections: list[str]
    warnings: list[str]


async def as_lots_file(
    connection: Connection, mode: Mode, file: SheetFile, request: ExportRequest
) -> tuple[SheetFile, list[str]]:
    """lots.csv as it is; a public export as lines of lots.csv, with notes. Raises SheetInvalid, or ColumnsUnknown."""
    if is_lots_file(read_header(file)):
        return file, []
    projects = [(row.registry, row.registry_project_id) for row in (await read_projects(connection, mode)).values()]
    done = convert_export(file, request, projects)
    return done.file, done.notes


async def import_files(
    tx: Connection,
    mode: Mode,
    files: Files,
    *,
    by: By,
    currency: str | None = None,
    max_rate_change: Decimal | None = None,
    is_demo: bool = False,
) -> ImportReport:
    """Import catalogue files and lots, or raise SheetInvalid with every error. Orders that wait for supply are retried.

    Only the first import of a mode needs `currency`. Without `max_rate_change`, exchange rates may change in any way.
    `is_demo`: the installation becomes a demo, whose live lots have made-up serials.
    """
    if _BRINGS_SUPPLY & files.keys():
        # Before any lot is locked: workers lock orders before lots, too.
        await wake_all_short(tx, mode)
        await wake_resupply(tx, mode)
    head, catalogue = await begin_import(tx, mode, files, currency=currency, max_rate_change=max_rate_change)
    await _lock_members(tx, mode, catalogue)
    project_errors = [*await check_granularity(tx, mode, catalogue), *await check_issued(tx, mode, catalogue)]
    is_demo = is_demo or await has_demo_lots(tx)
    lots = await _plan_lots(tx, mode, files.get(FileKind.LOTS), catalogue, latest_day(by.at), is_demo=is_demo)
    errors = [*catalogue.errors, *project_errors, *lots.errors]
    if errors:
        order = [file.name for file in files.values()]
        raise SheetInvalid(sorted(errors, key=lambda error: (order.index(error.file), error.line or 0)))
    with _violations_as_errors(), progress("Saving", 2) as advance:
        await save_catalogue(tx, head, catalogue, by.at)
        advance(1)
        await save_lots(tx, mode, lots.saved, catalogue.project_ids, by.at)
        await set_lot_facts(tx, mode, lots.restated)
        advance(1)
    changed_projects = [catalogue.project_ids[row.key] for row in catalogue.projects.changed]
    if not await refresh_facts(tx, mode, lot_ids=[*lots.saved, *lots.restated], project_ids=changed_projects):
        message = "orders are getting credits of its lots right now: import again in a moment."
        raise SheetInvalid([RowError(lots.changes.file or catalogue.projects.file, None, None, message)])
    if catalogue.bundle_projects.removed and await is_removed_project_held_any_account(tx, mode):
        message = "customers who are paying now hold tonnes of a project that is removed: import again in 35 minutes."
        raise SheetInvalid([RowError(catalogue.bundle_projects.file, None, None, message)])
    if lots.corrections and await find_overheld_any_account(tx, mode):
        message = "customers who are paying now hold tonnes of a lot that would shrink: import again in 35 minutes."
        raise SheetInvalid([RowError(lots.changes.file, None, None, message)])
    changes = [*catalogue.changes, lots.changes] if lots.changes.file else catalogue.changes
    report = await finish_import(tx, head, changes)
    if report.changed:
        lot_ids = {row.key: id_ for id_, (row, _) in lots.saved.items()}
        lot_ids |= {row.key: id_ for id_, (row, _) in lots.restated.items()}
        entries = [
            import_entry(head, report.version, files, changes),
            *catalogue_entries(head, catalogue),
            *row_entries("lot", lots.changes, lot_ids, mode),
        ]
        await record_all(tx, entries, by=by)
    return msgspec.structs.replace(report, details=(*lots.corrections, *lots.warnings))


async def _lock_members(tx: Connection, mode: Mode, catalogue: CataloguePlan) -> None:
    """Before any lot is locked: workers lock the projects of bundles before lots, too."""
    changes = catalogue.bundle_projects
    bundle_ids = {catalogue.bundle_ids.get((row.bundle_slug,), "") for row in (*changes.saved, *changes.removed)}
    project_ids = {catalogue.project_ids[row.key] for row in catalogue.projects.changed}
    if bundle_ids or project_ids:
        await lock_members(tx, mode, bundle_ids=bundle_ids, project_ids=project_ids)


async def _plan_lots(
    tx: Connection, mode: Mode, file: SheetFile | None, catalogue: CataloguePlan, latest: date, *, is_demo: bool
) -> LotPlan:
    sheet = read_sheet(file, LotRow, partial(check_lot, latest))
    lines = list(_read_units(sheet, catalogue, mode, is_demo=is_demo))
    every = await read_lots(
        tx, {units.namespace for _, units in lines}, {row.lot_id for row in sheet.rows if row.lot_id}
    )
    stored = _match(sheet, lines, every, mode)
    known_ids = {lot.id for lot in stored.values()}
    errors = [*sheet.errors, *find_overlaps(sheet.name, lines, [lot for lot in every if lot.id not in known_ids], mode)]
    new: list[LotUnits] = []
    changed: dict[str, LotUnits] = {}
    restated: dict[str, LotUnits] = {}
    kept = [name for name in LotFacts.__struct_fields__ if name not in sheet.columns]
    for row, units in lines:
        # A stored lot keeps its values, because certificates may already show them.
        lot = stored.get(row.line)
        source = lot.row if lot else catalogue.known_projects.by_key.get(row.project_key, row)
        full = LotUnits(
            replace(
                row,
                serial=_as_stored(row, lot),
                country=row.country or source.country,
                methodology=row.methodology or source.methodology,
                unit_cost=row.unit_cost if lot is None or row.unit_cost is not None else lot.row.unit_cost,
                cost_currency=row.cost_currency or (None if lot is None else lot.row.cost_currency),
                lot_id=lot.id if lot else None,
                **({name: getattr(lot.row, name) for name in kept} if lot else {}),
            ),
            units,
        )
        if lot is None:
            new.append(full)
        elif full.row != lot.row:
            as_before = replace(full.row, **msgspec.structs.asdict(lot.row.facts))
            (restated if as_before == lot.row else changed)[lot.id] = full
    errors += await _check_unallocated(tx, mode, sheet.name, changed)
    before = {lot.id: lot.row for lot in stored.values()}
    every_changed = changed | restated
    corrections = [f"{id_}: {_difference(before[id_], each.row)}" for id_, each in every_changed.items()]
    unchanged = len(lines) - len(new) - len(every_changed)
    compared = {each.row.key: before[id_] for id_, each in every_changed.items()}
    rows = [each.row for each in new], [each.row for each in every_changed.values()]
    changes = RowChanges(sheet.name, *rows, [], unchanged, compared)
    saved = changed | {new_id("lot"): each for each in new}
    return LotPlan(changes, saved, restated, errors, corrections, await find_same_numbers(tx, new))


def _read_units(sheet: Sheet[LotRow], catalogue: CataloguePlan, mode: Mode, *, is_demo: bool) -> Iterator[LotUnits]:
    """The lines whose serials agree with their projects. Adds the errors of the others to the sheet."""
    projects = catalogue.known_projects
    for row in sheet.rows:
        sheet.errors += check_project(sheet.name, row, projects)
        try:
            yield read_units(row, projects.by_key.get(row.project_key), mode, is_demo=is_demo)
        except Disagreement as error:
            sheet.add_error(row.line, error.column, str(error))


def _match(sheet: Sheet[LotRow], lines: Sequence[LotUnits], every: list[StoredLot], mode: Mode) -> dict[int, StoredLot]:
    """The stored lot of each row that has one, by line: the one that it names, or that has the same units.

    Adds errors of `lot_id` to the sheet.
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
    by_units = {_place(lot.units): lot for lot in by_id.values() if lot.id not in named}
    for row, units in lines:
        lot = by_units.get(_place(units))
        if row.lot_id is None and lot is not None:
            # Spellings of one serial may differ between two lines. The second is reported as an overlap.
            found.setdefault(row.line, lot)
    return found


def _place(units: UnitRange) -> tuple[str, int, int]:
    return units.namespace, units.first, units.last


async def _check_unallocated(tx: Connection, mode: Mode, file: str, changed: dict[str, LotUnits]) -> list[RowError]:
    """Lock the lots that change. Those of which orders hold grams, or that others have locked, are errors."""
    in_use = changed.keys() - await lock_unallocated_lots(tx, mode, list(changed))
    if not in_use:
        return []
    allocated = await find_allocated(tx, mode, in_use)
    holders = await find_holders_any_account(tx, mode, in_use)
    return [
        RowError(
            file,
            changed[id_].row.line,
            None,
            f"tonnes of this lot are allocated to {name_holders(holders.get(id_, []))}, so it cannot change: restore "
            "the line as it was imported."
            if id_ in allocated
            else "an order or a checkout is using this lot right now: import again in a moment.",
        )
        for id_ in sorted(in_use)
    ]


def _as_stored(row: LotRow, lot: StoredLot | None) -> str | None:
    """An exported serial may have got a quote mark in front, so that a spreadsheet does not run it as a formula."""
    is_escaped = lot is not None and row.serial == escape_formula(lot.row.serial or "")
    return lot.row.serial if lot is not None and is_escaped else row.serial


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
