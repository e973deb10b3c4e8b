from pathlib import Path

from tonne.supply.registries.simulated import TRIGGERS

DOCS = Path(__file__).parents[3] / "docs" / "supply.md"


def test_the_documentation_lists_the_triggers() -> None:
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `Registry ")]
    assert rows == [f"| `{trigger.beneficiary}` | {trigger.behaviour} |" for trigger in TRIGGERS]
