"""docs/command-line.md lists every command, and completion works."""

import os
import re
import subprocess
from pathlib import Path

import click

from tests.apps.cli.test_help import ALL
from tests.support.command import TONNE, Operator, tonne
from tests.support.world import World

PAGE = Path(__file__).parents[3] / "docs" / "command-line.md"


def table() -> str:
    """What the page must contain between its markers."""
    lines = ["| Command | What it does |", "|---|---|"]
    for words, command in ALL:
        if words and not isinstance(command, click.Group):
            arguments = [
                p.make_metavar(click.Context(command)) for p in command.params if isinstance(p, click.Argument)
            ]
            name = " ".join(("tonne", *words, *arguments)).replace("|", "\\|")
            lines.append(f"| `{name}` | {command.get_short_help_str(200)} |")
    return "\n".join(lines)


def test_the_page_lists_every_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(r"<!-- commands -->\n(.*)\n<!-- /commands -->", text, re.DOTALL)
    assert found is not None
    remedy = "write the table again: python -m tests.cli.test_command_line_page"
    assert found[1] == table(), remedy


def test_people_f_the_shell_completes_commands() -> None:
    environment = {**os.environ, "_TONNE_COMPLETE": "bash_complete", "COMP_WORDS": "tonne ord", "COMP_CWORD": "1"}
    done = subprocess.run([TONNE], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["plain,order"]
    environment |= {"COMP_WORDS": "tonne order li", "COMP_CWORD": "2"}
    done = subprocess.run([TONNE], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["plain,list"]


def test_people_f_a_misspelt_command_gets_a_suggestion() -> None:
    for words, meant in ((("ordr",), "order"), (("order", "lst"), "list")):
        done = tonne(*words, database_url="postgresql://nowhere")
        assert done.returncode == 2
        assert f"'{meant}'" in done.stderr


def test_people_f_an_id_of_another_kind_gets_a_suggestion(operator: Operator, world: World) -> None:
    order_id, account_id = "ord_06gu8f7p9c1754v8iqsnquk2lo", world.ours_test.scope.account_id
    said = operator.is_refused("charge", "show", order_id)
    assert said.endswith(f"{order_id} is an order: use `tonne order show {order_id}`.")
    said = operator.is_refused("key", "list", account_id)
    assert said.endswith(f"{account_id} is an account: use `tonne account show {account_id}`.")
    assert "use `tonne order show" not in operator.is_refused("order", "show", order_id)


if __name__ == "__main__":
    before = PAGE.read_text(encoding="utf-8")
    inner = f"<!-- commands -->\n{table()}\n<!-- /commands -->"
    PAGE.write_text(re.sub(r"<!-- commands -->.*<!-- /commands -->", lambda _: inner, before, flags=re.DOTALL))
