"""What list and show commands print: a table for people, or --json or --csv for programs.

Declare the columns once; they define the table, the JSON fields and the CSV columns:

    COLUMNS: tuple[ValueColumn[FoundOrder], ...] = (
        *columns("id: order", "status", "created_at: received", "quantity_grams: tonnes", "total_cost_minor: total"),
        ValueColumn("account_name", lambda o: names.of(o.account_id), head="account", shrinks=True),
        *columns("account_id", "scope.mode", in_table=False),
    )

    @order.command("list")
    @output_options
    def list_(output: Output) -> None:
        output.print_rows(found, COLUMNS, empty="No order matches.")

`columns` shows attributes as they are: `"id: order"` is the attribute `id` with the heading `order`. `…_minor` is an
amount in the row's `currency`, `…_grams` are tonnes; the name of the column is without the unit. A test compares the
names with the class of the row, so the constant, or the function that returns the columns, needs its type.

`print_rows` prints a list, `print_object` one object with its facts and, below, tables of what belongs to it.

- The name of a column is its JSON field and CSV column. It is stable: scripts depend on it. Use the API's names
  (`order_id`, `created_at`, `total_cost`). `head` is the heading for people; without it, the name with spaces.
- Give full values: ids, times, minor amounts, grams, None. The column formats them: JSON has times in RFC 3339, amounts
  and tonnes as decimal strings, lists and null; the table has short times, grouped numbers and "-".
- A MoneyColumn adds one field `currency`, shared by all amounts of the row.
- Put the most important columns first. On a terminal, columns with `shrinks=True` (names, texts) are shortened to fit,
  then columns are left out from the right. Ids never wrap. Show names, and add the ids with `in_table=False`.
- JSON: a list is one object per line, a shown object is one object with its tables as lists. CSV: one line per row; of
  a shown object only its facts. Messages for people go to standard error: `click.echo(..., err=True)`.

A test walks through all commands: one called list, show or status must have these options.
"""

import csv
import functools
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Generic, TypeVar

import click
import msgspec

from tonne.apps.cli.table import Cell, layout, printable
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.values.context import to_wire
from tonne_verify.formulas import escape_formula

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


class Format(StrEnum):
    TABLE = "table"
    JSON = "json"
    CSV = "csv"


# Colours of states: green for done, yellow for waiting, red for what failed or needs someone.
STATUS_STYLES: Mapping[str, str] = {
    **dict.fromkeys(("complete", "paid", "captured", "sent", "settled", "open", "retired", "ok", "won"), "green"),
    **dict.fromkeys(("matched", "assigned", "delivered", "succeeded", "current"), "green"),
    **dict.fromkeys(("received", "placed", "retiring", "pending", "waiting", "unpaid", "held", "queued"), "yellow"),
    **dict.fromkeys(("part_payment", "to_return", "refund_due", "over", "under", "overpaid"), "yellow"),
    **dict.fromkeys(("failed", "disputed", "broken", "unmatched", "unknown", "lost", "invalid", "invalidated"), "red"),
    **dict.fromkeys(("cancelled", "expired", "disabled", "revoked", "withdrawn", "discarded", "refunded"), "magenta"),
}


@dataclass(frozen=True)
class ValueColumn(Generic[T]):
    """A column of texts, numbers, booleans, times or lists of texts. People see times to the minute, in UTC.

    `show` replaces the text in the table, not the value.
    """

    name: str
    value: Callable[[T], Any]
    _: KW_ONLY
    head: str | None = None
    show: Callable[[T], str] | None = None
    in_table: bool = True
    shrinks: bool = False
    styles: Mapping[str, str] = field(default_factory=dict)
    align_right: bool = False
    # Among facts, the lines of the text are printed below each other.
    has_lines: bool = False

    @property
    def heading(self) -> str:
        return self.name.replace("_", " ") if self.head is None else self.head

    def fields(self, row: T) -> dict[str, Any]:
        """The value as it is in JSON."""
        value = self.value(row)
        match value:
            case tuple() | set() | frozenset():
                value = list(value)
            case datetime():
                value = to_wire(value)
            case date():
                value = value.isoformat()
        return {self.name: value}

    def names(self) -> tuple[str, ...]:
        return (self.name,)

    def text(self, row: T) -> str:
        return self.show(row) if self.show is not None else spell(self.value(row))

    def fact(self, row: T) -> str:
        """The printable text among the facts of a shown object, where there is more space."""
        text = self.text(row)
        return "\n".join(map(printable, text.split("\n"))) if self.has_lines else printable(text)

    def cell(self, row: T) -> Cell:
        text, value = self.text(row), self.value(row)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        return Cell(printable(text), self.styles.get(str(value)), align_right=self.align_right or is_number)


