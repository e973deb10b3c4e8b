"""The audit log is append-only. The database refuses other statements too, see tests/db/test_schema.py."""

import re

from tests.architecture.source import package
from tests.architecture.statements import statements


def test_security_7_no_statement_changes_or_deletes_audit_entries() -> None:
    on_log = [statement for statement in statements() if "audit_log" in statement.tables]
    assert {re.findall(r"[A-Z]+", statement.sql)[0] for statement in on_log} == {"INSERT", "SELECT"}
    changing = re.compile(r"(UPDATE|DELETE\s+FROM|TRUNCATE|DROP|DISABLE\s+TRIGGER)[^;\"]{0,40}audit_log")
    assert [module.name for module in package() if changing.search(module.path.read_text(encoding="utf-8"))] == []
