"""The list of chaos scenarios. The scenarios themselves take minutes: `make chaos` runs them."""

import re
import subprocess
import sys

from chaos.scenarios import SCENARIOS
from tests.architecture.source import ROOT


def test_the_documentation_lists_all_scenarios_and_no_others() -> None:
    rows = re.findall(r"^\| (`[^|]+`) \|", (ROOT / "docs" / "chaos.md").read_text(encoding="utf-8"), re.MULTILINE)
    documented = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(documented) == sorted(scenario.name for scenario in SCENARIOS)


def test_names_are_unique_and_valid_as_names_of_databases_and_folders() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_the_command_lists_the_scenarios_and_rejects_unknown_ones() -> None:
    command = [sys.executable, "-m", "chaos"]
    listed = subprocess.run([*command, "--list"], cwd=ROOT, capture_output=True, text=True, check=True)
    # Their order is that of the imports.
    assert sorted(listed.stdout.split()) == sorted(scenario.name for scenario in SCENARIOS)
    refused = subprocess.run([*command, "no-such-thing"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "unknown scenario no-such-thing" in refused.stderr
