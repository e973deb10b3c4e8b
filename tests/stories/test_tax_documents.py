"""Each story and each fault of the tables has a test that exists."""

import re
from pathlib import Path

import pytest

from tests.architecture.source import ROOT

TABLES = [ROOT / "tests" / "stories" / name for name in ("tax_documents.md", "faults_of_money.md")]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_the_table_names_tests_that_exist(table: Path) -> None:
    text = table.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/\S+\.py)::(test_\w+)`", text)
    missing = [
        (path, name)
        for path, name in named
        if not re.search(rf"^(?:async )?def {name}\b", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
    _, *rows = re.findall(r"^\| [^-\n].*$", text, re.MULTILINE)
    assert [row for row in rows if "::test_" not in row] == []
    assert len(named) >= len(rows) > 10
