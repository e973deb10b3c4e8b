"""Pages that are generated from the code: tables of errors, commands and checks, and all helps.

`make pages` writes them.
"""

import importlib
import inspect
import json
import os
import pkgutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import click

import tonne
from tonne.apps.cli.help_pages import HELP_PAGES, HelpPage
from tonne.apps.cli.main import main
from tonne.platform.http.errors import STATUS
from tonne.platform.values.errors import TonneError
from tools.docs.sources import ROOT

ERRORS_PAGE = ROOT / "docs" / "errors.md"
COMMANDS_PAGE = ROOT / "docs" / "command-line.md"
CONFORMANCE_PAGE = ROOT / "docs" / "conformance.md"
CONFORMANCE_SOURCE = ROOT / "clients" / "conformance" / "src"
NamedCommand = tuple[tuple[str, ...], click.Command]
# How the docstring of an error begins that only the command line shows.
COMMAND_LINE = "On the command line: "


def write_pages() -> None:
    for page, name, table in (
        (ERRORS_PAGE, "errors", http_errors_table()),
        (ERRORS_PAGE, "command line errors", command_line_errors_table()),
        (COMMANDS_PAGE, "commands", commands_table()),
        (CONFORMANCE_PAGE, "checks", conformance_tables()),
    ):
        text = page.read_text(encoding="utf-8")
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        before, _, rest = text.partition(begin)
        updated = f"{before}{begin}{table}{end}{rest.partition(end)[2]}"
        if updated != text:
            page.write_text(updated, encoding="utf-8")
    HELP_PAGES.write_text(json.dumps(help_pages(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@cache
def all_errors() -> set[type[TonneError]]:
    """Every kind of error in the whole package, wherever it is defined."""
    for module in pkgutil.walk_packages(tonne.__path__, "tonne."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found: set[type[TonneError]] = set()
    waiting = [TonneError]
    while waiting:
        for child in waiting.pop().__subclasses__():
            found.add(child)
            waiting.append(child)
    # Errors that tests define are not included.
    return {error for error in found if error.__module__.startswith("tonne.")}


@cache
def statuses_by_code() -> dict[str, set[int]]:
    statuses: defaultdict[str, set[int]] = defaultdict(set)
    for error in all_errors():
        statuses[error.code].add(STATUS[error.kind])
    return statuses


@cache
def explanations() -> dict[str, list[tuple[str, str]]]:
    """When each code is used and what to do then: the first two paragraphs of the docstring of its class.

    Where two classes share a code, one of them explains it, and the docstring of the other has one paragraph at most.
    """
    found: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for error in all_errors():
        when, _, rest = inspect.cleandoc(error.__dict__["__doc__"] or "").replace("|", "\\|").partition("\n\n")
        if rest:
            found[error.code].append((" ".join(when.split()), " ".join(rest.partition("\n\n")[0].split())))
    return found


def http_errors_table() -> str:
    rows = sorted(
        (", ".join(str(status) for status in sorted(statuses)), code, *explanations()[code][0])
        for code, statuses in statuses_by_code().items()
        if not explanations()[code][0][0].startswith(COMMAND_LINE)
    )
    lines = [
        f'| <a id="{code}"></a>`{code}` | {status} | {when} | {what_to_do} |' for status, code, when, what_to_do in rows
    ]
    return "\n".join(["| Code | Status | When | What to do |", "|---|---|---|---|", *lines, ""])


def command_line_errors_table() -> str:
    lines = []
    for code, [(when, what_to_do)] in sorted(explanations().items()):
        if when.startswith(COMMAND_LINE):
            said = when.removeprefix(COMMAND_LINE)
            lines.append(f"| `{code}` | {said[0].upper()}{said[1:]} | {what_to_do} |")
    return "\n".join(["| Code | When | What to do |", "|---|---|---|", *lines, ""])


def all_commands(
    command: click.Command = main, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group with the words that call it."""
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from all_commands(child, (*words, name))


def commands_table() -> str:
    lines = ["| Command | What it does |", "|---|---|"]
    for words, command in all_commands():
        if words and not isinstance(command, click.Group):
            context = click.Context(command)
            arguments = [each.make_metavar(context) for each in command.params if isinstance(each, click.Argument)]
            name = " ".join(("tonne", *words, *arguments)).replace("|", "\\|")
            lines.append(f"| `{name}` | {command.get_short_help_str(200)} |")
    return "\n".join([*lines, ""])


def conformance_tables() -> str:
    """What `tonne-conformance --list` prints. It runs alone, because the suite knows nothing of the service."""
    command = [sys.executable, "-m", "tonne_conformance", "--list"]
    environment = {**os.environ, "PYTHONPATH": str(CONFORMANCE_SOURCE)}
    return subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout


def help_pages() -> dict[str, HelpPage]:
    """What `--help` of every command prints, by the words of the command."""
    return {" ".join(words): _help_page(command) for words, command in all_commands()}


def _help_page(command: click.Command) -> HelpPage:
    context = click.Context(command, parent=click.Context(main, **main.context_settings))
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    records = [option.get_help_record(context) for option in options]
    sections = {"Options": dict(record for record in records if record is not None)}
    if isinstance(command, click.Group):
        children = {name: command.get_command(context, name) for name in command.list_commands(context)}
        sections["Commands"] = {
            name: child.get_short_help_str(200) for name, child in children.items() if child and not child.hidden
        }
    usage = " ".join(command.collect_usage_pieces(context))
    return HelpPage(usage=usage, text=inspect.cleandoc(command.help or ""), sections=sections)


if __name__ == "__main__":
    write_pages()
