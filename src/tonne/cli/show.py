"""What the commands share in speaking with a person."""

import os
from collections.abc import Sequence

import click

from tonne.catalog.selection import BundleChoiceIn

# Who did it, in the audit log: the command line has no login of its own.
ACTOR = f"cli:{os.environ.get('USER', 'unknown')}"
SELECTION = "[BUNDLE_ID[=PERCENTAGE]]..."


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, *rows]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def read_selection(words: Sequence[str]) -> list[BundleChoiceIn]:
    """`bun_a=60 bun_b=40`, or `bun_a bun_b` for equal parts."""
    choices = []
    for word in words:
        bundle_id, _, percentage = word.partition("=")
        choices.append(BundleChoiceIn(bundle_id, percentage or None))
    return choices
