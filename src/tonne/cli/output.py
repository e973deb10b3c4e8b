"""Printing tables and lists of facts on a terminal."""

from collections.abc import Iterable, Mapping, Sequence

import click


def print_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    lines = [heads, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def print_facts(facts: Mapping[str, str | Sequence[str]]) -> None:
    """One name and value per line. A value given as several lines is indented below its first line."""
    width = max(map(len, facts)) + 2
    for name, value in facts.items():
        lines = [value] if isinstance(value, str) else value
        click.echo(name.ljust(width) + ("\n" + " " * width).join(map(printable, lines)).rstrip())


def printable(text: str) -> str:
    """Escapes control characters: text from an API client must not send commands to the operator's terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
