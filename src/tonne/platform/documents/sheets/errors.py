"""Errors of an imported file. An import reports all of them at once."""

from collections.abc import Sequence

from msgspec import Struct


class RowError(Struct, frozen=True):
    """`line` counts from 1 and includes the header; None means the whole file or the whole line.

    `accept_option` is the option of the command line that accepts the row as it is. Only the text for the command line
    names it: pages have a checkbox.
    """

    file: str
    line: int | None
    column: str | None
    message: str
    accept_option: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        column = "" if self.column is None else f", column {self.column}"
        option = f" To accept it, use {self.accept_option}." if self.accept_option else ""
        return f"{self.file}{line}{column}: {self.message}{option}"


class SheetInvalid(Exception):
    """Nothing was imported. `errors` holds every error that was found."""

    def __init__(self, errors: Sequence[RowError]) -> None:
        super().__init__("\n".join(map(str, errors)))
        self.errors = errors


def quoted(text: str) -> str:
    """Text from a file in quotes, shortened and without characters that a terminal would interpret."""
    cut = text if len(text) <= 40 else f"{text[:39]}…"
    printable = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return f"“{printable}”"
