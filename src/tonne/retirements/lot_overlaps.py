"""No two lots may contain the same serial number. The database would refuse them too, but could not name the line."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator

from tonne.base.scope import Mode
from tonne.retirements.lots import LotRow, SerialBlock, StoredLot
from tonne.sheets.errors import RowError, quoted
from tonne.sheets.read_sheet import Sheet

_REMEDY = "a serial number can be sold only once, so correct the numbers or delete the line."


def find_overlaps(sheet: Sheet[LotRow], stored: Iterable[StoredLot], mode: Mode) -> Iterator[RowError]:
    """Report each row that overlaps another row or a stored lot of either mode. `stored` is ordered by first number."""
    stored_by_block: defaultdict[SerialBlock, list[StoredLot]] = defaultdict(list)
    for lot in stored:
        stored_by_block[lot.row.block_key].append(lot)
    rows_by_block: defaultdict[SerialBlock, list[LotRow]] = defaultdict(list)
    for row in sheet.rows:
        rows_by_block[row.block_key].append(row)
    for block, rows in rows_by_block.items():
        yield from _overlaps_in_file(sheet.name, rows)
        yield from _overlaps_with_stored(sheet.name, rows, stored_by_block[block], mode)


def _overlaps_in_file(file: str, rows: list[LotRow]) -> Iterator[RowError]:
    furthest: LotRow | None = None
    for row in sorted(rows, key=lambda row: (row.first_number, row.line)):
        other = furthest
        if other is None or row.last_number > other.last_number:
            furthest = row
        if other is not None and row.first_number <= other.last_number:
            earlier, later = sorted((row, other), key=lambda row: row.line)
            message = f"the lot overlaps {_numbers(earlier)} of line {earlier.line} in its serial block: {_REMEDY}"
            yield RowError(file, later.line, "first_number", message)


def _overlaps_with_stored(file: str, rows: list[LotRow], stored: list[StoredLot], mode: Mode) -> Iterator[RowError]:
    first_numbers = [lot.row.first_number for lot in stored]
    for row in rows:
        # Stored lots do not overlap one another, so only the last one that starts within the row can overlap it.
        i = bisect_right(first_numbers, row.last_number) - 1
        if i < 0 or stored[i].row.last_number < row.first_number:
            continue
        other = stored[i]
        if other.mode != mode or other.row.key != row.key:
            where = f"which the {other.mode} catalogue holds in block {quoted(row.serial_block)}"
            yield RowError(
                file, row.line, "first_number", f"the lot overlaps {_numbers(other.row)}, {where}: {_REMEDY}"
            )


def _numbers(row: LotRow) -> str:
    return f"{row.first_number} to {row.last_number}"
