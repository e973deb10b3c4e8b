"""Every kind of bad line is found, with its place. No database: files are judged before they are compared."""

from datetime import UTC, datetime

import pytest

from tonne.catalog.csv_files import MAX_BAD_LINES, MAX_BYTES, MAX_ROWS, BadLine, CsvFile, FileKind
from tonne.catalog.csv_rows import Context
from tonne.catalog.csv_sheets import Sheets, judge_files

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
HEADERS = {
    FileKind.PROJECTS: "registry,registry_project_id,name,country,type,methodology,mechanism,granularity_grams",
    FileKind.BUNDLES: "slug,name,description,primary_image,unit_price,enabled,position",
    FileKind.BUNDLE_PROJECTS: "bundle_slug,registry,registry_project_id,weight",
    FileKind.EXCHANGE_RATES: "base,quote,rate,source,as_of",
    FileKind.LOTS: (
        "registry,registry_project_id,vintage,serial_block,first_number,last_number,status,retirement_url,retired_on"
    ),
    FileKind.DEFAULTS: "bundle_slug,percentage",
}
GOOD = {
    FileKind.PROJECTS: "Verra,VCS1,Old forest,Peru,Forest,VM1,avoidance,1000000",
    FileKind.BUNDLES: "forest,Forest,Trees.,/images/forest.svg,12.65,true,1",
    FileKind.BUNDLE_PROJECTS: "forest,Verra,VCS1,1",
    FileKind.EXCHANGE_RATES: "EUR,USD,1.08,demo,2026-01-31",
    FileKind.LOTS: "Verra,VCS1,2021,A,1,10,held,,",
    FileKind.DEFAULTS: "forest,100",
}


def judge(kind: FileKind, content: bytes, currency: str = "EUR") -> Sheets:
    return judge_files({kind: CsvFile(kind, kind, content)}, Context(currency, NOW))


def bad_lines(kind: FileKind, *lines: str, header: str | None = None, currency: str = "EUR") -> list[BadLine]:
    """What is wrong with the lines, which stand below the header: the first is line 2."""
    content = "\n".join((header or HEADERS[kind], *lines)).encode()
    return judge(kind, content, currency).bad_lines


def places(found: list[BadLine]) -> list[tuple[int | None, str | None]]:
    return [(bad_line.line, bad_line.column) for bad_line in found]


def with_cell(kind: FileKind, column: str, cell: str) -> str:
    """The good line with one cell exchanged."""
    cells = GOOD[kind].split(",")
    cells[HEADERS[kind].split(",").index(column)] = cell
    return ",".join(cells)


@pytest.mark.parametrize("kind", FileKind)
def test_a_good_line_of_each_file_is_good(kind: FileKind) -> None:
    assert bad_lines(kind, GOOD[kind]) == []


