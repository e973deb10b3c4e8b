"""Compare what a registry without an API lists as active in our account: a person uploads the list."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import RowError, SheetInvalid, quoted
from tonne.platform.documents.sheets.read_sheet import SheetFile, Unreadable, read_lines
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode, replace
from tonne.supply.registries import account_store, drift_store, statement_store
from tonne.supply.registries.check_registries import pause_differing
from tonne.supply.registries.drift_store import Cause, SeenDrift
from tonne.supply.registries.statement_store import DeskLot
from tonne.supply.stock.lots.check_serials import Disagreement, settle_quantity
from tonne.supply.stock.serial_runs import Numbers, join_runs
from tonne_verify.serials.parse import parse
from tonne_verify.serials.spelling import registry_id
from tonne_verify.serials.units import TONNE_GRAMS, SerialError, UnitRange

# The columns that have serials, and tonnes, in lists of registries.
SERIAL_COLUMNS = ("serial", "serial number", "credit serial numbers", "offset credit serial numbers")
QUANTITY_COLUMNS = ("quantity", "quantity issued", "quantity of credits", "quantity of offset credits")
_TONNES = re.compile(r"[0-9]{1,12}(?:,[0-9]{3})*(?:\.[0-9]{1,6})?")


class DeskAccount(Struct, frozen=True):
    """Its differences state their own `unit_grams`."""

    id: str
    mode: Mode
    unit_grams: int = TONNE_GRAMS


class ComparedStatement(Struct, frozen=True):
    """`seen` are the differences; their lots are paused when the comparison is recorded."""

    account: DeskAccount
    there_units: int
    here_grams: int
    there_grams: int
    seen: list[SeenDrift]


async def read_unit_sizes(connection: Connection, registry: str) -> dict[str, int]:
    """The units of the live lots at a registry whose serials do not say what they count, by namespace."""
    lots = await statement_store.read_desk_lots_any_account(connection, Mode.LIVE, date.max)
    return {lot.namespace: lot.unit_grams for lot in lots if registry_id(lot.registry) == registry_id(registry)}


def read_statement(
    file: SheetFile, registry: str, column: str | None = None, *, sizes: Mapping[str, int] | None = None
) -> list[UnitRange]:
    """The serials in the file, with the `sizes` of `read_unit_sizes`. Raises SheetInvalid."""
    try:
        lines = list(read_lines(file.content))
    except Unreadable as error:
        raise SheetInvalid([RowError(file.name, error.line, None, str(error))]) from error
    header = [" ".join(cell.split()).lower() for cell in lines[0][1]] if lines else []
    at = _find(header, SERIAL_COLUMNS if column is None else (column.lower(),))
    if at is None:
        wanted = quoted(column) if column else "with serials: name it"
        raise SheetInvalid([RowError(file.name, 1, None, f"there is no column {wanted}.")])
    quantity_at = _find(header, QUANTITY_COLUMNS)
    found: list[UnitRange] = []
    errors: list[RowError] = []
    for line, cells in lines[1:]:
        cell = dict(enumerate(cells)).get
        try:
            units = parse(registry, cell(at) or "")
            if units.grammar == "plain":
                units = units._replace(unit_grams=(sizes or {}).get(units.namespace, TONNE_GRAMS))
            tonnes = None if quantity_at is None else _read_tonnes(cell(quantity_at) or "")
            found.append(settle_quantity(units, tonnes))
        except SerialError as error:
            errors.append(RowError(file.name, line, header[at], str(error)))
        except Disagreement as error:
            errors.append(RowError(file.name, line, error.column, str(error)))
    if errors:
        raise SheetInvalid(errors)
    return found


def _find(header: Sequence[str], names: Sequence[str]) -> int | None:
    return next((header.index(name) for name in names if name in header), None)


def _read_tonnes(text: str) -> Decimal:
    """Raises Disagreement."""
    if _TONNES.fullmatch(text.strip()) is None:
        raise Disagreement("quantity", f"{quoted(text)} is not a quantity in tonnes.")
    return Decimal(text.strip().replace(",", ""))


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
    account = DeskAccount(f"desk-{re.sub('[^a-z0-9]+', '-', id_.lower())[:30]}", mode)
    explained = await drift_store.read_explained_surplus(connection, account.id)
    sizes = {each.namespace: each.unit_grams for each in active}
    there = {
        namespace: sum(last - first + 1 for first, last in runs) for namespace, runs in _by_namespace(active).items()
    }
    here_grams = sum(lot.here_units * lot.unit_grams for lot in lots if not lot.is_invalid)
    there_grams = sum(units * sizes[namespace] for namespace, units in there.items())
    seen = _compare(lots, active, explained)
    return ComparedStatement(account, sum(there.values()), here_grams, there_grams, seen)


async def record_statement(tx: Connection, compared: ComparedStatement, *, file: str, by: By) -> None:
    """Lots that differ are paused."""
    account = compared.account
    await statement_store.save_desk(tx, account.id, account.mode)
    confirmed = await drift_store.note_drifts(tx, account, compared.seen, by.at)
    await drift_store.forget_drifts(tx, account.id, {each.subject_id for each in compared.seen})
    here, there = compared.here_grams, compared.there_grams
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
            seen.append(SeenDrift(lot_id=lot.lot_id, units=units, is_certain=True, unit_grams=lot.unit_grams))
    for each in active:
        for first, last in _without((each.first, each.last), known[each.namespace]):
            holding_id = each.part(first, last).text
            if units := first - last - 1 - explained.get(holding_id, 0):
                surplus = SeenDrift(holding_id=holding_id, units=units, cause=Cause.SURPLUS, is_certain=True)
                seen.append(replace(surplus, unit_grams=each.unit_grams))
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
