"""CSV as it comes from outside: bytes to rows, and every fault with its place."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

MAX_BYTES = 20_000_000
# Together with the size these bound the memory of an import, whatever the file holds.
MAX_ROWS = 100_000
MAX_BAD_LINES = 10_000


class FileKind(StrEnum):
    """The files of a catalogue; a file is known by its name."""

    PROJECTS = "projects.csv"
    BUNDLES = "bundles.csv"
    BUNDLE_PROJECTS = "bundle_projects.csv"
    EXCHANGE_RATES = "exchange_rates.csv"
    LOTS = "lots.csv"
    DEFAULTS = "defaults.csv"


@dataclass(frozen=True, slots=True)
class CsvFile:
    """`name` is what the report calls it."""

    kind: FileKind
    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class BadLine:
    """One thing to mend. `line` counts from 1, the header included; None means the file as a whole."""

    file: str
    line: int | None
    column: str | None
    message: str

    def __str__(self) -> str:
        place = self.file
        if self.line is not None:
            place += f", line {self.line}"
        if self.column is not None:
            place += f", column {self.column}"
        return f"{place}: {self.message}"


@dataclass(frozen=True, slots=True)
class RawRow:
    """The cells of one line by column name. A column that the file leaves out has an empty cell."""

    line: int
    cells: dict[str, str]


class CsvReader:
    """Reads one file line by line. `bad_lines` and `complete` are known once the rows have been read to the end.

    Whoever judges the rows meanwhile adds to `bad_lines`.
    `complete` is False when lines are missing from the rows: then nobody may call a reference to one of them unknown.
    """

    def __init__(self, file: CsvFile, required: tuple[str, ...], optional: tuple[str, ...]) -> None:
        self.bad_lines: list[BadLine] = []
        self.complete = True
        self._file = file
        self._required = required
        self._optional = optional

    def rows(self) -> Iterator[RawRow]:
        text = self._decode()
        if text is None:
            return
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header: list[str] | None = None
        row_count = 0
        while True:
            # A quoted cell may span lines: a row is named by the line it starts on.
            line = reader.line_num + 1
            try:
                cells = next(reader, None)
            except csv.Error as error:
                self._stop(line, f"the line is not valid CSV ({error}): mend its quotes and commas, then import again.")
                return
            if cells is None:
                break
            if not cells:
                continue
            if header is None:
                header = self._header(cells, line)
                if header is None:
                    return
                continue
            row_count += 1
            if row_count > MAX_ROWS:
                self._stop(line, f"the file has more than {MAX_ROWS:,} rows: split it and import the parts one by one.")
                return
            if len(self.bad_lines) >= MAX_BAD_LINES:
                self._stop(line, "there are too many faults to go on: mend those above, then import again.")
                return
            if len(cells) != len(header):
                self._note(
                    line, f"the line has {len(cells)} cells instead of {len(header)}: {_cell_count_remedy(cells)}"
                )
                self.complete = False
            else:
                yield RawRow(line, dict.fromkeys(self._optional, "") | dict(zip(header, cells, strict=True)))
        if header is None:
            self._stop(1, f"the file is empty: its first line must be {','.join(self._required)}.")

    def _decode(self) -> str | None:
        content = self._file.content
        if len(content) > MAX_BYTES:
            self._stop(None, f"the file is larger than {MAX_BYTES // 1_000_000} MB: split it and import the parts.")
            return None
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            self._stop(line, "the file is not UTF-8 from here on: save it as “CSV UTF-8”.")
            return None

    def _header(self, cells: list[str], line: int) -> list[str] | None:
        """The column names, or None after noting what is wrong with them: then no row can be judged."""
        names = [cell.strip() for cell in cells]
        known = self._required + self._optional
        if len(names) == 1 and ";" in names[0]:
            self._stop(line, "the cells are separated by semicolons: save the file with commas.")
            return None
        for name in dict.fromkeys(names):
            if name not in known:
                self._stop(line, f"the column {show(name)} is unknown: the columns are {', '.join(known)}.")
            elif names.count(name) > 1:
                self._stop(line, f"the column {name} stands there twice: keep one.")
        for name in self._required:
            if name not in names:
                self._stop(line, f"the column {name} is missing: add it to the first line.")
        return names if self.complete else None

    def _stop(self, line: int | None, message: str) -> None:
        self.complete = False
        self._note(line, message)

    def _note(self, line: int | None, message: str) -> None:
        self.bad_lines.append(BadLine(self._file.name, line, None, message))


def show(text: str) -> str:
    """Text from a file, short and harmless enough for a terminal."""
    cut = text if len(text) <= 40 else f"{text[:39]}…"
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f"“{plain}”"


def _cell_count_remedy(cells: list[str]) -> str:
    if len(cells) == 1:
        return "fill it in or delete it."
    return "put a cell that holds a comma in double quotes, and write one comma per column."
