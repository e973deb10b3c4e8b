"""Compare what a registry without an API lists as active in our account: a person uploads the list."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import SheetFile, Unreadable, read_lines
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode
from tonne.supply.registries import account_store, drift_store, statement_store
from tonne.supply.registries.check_registries import pause_differing
from tonne.supply.registries.drift_store import Cause, SeenDrift
from tonne.supply.registries.statement_store import DeskLot
from tonne.supply.stock.serial_runs import Numbers, join_runs
from tonne_verify.serials.parse import parse
from tonne_verify.serials.spelling import registry_id
from tonne_verify.serials.units import SerialError, UnitRange

# The columns that have serials in lists of registries.
SERIAL_COLUMNS = ("serial", "serial number", "credit serial numbers", "offset credit serial numbers")


class DeskAccount(Struct, frozen=True):
    id: str
    mode: Mode
    unit_grams: int


class ComparedStatement(Struct, frozen=True):
    """`seen` are the differences; their lots are paused when the comparison is recorded."""

    account: DeskAccount
    here_units: int
    there_units: int
    seen: list[SeenDrift]


def read_statement(file: SheetFile, registry: str, column: str | None = None) -> list[UnitRange]:
    """The serials in the file. Raises SheetInvalid."""
    try:
        lines = list(read_lines(file.content))
    except Unreadable as error:
        raise SheetInvalid([RowError(file.name, error.line, None, str(error))]) from error
    header = [" ".join(cell.split()).lower() for cell in lines[0][1]] if lines else []
    names = SERIAL_COLUMNS if column is None else (column.lower(),)
    at = next((header.index(name) for name in names if name in header), None)
    if at is None:
        wanted = quoted(column) if column else "with serials: name it"
        raise SheetInvalid([RowError(file.name, 1, None, f"there is no column {wanted}.")])
    found: list[UnitRange] = []
    errors: list[RowError] = []
    for line, cells in lines[1:]:
        try:
            found.append(parse(registry, cells[at] if at < len(cells) else ""))
        except SerialError as error:
            errors.append(RowError(file.name, line, header[at], str(error)))
    if errors:
        raise SheetInvalid(errors)
    return found


async def compare_statement(
    connection: Connection, registry: str, active: Sequence[UnitRange], day: date
) -> ComparedStatement:
    """With the live books. Changes nothing. `day`: of the statement."""
    mode = Mode.LIVE
    id_ = registry_id(registry)
    lots = [
        lot
        for lot in await statement_store.read_desk_lots_any_account(connection, mode, day)
        if registry_id(lot.registry) == id_
    ]
    unit_grams = max([*(each.unit_grams for each in active), *(lot.unit_grams for lot in lots)], default=1)
    account = DeskAccount(f"desk-{re.sub('[^a-z0-9]+', '-', id_.lower())[:30]}", mode, unit_grams)
    explained = await drift_store.read_explained_surplus(connection, account.id)
    there = sum(last - first + 1 for runs in _by_namespace(active).values() for first, last in runs)
    here = sum(lot.here_units for lot in lots if not lot.is_invalid)
    return ComparedStatement(account, here, there, _compare(lots, active, explained))


async def record_statement(tx: Connection, compared: ComparedStatement, *, file: str, by: By) -> None:
    """Lots that differ are paused."""
    account = compared.account
    await statement_store.save_desk(tx, account.id, account.mode)
    confirmed = await drift_store.note_drifts(tx, account, compared.seen, by.at)
    await drift_store.forget_drifts(tx, account.id, {each.subject_id for each in compared.seen})
    here, there = (units * account.unit_grams for units in (compared.here_units, compared.there_units))
    await pause_differing(tx, account, confirmed, by=by)
    await account_store.note_look(tx, account.id, by.at, here_grams=here, there_grams=there, is_compared=True)
    await audit.record(
        tx,
        None,
        "registry_statement.uploaded",
        by=by,
        subject_id=account.id,
        mode=account.mode,
        file=file,
        differences=len(compared.seen),
    )


def _compare(lots: Sequence[DeskLot], active: Sequence[UnitRange], explained: Mapping[str, int]) -> list[SeenDrift]:
    there, known = _by_namespace(active), defaultdict[str, list[Numbers]](list)
    seen: list[SeenDrift] = []
    for lot in lots:
        run = (lot.first_number, lot.last_number)
        known[lot.namespace].append(run)
        units = lot.here_units - _overlap(run, there.get(lot.namespace, ())) - lot.explained_units
        if not lot.is_invalid and not -lot.late_units <= units <= lot.desk_units:
            seen.append(SeenDrift(lot_id=lot.lot_id, units=units, is_certain=True))
    for each in active:
        for first, last in _without((each.first, each.last), known[each.namespace]):
            holding_id = each.part(first, last).text
            if units := first - last - 1 - explained.get(holding_id, 0):
                seen.append(SeenDrift(holding_id=holding_id, units=units, cause=Cause.SURPLUS, is_certain=True))
    return list({each.subject_id: each for each in seen}.values())


def _by_namespace(active: Iterable[UnitRange]) -> dict[str, list[Numbers]]:
    found: defaultdict[str, list[Numbers]] = defaultdict(list)
    for each in active:
        found[each.namespace].append((each.first, each.last))
    return {namespace: join_runs(runs) for namespace, runs in found.items()}


def _overlap(run: Numbers, others: Iterable[Numbers]) -> int:
    return sum(max(0, min(run[1], last) - max(run[0], first) + 1) for first, last in others)


def _without(run: Numbers, others: Iterable[Numbers]) -> list[Numbers]:
    """What of the run no other one has."""
    left = [run]
    for first, last in others:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, first - 1)), (max(start, last + 1), end))
            if part[0] <= part[1]
        ]
        left = list(dict.fromkeys(left))
    return left
