"""Errors of an imported file. An import reports all of them at once."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowError:
    """`line` counts from 1 and includes the header; None means the whole file or the whole line."""

    file: str
    line: int | None
    column: str | None
    message: str

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        column = "" if self.column is None else f", column {self.column}"
        return f"{self.file}{line}{column}: {self.message}"


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
