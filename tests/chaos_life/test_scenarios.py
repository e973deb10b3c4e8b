"""The fault runs themselves take minutes: `make chaos`. Here is what can be said of them at once."""

import re

from chaos.scenarios import SCENARIOS
from tests.architecture.source import ROOT


def test_every_scenario_is_documented_and_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs" / "chaos.md").read_text(encoding="utf-8"), re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(documented) == sorted(scenario.name for scenario in SCENARIOS)


def test_names_are_databases_and_folders_of_their_own() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)