@dataclass(frozen=True)
class TonnesColumn(ValueColumn[T]):
    """Grams, printed as tonnes."""

    _: KW_ONLY
    align_right: bool = True

    def fields(self, row: T) -> dict[str, Any]:
        grams: int | None = self.value(row)
        return {self.name: None if grams is None else format_tonnes(grams)}

    def text(self, row: T) -> str:
        grams: int | None = self.value(row)
        return "-" if grams is None else group(format_tonnes(grams))


@dataclass(frozen=True)
class MoneyColumn(ValueColumn[T]):
    """Minor units and their currency."""

    currency: Callable[[T], str]
    _: KW_ONLY
    align_right: bool = True

    def fields(self, row: T) -> dict[str, Any]:
        minor: int | None = self.value(row)
        currency = self.currency(row)
        return {self.name: None if minor is None else format_money(minor, currency), "currency": currency}

    def names(self) -> tuple[str, ...]:
        return (self.name, "currency")

    def text(self, row: T) -> str:
        minor: int | None = self.value(row)
        return "-" if minor is None else spell_money(minor, self.currency(row))


def columns(*names: str, in_table: bool = True, shrinks: bool = False) -> tuple[ValueColumn[Any], ...]:
    """Columns that show attributes as they are."""
    return tuple(_column(name, in_table=in_table, shrinks=shrinks) for name in names)


def _column(text: str, *, in_table: bool, shrinks: bool) -> ValueColumn[Any]:
    path, _, head = text.partition(": ")
    name, value = path.rpartition(".")[2], attrgetter(path)
    further: dict[str, Any] = {"head": head or None, "in_table": in_table, "shrinks": shrinks}
    if name.endswith("_minor"):
        return MoneyColumn(name.removesuffix("_minor"), value, attrgetter("currency"), **further)
    if name.endswith("_grams"):
        return TonnesColumn(name.removesuffix("_grams"), value, **further)
    styles = STATUS_STYLES if name in {"status", "state", "payment_state"} else {}
    return ValueColumn(name, value, styles=styles, **further)


class Table(msgspec.Struct, Generic[T], frozen=True):
    """A table below the facts of a shown object; `name` is its field in JSON."""

    name: str
    rows: Sequence[T]
    columns: Sequence[ValueColumn[T]]


class Output(msgspec.Struct, frozen=True):
    """How a command prints. `width` is None if lines may have any length: the output is not a terminal."""

    format: Format = Format.TABLE
    has_colour: bool = False
    width: int | None = None

    def print_rows(
        self, rows: Sequence[T], columns: Sequence[ValueColumn[T]], *, empty: str = "Nothing found."
    ) -> None:
        """`empty` is printed instead of a table without rows; JSON then has no line, and CSV the header."""
        match self.format:
            case Format.JSON:
                for row in rows:
                    click.echo(msgspec.json.encode(_document(row, columns)))
            case Format.CSV:
                click.echo(_csv(rows, columns), nl=False)
            case Format.TABLE if not rows:
                click.echo(empty)
            case Format.TABLE:
                _print_columns(rows, columns, self)

    def print_object(self, row: T, columns: Sequence[ValueColumn[T]], tables: Sequence[Table[Any]] = ()) -> None:
        """Print the facts of one object, and the tables that have rows."""
        match self.format:
            case Format.JSON:
                parts = {table.name: [_document(each, table.columns) for each in table.rows] for table in tables}
                click.echo(msgspec.json.encode(_document(row, columns) | parts))
            case Format.CSV:
                click.echo(_csv([row], columns), nl=False)
            case Format.TABLE:
                shown = [column for column in columns if column.in_table]
                _print_facts([(each.heading, each.fact(row), each.cell(row).colour) for each in shown], self)
                for table in tables:
                    if table.rows:
                        click.echo()
                        _print_columns(table.rows, table.columns, self)


