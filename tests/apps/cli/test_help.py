"""`--help` of every command."""

import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from tests.support.command import output_of
from tonne.apps.cli.main import COMMANDS, main

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


def test_all_commands_are_listed() -> None:
    names = {" ".join(words) for words, _ in ALL}
    assert {"serve", "api", "worker", "migrate", "doctor", "org", "account", "key", "estimate", "catalogue"} <= names
    assert {"org create", "account create", "key create", "key revoke", "estimate create", "catalogue import"} <= names


@pytest.mark.parametrize(("words", "command"), ALL, ids=[" ".join(words) or "tonne" for words, _ in ALL])
def test_every_command_and_option_has_a_help(words: tuple[str, ...], command: click.Command) -> None:
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
def test_h_is_short_for_help(words: tuple[str, ...], command: click.Command) -> None:
    assert command is not None
    long, short = (CliRunner().invoke(main, [*words, form], prog_name="tonne") for form in ("--help", "-h"))
    assert (short.exit_code, short.output) == (0, long.output)


@pytest.mark.parametrize(
    ("words", "group"), [(words, command) for words, command in ALL if isinstance(command, click.Group)], ids=str
)
def test_one_line_helps_fit_80_columns(words: tuple[str, ...], group: click.Group) -> None:
    done = CliRunner().invoke(main, [*words, "--help"], prog_name="tonne", terminal_width=80)
    listed = done.output.partition("Commands:\n")[2].splitlines()
    assert len(listed) == len(group.list_commands(click.Context(group))), "one line per command"
    assert [line for line in listed if line.endswith("...") or len(line) > 80] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_table_repeats_the_help_of_each_command(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert COMMANDS[name] == command.get_short_help_str(200)


def test_help_imports_no_command() -> None:
    script = (
        "import sys; from tonne.apps.cli.main import main; main(['--help'], standalone_mode=False); print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1].split()
    assert [name for name in imported if name.startswith("tonne.")] == ["tonne.apps.cli", "tonne.apps.cli.main"]


def test_help_and_version_need_no_database() -> None:
    assert "tonne serve --demo" in output_of("--help")
    assert output_of("--version").startswith("tonne, version ")
