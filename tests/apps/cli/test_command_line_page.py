"""docs/command-line.md is generated from the commands, and completion works."""

import os
import subprocess

from tests.support.command import TONNE, Operator, tonne
from tests.support.world import World
from tools.docs.generated import COMMANDS_PAGE, commands_table


def test_the_page_is_up_to_date() -> None:
    page = COMMANDS_PAGE.read_text(encoding="utf-8")
    assert f"<!-- commands -->\n{commands_table()}<!-- /commands -->" in page, "run `make pages`"


def test_people_f_the_shell_completes_commands() -> None:
    for words, completed in (("tonne ord", "order"), ("tonne order li", "list"), ("tonne order --help li", "list")):
        typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        environment = {**os.environ, "_TONNE_COMPLETE": "bash_complete", **typed}
        done = subprocess.run([TONNE], env=environment, capture_output=True, text=True, check=False)
        assert done.stdout.splitlines() == [f"plain,{completed}"]


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
