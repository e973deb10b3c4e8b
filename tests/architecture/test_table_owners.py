"""Every table has one owner: the package that inserts, updates, deletes and locks its rows."""

import re
from collections import defaultdict

from tests.architecture.source import ROOT
from tests.architecture.statements import statements, tables
from tests.architecture.test_packages import PACKAGES

# Written by the code that applies migrations, without constants.
SCHEMA_TABLE = "schema_migrations"
# Written only by triggers on tables of the same package.
WRITTEN_BY_TRIGGERS = {"account_totals": "orders", "retired_vintages": "retirements"}


def _owners() -> dict[str, set[str]]:
    owners: defaultdict[str, set[str]] = defaultdict(set)
    owners |= {table: {package} for table, package in WRITTEN_BY_TRIGGERS.items()}
    for statement in statements():
        for table in statement.changed_tables:
            owners[table].add(statement.module.package_name)
    return owners


def test_no_table_is_written_or_locked_by_two_packages() -> None:
    shared = {table: sorted(packages) for table, packages in _owners().items() if len(packages) > 1}
    assert shared == {}, "add a function to the owner's package, and call it"


def test_every_table_has_an_owner() -> None:
    assert set(tables()) - _owners().keys() - {SCHEMA_TABLE} == set()


def test_orders_are_written_and_locked_by_three_modules() -> None:
    writers = {statement.module.name for statement in statements() if "orders" in statement.changed_tables}
    assert writers == {f"src/tonne/orders/{name}.py" for name in ("insert_store", "queue", "store")}


def test_the_documentation_lists_the_owners() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    documented = text.partition("<!-- owners -->\n")[2].partition("<!-- /owners -->")[0]
    assert documented == _owners_table(), "copy the expected table into docs/architecture.md"


def test_the_schema_groups_tables_by_owner() -> None:
    grouped: dict[str, str] = {}
    for path in (ROOT / "src" / "tonne" / "db" / "migrations").glob("*.sql"):
        _, *parts = re.split(r"^-- ([a-z]+) -+$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
        sections = dict(zip(parts[::2], parts[1::2], strict=True))
        assert list(sections) == [package for package in PACKAGES if package in sections]
        for package, section in sections.items():
            grouped |= dict.fromkeys(
                re.findall(r"CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)\b(?! PARTITION OF)", section), package
            )
    assert grouped == {table: min(packages) for table, packages in _owners().items()}


def _owners_table() -> str:
    owned: defaultdict[str, list[str]] = defaultdict(list)
    for table, packages in sorted(_owners().items()):
        owned[min(packages)].append(f"`{table}`")
    rows = [f"| `{package}` | {', '.join(owned[package])} |" for package in PACKAGES if package in owned]
    return "\n".join(["| Package | Tables |", "|---|---|", *rows, ""])
