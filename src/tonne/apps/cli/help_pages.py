"""What `--help` prints, from a generated file: importing a command to print its help takes half a second.

`make pages` writes the file from the commands, and a test compares them.
"""

import json
from pathlib import Path
from typing import TypedDict

import click

HELP_PAGES = Path(__file__).with_name("help_pages.json")


class HelpPage(TypedDict):
    usage: str
    text: str
    sections: dict[str, dict[str, str]]


def read_help_pages() -> dict[str, HelpPage]:
    """By the words of the command, such as `order list`."""
    pages: dict[str, HelpPage] = json.loads(HELP_PAGES.read_bytes())
    return pages


def write_help(page: HelpPage, command_path: str, formatter: click.HelpFormatter) -> None:
    """Write what Click would write for the command."""
    formatter.write_usage(command_path, page["usage"])
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(page["text"])
    for heading, rows in page["sections"].items():
        with formatter.section(heading):
            formatter.write_dl(list(rows.items()))
