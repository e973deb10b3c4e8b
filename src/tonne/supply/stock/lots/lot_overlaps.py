"""No two lots may contain the same serial number. The database would refuse them too, but could not name the line."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from tonne.platform.documents.sheets.errors import RowError, quoted
from tonne.platform.documents.sheets.read_sheet import Sheet
from tonne.platform.values.context import Mode
from tonne.supply.stock.lots.lots import LotRow, SerialBlock, StoredLot

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
