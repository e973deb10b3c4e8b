"""`--help` of every command: it is there, and it says something."""

from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tests.cli.command import output_of
from tonne.cli.main import main

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


def _options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option) and not p.hidden and p.name != "version"]


def test_all_the_commands_are_there() -> None:
    names = {" ".join(words) for words, _ in ALL}
    assert {"serve", "api", "worker", "migrate", "doctor", "org", "account", "key", "estimate", "catalogue"} <= names
    assert {"org create", "account create", "key create", "key revoke", "estimate create", "catalogue import"} <= names


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) or "tonne" for words, _ in ALL])
def test_help_reads_well(words: tuple[str, ...], command: click.Command) -> None:
    done = CliRunner().invoke(main, [*words, "--help"], prog_name="tonne")
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: {' '.join(('tonne', *words))}")
    assert (command.help or "").strip(), "a command says what it does"
    assert (command.get_short_help_str(200)).rstrip(".") != ""
    for option in _options(command):
        assert max(option.opts, key=len) in done.output
        assert (option.help or "").strip(), f"{option.opts[0]} says what it is for"
    for argument in (parameter for parameter in command.params if isinstance(parameter, click.Argument)):
        assert argument.make_metavar(click.Context(command)).split("[")[0].strip(".") in done.output
    assert max(map(len, done.output.splitlines())) <= 100
    if isinstance(command, click.Group):
        assert all(name in done.output for name in command.commands)


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) or "tonne" for words, _ in ALL])
def test_the_short_form_is_the_same(words: tuple[str, ...], command: click.Command) -> None:
    assert command is not None
    long, short = (CliRunner().invoke(main, [*words, form], prog_name="tonne") for form in ("--help", "-h"))
    assert (short.exit_code, short.output) == (0, long.output)


def test_the_installed_command_answers_without_a_database() -> None:
    assert "tonne serve --demo" in output_of("--help")
    assert output_of("--version").startswith("tonne, version ")