BAD_CELLS = [
    (FileKind.PROJECTS, "registry", "", "empty"),
    (FileKind.PROJECTS, "registry", "   ", "empty"),
    (FileKind.PROJECTS, "name", "x" * 301, "at most 300"),
    (FileKind.PROJECTS, "name", "a\x00b", "U+0000"),
    (FileKind.PROJECTS, "name", "a\x1b[31m", "U+001B"),
    (FileKind.PROJECTS, "name", '"two\nlines"', "U+000A"),
    (FileKind.PROJECTS, "name", "abc\u202etxt", "U+202E"),
    (FileKind.PROJECTS, "country", "x" * 101, "at most 100"),
    (FileKind.PROJECTS, "mechanism", "Removal", "avoidance or removal"),
    (FileKind.PROJECTS, "granularity_grams", "0", "whole number"),
    (FileKind.PROJECTS, "granularity_grams", "300", "divide a tonne"),
    (FileKind.PROJECTS, "granularity_grams", "1e6", "whole number"),
    (FileKind.PROJECTS, "granularity_grams", "٣", "whole number"),
    (FileKind.BUNDLES, "slug", "Forest", "not a slug"),
    (FileKind.BUNDLES, "slug", "a--b", "not a slug"),
    (FileKind.BUNDLES, "slug", "a" * 101, "at most 100"),
    (FileKind.BUNDLES, "name", "x" * 201, "at most 200"),
    (FileKind.BUNDLES, "primary_image", "javascript:alert(1)", "web address"),
    (FileKind.BUNDLES, "primary_image", "//elsewhere.example/a.svg", "web address"),
    (FileKind.BUNDLES, "primary_image", "https://me:secret@example.org/a.svg", "web address"),
    (FileKind.BUNDLES, "primary_image", "https://", "web address"),
    (FileKind.BUNDLES, "unit_price", "12.655", "at most 2 decimals"),
    (FileKind.BUNDLES, "unit_price", "0", "above 0"),
    (FileKind.BUNDLES, "unit_price", "-1", "above 0"),
    (FileKind.BUNDLES, "unit_price", "1e3", "above 0"),
    (FileKind.BUNDLES, "unit_price", "NaN", "above 0"),
    (FileKind.BUNDLES, "unit_price", "9" * 40, "above 0"),
    (FileKind.BUNDLES, "enabled", "yes", "true or false"),
    (FileKind.BUNDLES, "position", "-1", "whole number"),
    (FileKind.BUNDLE_PROJECTS, "weight", "0", "whole number"),
    (FileKind.BUNDLE_PROJECTS, "weight", "0.5", "whole number"),
    (FileKind.BUNDLE_PROJECTS, "weight", "1000001", "whole number"),
    (FileKind.EXCHANGE_RATES, "base", "EURO", "ISO 4217"),
    (FileKind.EXCHANGE_RATES, "quote", "usd", "ISO 4217"),
    (FileKind.EXCHANGE_RATES, "quote", "EUR", "rate to itself"),
    (FileKind.EXCHANGE_RATES, "rate", "0", "above 0"),
    (FileKind.EXCHANGE_RATES, "rate", "1000000000000", "above 0"),
    (FileKind.EXCHANGE_RATES, "source", "", "empty"),
    (FileKind.EXCHANGE_RATES, "as_of", "2026-02-30", "not a time"),
    (FileKind.EXCHANGE_RATES, "as_of", "2026-01-31T10:00:00", "not a time"),
    (FileKind.EXCHANGE_RATES, "as_of", "20260131", "not a time"),
    (FileKind.EXCHANGE_RATES, "as_of", "0001-01-01T00:00:00+14:00", "not a time"),
    (FileKind.LOTS, "vintage", "1989", "1990 to 2100"),
    (FileKind.LOTS, "serial_block", "x" * 201, "at most 200"),
    (FileKind.LOTS, "first_number", "11", "below first_number"),
    (FileKind.LOTS, "last_number", "1000000000000000", "whole number"),
    (FileKind.LOTS, "last_number", "1000000001", "split it"),
    (FileKind.LOTS, "status", "retired", "held or pre_retired"),
    (FileKind.LOTS, "retirement_url", "https://example.org/r", "held lot"),
    (FileKind.LOTS, "retired_on", "2024-05-06", "held lot"),
    (FileKind.LOTS, "retired_on", "6.5.2024", "not a date"),
    (FileKind.DEFAULTS, "percentage", "33.333", "at most 2 decimals"),
    (FileKind.DEFAULTS, "percentage", "101", "up to 100"),
]


@pytest.mark.parametrize(("kind", "column", "cell", "message"), BAD_CELLS)
def test_a_bad_cell_is_reported_with_its_line_and_column(kind: FileKind, column: str, cell: str, message: str) -> None:
    found = bad_lines(kind, "", with_cell(kind, column, cell))
    expected_column = "last_number" if "below first_number" in message else column
    assert places(found) == [(3, expected_column)]
    assert message in found[0].message


def test_every_fault_of_every_line_is_reported() -> None:
    found = bad_lines(FileKind.LOTS, "Verra,,20x1,B,1,10,hold,,", GOOD[FileKind.LOTS], ",VCS1,2021,,1,10,held,,")
    assert places(found) == [
        (2, "registry_project_id"),
        (2, "vintage"),
        (2, "status"),
        (4, "registry"),
        (4, "serial_block"),
    ]


def test_prices_have_the_decimals_of_the_catalogues_currency() -> None:
    assert bad_lines(FileKind.BUNDLES, with_cell(FileKind.BUNDLES, "unit_price", "1.5"), currency="JPY")
    assert not bad_lines(FileKind.BUNDLES, with_cell(FileKind.BUNDLES, "unit_price", "1.505"), currency="KWD")


