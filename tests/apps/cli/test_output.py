"""Tables for people, JSON and CSV for programs."""

import csv
import io
import json
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import click
import pytest

from tests.apps.cli.test_help import ALL, Named
from tonne.apps.cli.output import (
    STATUS_STYLES,
    Format,
    MoneyColumn,
    Output,
    Table,
    TonnesColumn,
    ValueColumn,
    detect_output,
    group,
)
from tonne.apps.cli.table import Cell, layout, width_of

READING = ("list", "show", "status")
# Commands that read and have another name.
OTHERS = {"audit", "invoice write-offs"}


@dataclass(frozen=True)
class Row:
    id: str
    status: str
    name: str
    minor: int | None
    grams: int | None
    at: datetime | None
    tags: tuple[str, ...] = ()


COLUMNS: tuple[ValueColumn[Row], ...] = (
    ValueColumn("id", lambda r: r.id),
    ValueColumn("status", lambda r: r.status, styles=STATUS_STYLES),
    ValueColumn("name", lambda r: r.name, shrinks=True),
    MoneyColumn("total", lambda r: r.minor, lambda _: "EUR"),
    TonnesColumn("quantity", lambda r: r.grams, head="tonnes"),
    ValueColumn("created_at", lambda r: r.at, head="created"),
    ValueColumn("tags", lambda r: r.tags, in_table=False),
)
AT = datetime(2026, 3, 1, 9, 30, 15, 2000, UTC)
ROWS = [
    Row("ord_1", "paid", "Ada", 123_456_789, 1_234_500_000, AT, ("a", "b")),
    Row("ord_2", "failed", "=cmd|'/c calc'!A1", 5, None, None),
    Row("ord_3", "new", "Grüße \x1b[31m", None, 1, AT),
]


def _printed(capsys: pytest.CaptureFixture[str], output: Output, rows: list[Row] = ROWS) -> list[str]:
    output.print_rows(rows, COLUMNS, empty="Nothing.")
    return capsys.readouterr().out.splitlines()


def test_a_table_has_grouped_numbers_on_the_right_and_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = _printed(capsys, Output())
    assert lines[0].split() == ["id", "status", "name", "total", "tonnes", "created"]
    end = lines[0].index("total") + len("total")
    assert lines[1][:end].endswith(" 1,234,567.89 EUR")
    assert lines[2][:end].endswith(" 0.05 EUR")
    assert lines[3][:end].endswith(" -")
    assert "1,234.5 " in lines[1]
    assert "\x1b" not in "".join(lines)
    assert _printed(capsys, Output(), []) == ["Nothing."]


def test_json_has_full_values(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = (json.loads(line) for line in _printed(capsys, Output(Format.JSON)))
    assert first == {
        "id": "ord_1",
        "status": "paid",
        "name": "Ada",
        "total": "1234567.89",
        "currency": "EUR",
        "quantity": "1234.5",
        "created_at": "2026-03-01T09:30:15.002Z",
        "tags": ["a", "b"],
    }
    assert (second["name"], second["created_at"], second["quantity"]) == ("=cmd|'/c calc'!A1", None, None)
    assert third["total"] is None
    assert _printed(capsys, Output(Format.JSON), []) == []


def test_csv_has_full_values_and_runs_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.DictReader(io.StringIO("\n".join(_printed(capsys, Output(Format.CSV))))))
    assert list(lines[0]) == ["id", "status", "name", "total", "currency", "quantity", "created_at", "tags"]
    assert lines[0]["total"] == "1234567.89"
    assert lines[0]["tags"] == "a, b"
    assert lines[1]["name"] == "'=cmd|'/c calc'!A1"
    assert lines[2]["total"] == ""
    assert _printed(capsys, Output(Format.CSV), []) == ["id,status,name,total,currency,quantity,created_at,tags"]


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_table_fits_the_terminal_and_ids_stay_whole(capsys: pytest.CaptureFixture[str], width: int) -> None:
    rows = [Row(f"ord_{'x' * 26}", "paid", "A long name " * 9, 100, 10**6, AT)]
    Output(width=width).print_rows(rows, COLUMNS)
    printed = capsys.readouterr()
    assert max(map(len, printed.out.splitlines())) <= width
    assert rows[0].id in printed.out
    assert ("do not fit" in printed.err) == (width < 100)
    assert "A long na" in printed.out if width > 40 else True


def test_states_are_coloured_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    lines = _printed(capsys, Output(has_colour=True, width=100))
    assert "\x1b[32mpaid\x1b[0m" in lines[1]
    assert "\x1b[31mfailed\x1b[0m" in lines[2]
    Output(has_colour=True).print_object(ROWS[0], COLUMNS)
    assert "\x1b[32mpaid\x1b[0m" in capsys.readouterr().out


def test_colours_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert detect_output() == Output()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert detect_output() == Output(Format.TABLE, has_colour=True, width=90)
    assert detect_output(no_color=True) == Output(Format.TABLE, has_colour=False, width=90)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not detect_output().has_colour


def test_an_object_has_facts_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    below: list[Table[Any]] = [
        Table("parts", [AT.date()], (ValueColumn[date]("day", lambda day: day),)),
        Table("none", [], COLUMNS),
    ]
    Output().print_object(ROWS[0], COLUMNS, below)
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "created  2026-03-01 09:30",
        "",
        "day",
        "2026-03-01",
    ]
    Output(Format.JSON).print_object(ROWS[0], COLUMNS, below)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["parts"], shown["none"]) == ([{"day": "2026-03-01"}], [])


def test_wide_characters_count_twice() -> None:
    assert width_of("日本") == 4
    assert width_of("e\u0301") == 1
    table = layout(["name", "x"], [[Cell("日本語の名前です"), Cell("1")]], 14, shrinking=[0])
    assert [width_of(line) for line in table.lines(has_colour=False)] == [14, 14]


def test_numbers_are_grouped() -> None:
    assert [group(text) for text in ("0", "999", "1000", "1234567.001", "-1234.50", "-0.05")] == [
        *("0", "999", "1,000", "1,234,567.001"),
        *("-1,234.50", "-0.05"),
    ]


READING_COMMANDS: list[Named] = [
    (words, command)
    for words, command in ALL
    if not isinstance(command, click.Group) and (words[-1] in READING or " ".join(words) in OTHERS)
]


@pytest.mark.parametrize(("words", "command"), READING_COMMANDS, ids=[" ".join(words) for words, _ in READING_COMMANDS])
def test_people_f_every_reading_command_has_json_and_csv(words: tuple[str, ...], command: click.Command) -> None:
    names = {parameter.name for parameter in command.params}
    assert {"as_json", "as_csv", "no_color"} <= names, f"decorate `tonne {' '.join(words)}` with output_options"
