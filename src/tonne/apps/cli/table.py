"""Lays out a table on a terminal: aligned, coloured, and no wider than the terminal."""

import unicodedata
from collections.abc import Sequence

import click
from msgspec import Struct

GAP = "  "
# A shortened column keeps at least this many characters.
LEAST_WIDTH = 10


class Cell(Struct, frozen=True):
    """Printable text and its colour."""

    text: str
    colour: str | None = None
    align_right: bool = False

    def styled(self, *, has_colour: bool, width: int | None = None) -> str:
        text = self.text if width is None else shorten(self.text, width)
        padding = " " * max(0, (width or 0) - width_of(text))
        coloured = click.style(text, fg=self.colour) if has_colour and self.colour else text
        return padding + coloured if self.align_right else coloured + padding


class Layout(Struct, frozen=True):
    heads: Sequence[Cell]
    rows: Sequence[Sequence[Cell]]
    widths: Sequence[int]
    # The headings of columns that were left out.
    dropped: Sequence[str]

    def lines(self, *, has_colour: bool) -> list[str]:
        heads = GAP.join(
            cell.styled(has_colour=False, width=width) for cell, width in zip(self.heads, self.widths, strict=True)
        ).rstrip()
        lines = [click.style(heads, bold=True) if has_colour else heads]
        for row in self.rows:
            cells = [
                cell.styled(has_colour=has_colour, width=width) for cell, width in zip(row, self.widths, strict=True)
            ]
            lines.append(GAP.join(cells).rstrip())
        return lines


def layout(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], limit: int | None, *, shrinking: Sequence[int]
) -> Layout:
    """Fit a table into `limit` columns: shorten the shrinking ones, then leave out columns from the right."""
    count = len(heads)
    natural = [max([width_of(heads[i]), *(width_of(row[i].text) for row in rows)]) for i in range(count)]
    least = [
        max(width_of(heads[i]), min(natural[i], LEAST_WIDTH)) if i in shrinking else natural[i] for i in range(count)
    ]
    while limit is not None and count > 1 and _total(least[:count]) > limit:
        count -= 1
    widths = natural[:count]
    while limit is not None and _total(widths) > limit:
        possible = [i for i in range(count) if widths[i] > least[i]]
        if not possible:
            break
        widths[max(possible, key=lambda i: widths[i])] -= 1
    is_right = [all(row[i].align_right or row[i].text == "-" for row in rows) and bool(rows) for i in range(count)]
    return Layout(
        [Cell(heads[i], align_right=is_right[i]) for i in range(count)],
        [[Cell(row[i].text, row[i].colour, is_right[i]) for i in range(count)] for row in rows],
        widths,
        heads[count:],
    )


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def shorten(text: str, width: int) -> str:
    if width_of(text) <= width:
        return text
    while text and width_of(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def width_of(text: str) -> int:
    """The columns a terminal needs: East Asian characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def printable(text: str) -> str:
    """Escapes control characters: text from an API client must not send commands to the operator's terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
