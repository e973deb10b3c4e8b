"""A CSV file read into rows of one type, with every error found in it, and compared with the rows already stored."""

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from difflib import get_close_matches
from types import NoneType
from typing import Annotated, Any, ClassVar, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from tonne.platform.documents.sheets.columns import CellError, Column, RowError, quoted
from tonne.platform.process.progress import progress

MAX_BYTES = 20_000_000
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# ZIP (.xlsx, .ods, archives) and the old .xls format.
_WORKBOOKS = (b"PK\x03\x04", b"PK\x05\x06", b"\xd0\xcf\x11\xe0")
_FIRST_LINE = re.compile(r"\S[^\r\n]*")


class SheetFile(Struct, frozen=True):
    """`name` appears in error reports."""

    name: str
    content: bytes


class Unreadable(Exception):
    """The file cannot be read from `line` on; None means from the beginning."""

    def __init__(self, line: int | None, message: str) -> None:
        super().__init__(message)
        self.line = line


def read_lines(content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each line that is not blank, with the number of its first line: quoted cells may span several.

    The separator is the comma, semicolon or tab that occurs most often in the header.
    """
    text = _decode(content)
    header = _FIRST_LINE.search(text)
    if header is not None and "\0" in header[0]:
        raise Unreadable(1, "the header contains NUL characters: save the file as “CSV UTF-8”.")
    separator = max(",;\t", key=header[0].count) if header else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            # Also raised for a cell of more than 131,072 characters, which is usually a quote that was never closed.
            message = f"the line is not valid CSV ({error}): correct its quotes and separators, then import again."
            raise Unreadable(line, message) from error
        if cells is None:
            return
        if any(cell.strip() for cell in cells):
            yield line, cells


def _decode(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise Unreadable(None, f"the file is larger than {MAX_BYTES // 1_000_000} MB: split it and import the parts.")
    if content.startswith(_WORKBOOKS):
        raise Unreadable(None, "the file is a workbook or an archive, not CSV: save it as “CSV UTF-8” and import that.")
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        name = encoding.upper().removesuffix("-SIG")
        raise Unreadable(line, f"the file is not {name} from here on: save it as “CSV UTF-8”.") from error


# With the size limit these bound the memory of an import.
MAX_ROWS = 100_000
MAX_ERRORS = 10_000
_MAX_UNKNOWN = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row type. Its columns are the fields annotated with a `Column`; files may omit columns with a default.

    No two rows of a file may have the same values in all `KEY` columns.
    """

    KEY: ClassVar[tuple[str, ...]] = ()

    # Not compared: rows are compared with those already stored.
    line: int = field(default=0, compare=False)

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.KEY)


R = TypeVar("R", bound=Row)
# The valid cells of a row by column; None is an empty cell of an optional column.
Values = Mapping[str, Any]
# Rules across columns: yields the column and the message of each error.
Check = Callable[[Values], Iterable[tuple[str, str]]]


class Sheet(msgspec.Struct, Generic[R]):
    """The valid rows of a file, and its errors. Without a file, all of it is empty.

    `line_of` also has the keys of invalid rows. `complete` is False when lines could not be read at all.
    """

    name: str = ""
    rows: list[R] = msgspec.field(default_factory=list)
    line_of: dict[tuple[Any, ...], int] = msgspec.field(default_factory=dict)
    complete: bool = True
    errors: list[RowError] = msgspec.field(default_factory=list)
    # Those that the file has.
    columns: frozenset[str] = frozenset()

    def add_error(self, line: int | None, column: str | None, message: str) -> None:
        self.errors.append(RowError(self.name, line, column, message))


class _Field(NamedTuple):
    column: Column
    optional: bool
    has_default: bool


def read_sheet(
    file: SheetFile | None, row_type: type[R], check: Check = lambda _: (), *, ignored: Iterable[str] = ()
) -> Sheet[R]:
    """Read `file`. Columns named in `ignored` may be in it and are not read."""
    if file is None:
        return Sheet()
    sheet: Sheet[R] = Sheet(file.name)
    try:
        with progress(f"Reading {file.name}", file.content.count(b"\n")) as advance:
            for line, cells in _read_rows(sheet, file.content, _fields_of(row_type), set(ignored)):
                _add_row(sheet, row_type, line, cells, check)
                advance(1)
    except Unreadable as error:
        sheet.complete = False
        sheet.add_error(error.line, None, str(error))
    return sheet