@pytest.mark.parametrize(
    "cell", ["=1+1", "+1", "-1", "@cmd", "'; DROP TABLE lots --", "<script>", "森林 🌲", '"a, ""b"""']
)
def test_strange_text_is_only_text(cell: str) -> None:
    assert bad_lines(FileKind.PROJECTS, with_cell(FileKind.PROJECTS, "name", cell)) == []


def test_a_pre_retired_lot_needs_url_and_date() -> None:
    found = bad_lines(FileKind.LOTS, "Verra,VCS1,2021,A,1,10,pre_retired,,")
    assert places(found) == [(2, "retirement_url"), (2, "retired_on")]


@pytest.mark.parametrize(("day", "message"), [("2026-11-17", "future"), ("2020-12-31", "before the vintage")])
def test_a_lot_is_retired_between_its_vintage_and_today(day: str, message: str) -> None:
    found = bad_lines(FileKind.LOTS, f"Verra,VCS1,2021,A,1,10,pre_retired,https://example.org/r,{day}")
    assert places(found) == [(2, "retired_on")]
    assert message in found[0].message


def test_a_key_that_comes_twice_is_reported_on_the_later_line() -> None:
    found = bad_lines(FileKind.EXCHANGE_RATES, "EUR,USD,1.08,a,2026-01-31", "EUR,USD,1.09,b,2026-01-31T01:00:00+01:00")
    assert places(found) == [(3, "as_of")]
    assert "line 2" in found[0].message


def test_columns_may_come_in_any_order_with_spaces_and_byte_order_mark() -> None:
    content = "\ufeffpercentage , bundle_slug\r\n 40.50 ,forest\r\n".encode()
    (row,) = judge(FileKind.DEFAULTS, content).defaults.rows
    assert (row.bundle_slug, row.percentage) == ("forest", "40.5")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("bundle_slug", "percentage is missing"),
        ("bundle_slug,percentage,colour", "“colour” is unknown"),
        ("bundle_slug,percentage,percentage", "twice"),
        ("bundle_slug;percentage", "semicolons"),
    ],
)
def test_a_bad_header_is_reported_once_and_no_line_below_it(header: str, message: str) -> None:
    (found,) = bad_lines(FileKind.DEFAULTS, "x,y", header=header)
    assert found.line == 1
    assert message in found.message


def test_a_wrong_number_of_cells_is_reported() -> None:
    found = bad_lines(FileKind.DEFAULTS, "forest", "forest,100,x", "forest,100")
    assert [bad_line.line for bad_line in found] == [2, 3]


@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        (b"", 1, "empty"),
        (b"\n\n", 1, "empty"),
        (b"bundle_slug,percentage\na,50\nb,\xff\n", 3, "not UTF-8"),
        ("bundle_slug,percentage\n".encode("utf-16"), 1, "not UTF-8"),
        (b'bundle_slug,percentage\na,50\n"b,50\n', 3, "not valid CSV"),
        (b'bundle_slug,percentage\na,50\n"b"x,50\n', 3, "not valid CSV"),
        (b"bundle_slug,percentage\n" + b"x" * 200_000 + b",1\n", 2, "not valid CSV"),
        (b"x" * (MAX_BYTES + 1), None, "20 MB"),
    ],
)
def test_an_unreadable_file_is_reported(content: bytes, line: int | None, message: str) -> None:
    (found,) = judge(FileKind.DEFAULTS, content).bad_lines
    assert found.line == line
    assert message in found.message


def test_a_row_is_named_by_the_line_it_starts_on() -> None:
    found = bad_lines(FileKind.PROJECTS, with_cell(FileKind.PROJECTS, "name", '"a\nb"'), "short")
    assert [bad_line.line for bad_line in found] == [2, 4]


def test_a_file_of_nothing_but_faults_is_given_up() -> None:
    found = bad_lines(FileKind.DEFAULTS, *["?,?"] * MAX_BAD_LINES)
    assert len(found) <= MAX_BAD_LINES + 2
    assert "too many faults" in found[-1].message


def test_a_file_of_too_many_rows_is_refused() -> None:
    lines = (f"b{i}," for i in range(MAX_ROWS + 1))
    found = bad_lines(FileKind.DEFAULTS, *lines)
    assert places(found) == [(MAX_ROWS + 2, None)]


def test_the_report_shows_strange_characters_harmlessly() -> None:
    (found,) = bad_lines(FileKind.DEFAULTS, header="bundle_slug,percentage,\u202e\x1b[2J")
    assert str(found).isprintable()
