"""The audit log is append-only. The database refuses other statements too, see tests/platform/db/test_schema.py."""

import ast
import re

from tests.architecture.source import ROOT, package
from tests.architecture.statements import statements


def test_security_7_no_statement_changes_or_deletes_audit_entries() -> None:
    on_log = [statement for statement in statements() if "audit_log" in statement.tables]
    assert {re.findall(r"[A-Z]+", statement.sql)[0] for statement in on_log} == {"INSERT", "SELECT"}
    changing = re.compile(r"(UPDATE|DELETE\s+FROM|TRUNCATE|DROP|DISABLE\s+TRIGGER)[^;\"]{0,40}audit_log")
    assert [module.name for module in package() if changing.search(module.path.read_text(encoding="utf-8"))] == []


def test_the_documentation_lists_all_kinds_of_actions() -> None:
    texts = {
        node.value
        for module in package()
        if re.search(r"import audit\b|accounts\.audit import", module.path.read_text(encoding="utf-8"))
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    kinds = {text.partition(".")[0] for text in texts if re.fullmatch(r"[a-z_]+\.[a-z_]+", text)}
    table = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8").partition("An entry has:")[0]
    assert kinds - set(re.findall(r"`([a-z_]+)\.…`", table)) == set()
