"""`--help` of every command."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tests.support.command import output_of
from tonne.apps.cli.help_pages import read_help_pages
from tonne.apps.cli.main import COMMANDS, main
from tools.docs.generated import help_pages

Named = tuple[tuple[str, ...], click.Command]


def _commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[Named]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from _commands(child, (*words, name))


ALL = list(_commands(main))
# By the first word of the command. One test for each group: starting a test takes longer than printing a help.
GROUPS = {name: [one for one in ALL if name == (one[0][0] if one[0] else "tonne")] for name in ("tonne", *COMMANDS)}


def _options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option) and not p.hidden and p.name != "version"]


def test_all_commands_are_listed() -> None:
    names = {" ".join(words) for words, _ in ALL}
    assert {"serve", "api", "worker", "migrate", "doctor", "org", "account", "key", "estimate", "catalogue"} <= names
    assert {"org create", "account create", "key create", "key revoke", "estimate create", "catalogue import"} <= names


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_and_option_has_a_help(group: str) -> None:
    faults = [f"{' '.join(words)}: {fault}" for words, command in GROUPS[group] for fault in _faults(words, command)]
    assert faults == [], "\n".join(faults)


def _faults(words: tuple[str, ...], command: click.Command) -> Iterator[str]:
    long, short = (CliRunner().invoke(main, [*words, form], prog_name="tonne") for form in ("--help", "-h"))
    if long.exit_code != 0:
        yield f"--help exits with {long.exit_code}"
    if (short.exit_code, short.output) != (0, long.output):
        yield "-h prints something else than --help"
    if not long.output.startswith(f"Usage: {' '.join(('tonne', *words))}"):
        yield "the help does not begin with the usage"
    if not (command.help or "").strip() or command.get_short_help_str(200).rstrip(".") == "":
        yield "the command does not say what it does"
    for option in _options(command):
        if max(option.opts, key=len) not in long.output:
            yield f"the help does not list {option.opts[0]}"
        if not (option.help or "").strip():
            yield f"{option.opts[0]} does not say what it is for"
    for argument in (parameter for parameter in command.params if isinstance(parameter, click.Argument)):
        if argument.make_metavar(click.Context(command)).split("[")[0].strip(".") not in long.output:
            yield f"the help does not list {argument.name}"
    if max(map(len, long.output.splitlines())) > 100:
        yield "a line of the help is longer than 100 characters"
    if isinstance(command, click.Group):
        yield from _faults_of_list(words, command, long.output)


def _faults_of_list(words: tuple[str, ...], group: click.Group, output: str) -> Iterator[str]:
    """Each command has one line, which fits 80 columns."""
    yield from (f"the help does not list {name}" for name in group.commands if name not in output)
    narrow = CliRunner().invoke(main, [*words, "--help"], prog_name="tonne", terminal_width=80)
    listed = narrow.output.partition("Commands:\n")[2].splitlines()
    if len(listed) != len(group.list_commands(click.Context(group))):
        yield "the list of commands has not one line per command"
    yield from (f"too long for 80 columns: {line}" for line in listed if line.endswith("...") or len(line) > 80)


def test_the_stored_help_is_up_to_date() -> None:
    assert read_help_pages() == help_pages(), "run `make pages`"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_stored_help_is_printed_as_click_prints_a_help(width: int) -> None:
    """A terminal that is too narrow for the first sentence of a command gets all of it, on two lines."""
    context = click.Context(main, info_name="tonne", terminal_width=width, **main.context_settings)
    for words, command in ALL:
        expected = command.get_help(click.Context(command, context, " ".join(words)))
        if words and "..." not in expected.partition("Commands:\n")[2]:
            printed = CliRunner().invoke(main, [*words, "--help"], prog_name="tonne", terminal_width=width)
            assert printed.output == f"{expected}\n"


def test_help_and_version_need_no_database() -> None:
    assert "tonne serve --demo" in output_of("--help")
    assert output_of("--version").startswith("tonne, version ")
