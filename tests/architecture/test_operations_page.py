"""docs/operations.md says what to do about every alert, and names every queue."""

import re

from tests.architecture.source import ROOT
from tonne.cli.doctor import ALL_WAITING
from tonne.cli.main import COMMANDS
from tonne.worker.queues import ALL_QUEUES

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
RULES = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")


def _table(name: str) -> list[list[str]]:
    text = PAGE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    return [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("| `")]


def test_every_alert_has_a_line_that_says_what_to_do() -> None:
    rules = re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", RULES, re.DOTALL)
    assert len(rules) > 20
    assert [row[0] for row in _table("alerts")] == [f"`{name}` ({severity})" for name, severity in rules]
    assert all(len(row[1]) > 40 for row in _table("alerts"))


def test_every_queue_is_listed() -> None:
    listed = {row[0].strip("`") for row in _table("queues")}
    assert listed == {queue.name for queue in ALL_QUEUES}
    used = {name for words in re.findall(r'queue="([^"]+)"', RULES) for name in words.split("|")}
    assert used <= listed


def test_every_command_that_is_recommended_exists() -> None:
    remedies = " ".join(check.remedy for check in ALL_WAITING)
    named = set(re.findall(r"`tonne ([a-z]+(?:-[a-z]+)*)", PAGE + remedies))
    assert named <= set(COMMANDS)
