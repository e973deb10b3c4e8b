"""Reading CSV: encodings, separators, limits, headers and error reports, the same for every import."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from io import BytesIO
from typing import Annotated, ClassVar

import pytest

from tonne.platform.documents.sheets.columns import Column, Label, RowError, decimal, quoted, text, whole
from tonne.platform.documents.sheets.read_sheet import (
    MAX_BYTES,
    MAX_ERRORS,
    MAX_ROWS,
    Row,
    Sheet,
    SheetFile,
    Values,
    compare,
    read_sheet,
)

HEADER = "name,count"


@dataclass(frozen=True, slots=True, kw_only=True)
class StockRow(Row):
    KEY: ClassVar[tuple[str, ...]] = ("name",)

    name: Label
    count: Annotated[int, Column(whole(1, 100))]
    price: Annotated[Decimal, Column(decimal(2, 1000))] | None = None
    note: Annotated[str, Column(text(10), if_empty=None)] = ""
    # Not a column: it has no Column.
    position: int = 0


def read(content: bytes, *ignored: str) -> Sheet[StockRow]:
    return read_sheet(SheetFile("stock.csv", content), StockRow, ignored=ignored)


def read_lines(*lines: str, header: str = HEADER) -> Sheet[StockRow]:
    """The lines below the header: the first one is line 2."""
    return read("\n".join((header, *lines)).encode())


def places(errors: list[RowError]) -> list[tuple[int | None, str | None]]:
    return [(error.line, error.column) for error in errors]


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_every_encoding_separator_and_line_end_gives_the_same_rows(
    encoding: str, separator: str, line_end: str
) -> None:
    lines = (separator.join(cells) for cells in (("Count", " name"), ("3", "Łódź 🌲"), ("", ""), ("4", '"a, ""b"" ;"')))
    content = line_end.join(lines).encode(encoding)
    sheet = read(b"\xfe\xff" + content if encoding == "utf-16-be" else content)
    assert sheet.errors == []
    assert [(row.line, row.name, row.count) for row in sheet.rows] == [(2, "Łódź 🌲", 3), (4, 'a, "b" ;', 4)]


def test_columns_with_a_default_may_be_omitted_and_other_columns_ignored() -> None:
    (row,) = read(b"name,colour,count\na,red,1\n", "colour").rows
    assert (row.price, row.note, row.position) == (None, "", 0)
    (row,) = read(b"name,count,price,note\na,1,1.50,b\n").rows
    assert (row.price, row.note) == (Decimal("1.5"), "b")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("name", "the column count is missing: the columns are name, count, price, note."),
        ("name,count,colour", "the column “colour” is unknown: "),
        ("name,cuont", "the column “cuont” is unknown (did you mean count?); the column count is missing: "),
        ("name,count,prise", "the column “prise” is unknown (did you mean price?): "),
        ("name,count,count", "the column count appears twice: "),
        ("name,count,position", "the column “position” is unknown: "),
        ("a,b,c", "the first line must name the columns name, count, price, note."),
        (",".join(["name,count", *(f"x{i}" for i in range(10_000))]), "the column “x9” is unknown: "),
    ],
)
def test_a_bad_header_is_one_error_and_no_row_is_read(header: str, message: str) -> None:
    sheet = read_lines("x,y", header=header)
    (error,) = sheet.errors
    assert error.line == 1
    assert message in error.message
    assert (sheet.rows, sheet.complete) == ([], False)


def _workbook() -> bytes:
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", 1, "the file is empty: its first line must be name,count."),
        (b"\n \n", 1, "the file is empty"),
        (b"name,count\na,1\nb,\xff\n", 3, "not UTF-8 from here on"),
        ("name,count\na,1".encode("utf-16")[:-1], 2, "not UTF-16 from here on"),
        ("name,count\n".encode("utf-16-le"), 1, "NUL"),
        ("name,count\n".encode("utf-32"), 1, "NUL"),
        (b'name,count\na,1\n"b,2\n', 3, "not valid CSV"),
        (b'name,count\na,1\n"b"x,2\n', 3, "not valid CSV"),
        (b"name,count\n" + b"x" * 200_000 + b",1\n", 2, "not valid CSV"),
        (b"x" * (MAX_BYTES + 1), None, "20 MB"),
        (_workbook(), None, "is a workbook or an archive, not CSV: save it as “CSV UTF-8” and import that."),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", None, "is a workbook or an archive"),
    ],
)
def test_an_unreadable_file_is_one_error(content: bytes, line: int | None, message: str) -> None:
    (error,) = read(content).errors
    assert error.line == line
    assert message in error.message
    assert "\n" not in str(error)


def test_every_error_of_every_line_is_reported() -> None:
    sheet = read_lines(",200", "a,1", "b,x", "c\x00d,2", "e,1,1", "f")
    assert places(sheet.errors) == [(2, "name"), (2, "count"), (4, "count"), (5, "name"), (6, None), (7, None)]
    assert [row.name for row in sheet.rows] == ["a"]
    assert str(sheet.errors[2]).startswith("stock.csv, line 4, column count: “x” is not a whole number from 1 to 100")


def test_rules_across_columns_are_checked_on_lines_with_other_errors_too() -> None:
    def check(values: Values) -> Iterator[tuple[str, str]]:
        if values.get("count") == 7:
            yield "count", "seven."

    sheet = read_sheet(SheetFile("stock.csv", b"name,count\n,7\na,x\nb,7\n"), StockRow, check)
    assert places(sheet.errors) == [(2, "name"), (2, "count"), (3, "count"), (4, "count")]


def test_a_repeated_key_is_reported_on_the_later_line_and_invalid_rows_count() -> None:
    sheet = read_lines("a,x", "a,1", "b,1")
    assert places(sheet.errors) == [(2, "count"), (3, "name")]
    assert "line 2 has the same name" in sheet.errors[1].message
    assert sheet.line_of == {("a",): 2, ("b",): 4}


def test_a_row_has_the_number_of_its_first_line() -> None:
    assert places(read_lines('"a\nb",1', "short").errors) == [(2, "name"), (4, None)]


def test_reading_stops_after_too_many_errors() -> None:
    errors = read_lines(*["?,?"] * MAX_ERRORS).errors
    assert len(errors) <= MAX_ERRORS + 2
    assert "too many errors" in errors[-1].message


def test_too_many_rows_are_refused() -> None:
    sheet = read_lines(*(f"n{i},1" for i in range(MAX_ROWS + 1)))
    assert places(sheet.errors) == [(MAX_ROWS + 2, None)]


def test_reports_escape_control_characters_and_shorten_text() -> None:
    (error,) = read_lines(header="name,count,\u202e\x1b[2J").errors
    assert str(error).isprintable()
    assert quoted("x" * 50) == f"“{'x' * 39}…”"


def test_rows_are_compared_by_key_and_without_their_line() -> None:
    stored = [StockRow(name=name, count=1) for name in "abc"]
    rows = [StockRow(line=9, name="a", count=1), StockRow(name="b", count=2), StockRow(name="d", count=1)]
    changes = compare("stock.csv", rows, stored)
    assert ([row.name for row in changes.new], [row.name for row in changes.changed]) == (["d"], ["b"])
    assert (changes.removed, changes.unchanged_count) == ([], 1)
    assert [row.name for row in compare("stock.csv", rows, stored, replaces=True).removed] == ["c"]