def output_options(command: F) -> F:
    """Add --json, --csv and --no-color, and pass the keyword argument `output` to the command."""

    @functools.wraps(command)
    def wrapped(*args: Any, as_json: bool, as_csv: bool, no_color: bool, **kwargs: Any) -> Any:
        if as_json and as_csv:
            raise click.UsageError("Use either --json or --csv, not both.")
        chosen = Format.JSON if as_json else Format.CSV if as_csv else Format.TABLE
        return command(*args, output=detect_output(chosen, no_color=no_color), **kwargs)

    for option in (
        click.option("--no-color", is_flag=True, help="Print no colours, like the variable NO_COLOR."),
        click.option("--csv", "as_csv", is_flag=True, help="Print CSV with full values."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON with full values."),
    ):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def detect_output(chosen: Format = Format.TABLE, *, no_color: bool = False) -> Output:
    """Colours and a limited width only on a terminal. NO_COLOR turns colours off (no-color.org)."""
    if not sys.stdout.isatty():
        return Output(chosen)
    has_colour = not no_color and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return Output(chosen, has_colour, shutil.get_terminal_size().columns)


def spell(value: object) -> str:  # noqa: PLR0911 - one case per type
    """A value for people."""
    match value:
        case None | "":
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return f"{value.astimezone(UTC):%Y-%m-%d %H:%M}"
        case list() | tuple() | set() | frozenset():
            return ", ".join(map(str, value)) or "-"
        case dict():
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)


def spell_money(minor: int, currency: str) -> str:
    """`7,176.00 EUR`"""
    return f"{group(format_money(minor, currency))} {currency}"


def group(number: str) -> str:
    """Thousands of a plain decimal, separated by commas."""
    whole, point, decimals = number.partition(".")
    return f"{int(whole):,}{point}{decimals}" if not whole.startswith("-0") else number


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A table of an import's report, which has no other format."""
    lines = [[Cell(printable(cell)) for cell in row] for row in rows]
    for line in layout(heads, lines, None, shrinking=()).lines(has_colour=False):
        click.echo(line)


def _print_columns(rows: Sequence[T], columns: Sequence[ValueColumn[T]], output: Output) -> None:
    shown = [column for column in columns if column.in_table]
    heads = [column.heading for column in shown]
    cells = [[column.cell(row) for column in shown] for row in rows]
    table = layout(heads, cells, output.width, shrinking=[i for i, column in enumerate(shown) if column.shrinks])
    for line in table.lines(has_colour=output.has_colour):
        click.echo(line, color=output.has_colour)
    if table.dropped:
        click.echo(
            f"Columns that do not fit: {', '.join(table.dropped)}. Use a wider terminal, --json or --csv.", err=True
        )


def _print_facts(facts: Sequence[tuple[str, str, str | None]], output: Output) -> None:
    width = max(len(head) for head, _, _ in facts) + 2
    for head, text, colour in facts:
        value = ("\n" + " " * width).join(text.split("\n"))
        if output.has_colour:
            value = click.style(value, fg=colour) if colour else value
        name = click.style(head.ljust(width), dim=True) if output.has_colour else head.ljust(width)
        click.echo((name + value).rstrip(), color=output.has_colour)


def _document(row: T, columns: Sequence[ValueColumn[T]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for column in columns:
        for name, value in column.fields(row).items():
            if document.setdefault(name, value) != value:
                raise ValueError(f"two columns differ in the field {name}")
    return document


def _csv(rows: Sequence[T], columns: Sequence[ValueColumn[T]]) -> str:
    text = io.StringIO(newline="")
    names = list(dict.fromkeys(name for column in columns for name in column.names()))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        document = _document(row, columns)
        writer.writerow([escape_formula(_csv_cell(document[name])) for name in names])
    return text.getvalue()


def _csv_cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(map(str, value))
        case dict():
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)
