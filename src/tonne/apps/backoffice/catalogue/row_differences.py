"""What an import changes, row by row, for people."""

from collections.abc import Iterator
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from msgspec import Struct

from tonne.platform.documents.sheets.read_sheet import Row, RowChanges
from tonne.supply.stock.lots.lots import LotRow

# Rows of one file on a page.
MAX_ROWS_SHOWN = 100
_HIDDEN = {"line", "lot_id"}


class CellChange(Struct, frozen=True):
    column: str
    before: str | None
    after: str | None


class RowDifference(Struct, frozen=True):
    """`kind` is `new`, `changed` or `removed`. A new row has all its cells, a changed one those that differ."""

    kind: str
    name: str
    cells: list[CellChange]


class FileDifference(Struct, frozen=True):
    name: str
    rows: list[RowDifference]
    # Rows that are not shown.
    more: int


def file_difference(changes: RowChanges[Any]) -> FileDifference:
    """Changed rows first: they are the ones to look at."""
    rows = list(_rows(changes))
    return FileDifference(changes.file, rows[:MAX_ROWS_SHOWN], max(0, len(rows) - MAX_ROWS_SHOWN))


def _rows(changes: RowChanges[Any]) -> Iterator[RowDifference]:
    for row in changes.changed:
        before, after = asdict(changes.stored[row.key]), asdict(row)
        cells = [
            CellChange(name, _shown(before[name]), _shown(value))
            for name, value in after.items()
            if name not in _HIDDEN and value != before[name]
        ]
        yield RowDifference("changed", _name(row), cells)
    for row in changes.removed:
        yield RowDifference("removed", _name(row), [])
    for row in changes.new:
        values = {name: value for name, value in asdict(row).items() if name not in (*_HIDDEN, *row.KEY)}
        cells = [CellChange(name, None, text) for name, value in values.items() if (text := _shown(value))]
        yield RowDifference("new", _name(row), cells)


def _name(row: Row) -> str:
    if isinstance(row, LotRow):
        return f"{row.registry} {row.serial}"
    return " ".join(_shown(part) or "" for part in row.key)


def _shown(value: object) -> str | None:
    """None for an empty cell."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Decimal):
        # A stored rate has more zeros than one of a file.
        return f"{value.normalize():f}"
    return str(value)
