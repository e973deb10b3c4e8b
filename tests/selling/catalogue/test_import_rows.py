"""The column rules of each catalogue file, and of lots."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from tonne.platform.documents.sheets.columns import RowError
from tonne.platform.documents.sheets.read_sheet import Sheet, SheetFile, read_sheet
from tonne.selling.catalogue.imports.plan import FileKind, read_files
from tonne.supply.stock.lots.lots import LotRow, check_lot, latest_day

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
VALID = {
    FileKind.PROJECTS: "Verra,VCS1,Old forest,Peru,Forest,VM1,avoidance,1000000",
    FileKind.BUNDLES: "forest,Forest,Trees.,/images/forest.svg,12.65,true,1",
    FileKind.BUNDLE_PROJECTS: "forest,Verra,VCS1,1",
    FileKind.EXCHANGE_RATES: "EUR,USD,1.08,demo,2026-01-31",
    FileKind.LOTS: "Verra,VCS1,2021,A,1,10,held,,",
    FileKind.DEFAULTS: "forest,100",
}


def read(kind: FileKind, content: bytes, currency: str = "EUR") -> Sheet[Any]:
    file = SheetFile(kind, content)
    if kind is FileKind.LOTS:
        return read_sheet(file, LotRow, partial(check_lot, latest_day(NOW)))
    sheet: Sheet[Any] = getattr(read_files({kind: file}, currency), kind.name.lower())
    return sheet


def errors_in(kind: FileKind, *lines: str, header: str | None = None, currency: str = "EUR") -> list[RowError]:
    """The errors of the lines below the header: the first one is line 2."""
    content = "\n".join((header or HEADERS[kind], *lines)).encode()
    return read(kind, content, currency).errors


def places(found: list[RowError]) -> list[tuple[int | None, str | None]]:
    return [(error.line, error.column) for error in found]


def with_cell(kind: FileKind, column: str, cell: str) -> str:
    """The valid line with one cell replaced."""
    cells = VALID[kind].split(",")
    cells[HEADERS[kind].split(",").index(column)] = cell
    return ",".join(cells)


@pytest.mark.parametrize("kind", FileKind)
def test_a_valid_line_of_each_file_has_no_errors(kind: FileKind) -> None:
    assert errors_in(kind, VALID[kind]) == []


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
    (FileKind.PROJECTS, "granularity_grams", "300", "tonnes or kilograms"),
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
    (FileKind.LOTS, "last_number", "1000000000000000", "whole number"),
    (FileKind.LOTS, "first_number", "", "or the serial"),
    (FileKind.LOTS, "status", "retired", "held or pre_retired"),
    (FileKind.LOTS, "retirement_url", "https://example.org/r", "held lot"),
    (FileKind.LOTS, "retired_on", "2024-05-06", "held lot"),
    (FileKind.LOTS, "retired_on", "6.5.2024", "not a date"),
    (FileKind.DEFAULTS, "percentage", "33.3333333333333", "number above 0 and up to 100"),
    (FileKind.DEFAULTS, "percentage", "101", "up to 100"),
]


@pytest.mark.parametrize(("kind", "column", "cell", "message"), BAD_CELLS)
def test_a_bad_cell_is_reported_with_its_line_and_column(kind: FileKind, column: str, cell: str, message: str) -> None:
    found = errors_in(kind, "", with_cell(kind, column, cell))
    assert places(found) == [(3, column)]
    assert message in found[0].message


def test_every_error_of_every_line_is_reported() -> None:
    found = errors_in(FileKind.LOTS, "Verra,,20x1,B,1,10,hold,,", VALID[FileKind.LOTS], ",VCS1,2021,,1,10,held,,")
    assert places(found) == [
        (2, "registry_project_id"),
        (2, "vintage"),
        (2, "status"),
        (4, "registry"),
        (4, "serial_block"),
    ]


def test_prices_have_the_decimals_of_the_catalogues_currency() -> None:
    assert errors_in(FileKind.BUNDLES, with_cell(FileKind.BUNDLES, "unit_price", "1.5"), currency="JPY")
    assert not errors_in(FileKind.BUNDLES, with_cell(FileKind.BUNDLES, "unit_price", "1.505"), currency="KWD")


@pytest.mark.parametrize(
    "cell", ["=1+1", "+1", "-1", "@cmd", "'; DROP TABLE lots --", "<script>", "森林 🌲", '"a, ""b"""']
)
def test_formulas_markup_and_quotes_are_plain_text(cell: str) -> None:
    assert errors_in(FileKind.PROJECTS, with_cell(FileKind.PROJECTS, "name", cell)) == []


def test_a_pre_retired_lot_needs_url_and_date() -> None:
    found = errors_in(FileKind.LOTS, "Verra,VCS1,2021,A,1,10,pre_retired,,")
    assert places(found) == [(2, "retirement_url"), (2, "retired_on")]


@pytest.mark.parametrize(("day", "message"), [("2026-11-17", "future"), ("2020-12-31", "before the vintage")])
def test_a_lot_is_retired_between_its_vintage_and_today(day: str, message: str) -> None:
    found = errors_in(FileKind.LOTS, f"Verra,VCS1,2021,A,1,10,pre_retired,https://example.org/r,{day}")
    assert places(found) == [(2, "retired_on")]
    assert message in found[0].message


def test_a_key_that_comes_twice_is_reported_on_the_later_line() -> None:
    found = errors_in(FileKind.EXCHANGE_RATES, "EUR,USD,1.08,a,2026-01-31", "EUR,USD,1.09,b,2026-01-31T01:00:00+01:00")
    assert places(found) == [(3, "as_of")]
    assert "line 2" in found[0].message


def test_columns_may_come_in_any_order_with_spaces_and_byte_order_mark() -> None:
    content = "\ufeffpercentage , bundle_slug\r\n 40.50 ,forest\r\n".encode()
    (row,) = read(FileKind.DEFAULTS, content).rows
    assert (row.bundle_slug, row.percentage) == ("forest", "40.5")
