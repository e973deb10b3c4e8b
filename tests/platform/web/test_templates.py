"""Templates of all packages share one namespace."""

from collections import Counter

from tests.architecture.source import ROOT


def test_no_two_templates_have_the_same_name() -> None:
    """The page of the later package would show the template of the earlier one."""
    folders = [each for each in (ROOT / "src" / "tonne").glob("*/templates") if each.parent.name != "gateways"]
    names = Counter(path.name for folder in folders for path in folder.glob("*.html"))
    assert [name for name, count in names.items() if count > 1] == []