def _add_row(sheet: Sheet[R], row_type: type[R], line: int, cells: dict[str, str], check: Check) -> None:
    error_count = len(sheet.errors)
    columns = _fields_of(row_type)
    values: dict[str, Any] = {}
    for name in [*cells, *(columns.keys() - cells.keys())]:
        column, optional, _ = columns[name]
        try:
            values[name] = column.read(cells.get(name, ""), optional=optional)
        except CellError as error:
            sheet.add_error(line, name, str(error))
    for name, message in check(values):
        sheet.add_error(line, name, message)
    if row_type.KEY and all(name in values for name in row_type.KEY):
        first_line = sheet.line_of.setdefault(tuple(values[name] for name in row_type.KEY), line)
        if first_line != line:
            message = f"line {first_line} has the same {' and '.join(row_type.KEY)}: keep one of the two."
            sheet.add_error(line, row_type.KEY[-1], message)
    if len(sheet.errors) == error_count:
        sheet.rows.append(row_type(line=line, **values))


def _read_rows(
    sheet: Sheet[R], content: bytes, columns: dict[str, _Field], ignored: set[str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield each row below the header, as cells by column."""
    lines = read_lines(content)
    first = next(lines, None)
    if first is None:
        required = ",".join(name for name, each in columns.items() if not each.has_default)
        raise Unreadable(1, f"the file is empty: its first line must be {required}.")
    header = _read_header(*first, columns, ignored)
    sheet.columns = frozenset(header)
    for number, (line, cells) in enumerate(lines, 1):
        if number > MAX_ROWS:
            raise Unreadable(line, f"the file has more than {MAX_ROWS:,} rows: split it and import the parts.")
        if len(sheet.errors) >= MAX_ERRORS:
            raise Unreadable(line, "the file has too many errors to continue: correct those above, then import again.")
        if len(cells) == len(header):
            yield line, {name: cell for name, cell in zip(header, cells, strict=True) if name in columns}
            continue
        remedy = "complete it or delete it." if len(cells) == 1 else "quote cells that contain the separator."
        sheet.add_error(line, None, f"the line has {len(cells)} cells instead of {len(header)}: {remedy}")
        sheet.complete = False


def _read_header(line: int, cells: list[str], columns: dict[str, _Field], ignored: set[str]) -> list[str]:
    names = [cell.strip().lower() for cell in cells]
    if not columns.keys() & set(names):
        raise Unreadable(line, f"the first line must name the columns {', '.join(columns)}.")
    problems = []
    missing = [name for name in columns if name not in names]
    for name in [name for name in dict.fromkeys(names) if name not in columns.keys() | ignored][:_MAX_UNKNOWN]:
        similar = get_close_matches(name, missing, 1)
        problems.append(f"the column {quoted(name)} is unknown" + "".join(f" (did you mean {s}?)" for s in similar))
    problems += [f"the column {name} appears twice" for name in columns if names.count(name) > 1]
    problems += [f"the column {name} is missing" for name in missing if not columns[name].has_default]
    if problems:
        raise Unreadable(line, f"{'; '.join(problems)}: the columns are {', '.join(columns)}.")
    return names


_FIELDS: dict[type[Row], dict[str, _Field]] = {}


def _fields_of(row_type: type[Row]) -> dict[str, _Field]:
    """The columns of a row type, by name."""
    if row_type not in _FIELDS:
        hints = get_type_hints(row_type, include_extras=True)
        found = {}
        for each in fields(row_type):
            hint, optional = hints[each.name], NoneType in get_args(hints[each.name])
            if optional:
                hint = next(part for part in get_args(hint) if part is not NoneType)
            if get_origin(hint) is Annotated:
                found[each.name] = _Field(hint.__metadata__[0], optional, each.default is not MISSING)
        _FIELDS[row_type] = found
    return _FIELDS[row_type]


class RowChanges(Struct, Generic[R], frozen=True):
    """What importing one file changes. `file` is empty when none was given."""

    file: str
    new: list[R]
    changed: list[R]
    removed: list[R]
    unchanged_count: int
    # The rows with which the file was compared, by key.
    stored: dict[tuple[Any, ...], R]

    @property
    def saved(self) -> list[R]:
        return self.new + self.changed

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.removed)


def compare(file: str, rows: list[R], stored: Iterable[R], *, replaces: bool = False) -> RowChanges[R]:
    """With `replaces`, stored rows that are missing from the file are removed; otherwise they stay."""
    before = {row.key: row for row in stored}
    new = [row for row in rows if row.key not in before]
    changed = [row for row in rows if row.key in before and row != before[row.key]]
    kept = {row.key for row in rows} if replaces else before.keys()
    removed = [row for key, row in before.items() if key not in kept]
    return RowChanges(file, new, changed, removed, len(rows) - len(new) - len(changed), before)
