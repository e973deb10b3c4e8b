"""Each story of the table exists as a test."""

import re

from tests.architecture.source import ROOT

TABLE = ROOT / "tests" / "stories" / "tax_documents.md"


def test_the_table_names_tests_that_exist() -> None:
    named = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", TABLE.read_text(encoding="utf-8"))
    missing = [
        (path, name)
        for path, name in named
        if not re.search(rf"^(?:async )?def {name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
    assert len(named) == TABLE.read_text(encoding="utf-8").count("\n| ") - 1
