"""docs/operations.md says what to do about every alert, and its reference names every queue."""

import re

import pytest

from tests.architecture.source import ROOT
from tonne.apps.cli.main import COMMANDS
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.wiring.queues import ALL_QUEUES

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "operations-reference.md").read_text(encoding="utf-8")
RULES = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text(encoding="utf-8")


def _table(name: str) -> list[list[str]]:
    text = REFERENCE.partition(f"<!-- {name} -->")[2].partition(f"<!-- /{name} -->")[0]
    return [row.strip("| ").split(" | ") for row in text.splitlines() if row.startswith("| `")]


def test_every_alert_has_an_entry_in_the_runbook_and_names_it() -> None:
    rules = re.findall(r"- alert: (\w+)\n.*?severity: (\w+).*?runbook: \"(.*?)\"", RULES, re.DOTALL)
    assert len(rules) == RULES.count("- alert: ") > 20
    runbook = PAGE.partition("<!-- runbook -->")[2].partition("<!-- /runbook -->")[0]
    entries = re.findall(r"^#### (\w+)\n\n\*(\w+)\* · (.+)$", runbook, re.MULTILINE)
    assert [(name, severity) for name, severity, _ in entries] == [(name, severity) for name, severity, _ in rules]
    assert all(len(text) > 100 for _, _, text in entries)
    assert all(anchor == f"docs/operations.md#{name.lower()}" for name, _, anchor in rules)


@pytest.mark.parametrize("page", [PAGE, REFERENCE])
def test_every_link_within_a_page_leads_to_a_heading(page: str) -> None:
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= anchors


def test_every_queue_is_listed() -> None:
    listed = {row[0].strip("`") for row in _table("queues")}
    assert listed == {queue.name for queue in ALL_QUEUES}
    used = {name for words in re.findall(r'queue="([^"]+)"', RULES) for name in words.split("|")}
    assert used <= listed


def test_every_command_that_is_recommended_exists() -> None:
    remedies = " ".join(check.remedy for check in ALL_WAITING)
    named = set(re.findall(r"`tonne ([a-z]+(?:-[a-z]+)*)", PAGE + REFERENCE + remedies))
    assert named <= set(COMMANDS)
