"""Every table has one owner: the package that inserts, updates, deletes and locks its rows."""

import re
from collections import defaultdict

from tests.architecture.order import ORDER, PACKAGES, position
from tests.architecture.schema import MIGRATIONS, packages_of_tables, schema, sections, tables, triggers
from tests.architecture.source import PACKAGE, ROOT
from tests.architecture.statements import changed_tables, statements, texts

# Written by the code that applies migrations, without constants.
SCHEMA_TABLE = "schema_migrations"

# Reads against the order that are still to be removed. This list may only shrink.
UPWARD_READS: frozenset[tuple[str, str]] = frozenset()
# Tables that a second package still writes. This list may only shrink.
TWO_OWNERS: dict[str, list[str]] = {}


def _owners() -> dict[str, set[str]]:
    owners: defaultdict[str, set[str]] = defaultdict(set)
    for statement in texts():
        for table in statement.changed_tables:
            owners[table].add(statement.module.package_name)
    for trigger in triggers():
        for table in changed_tables(trigger.body):
            owners[table].add(trigger.package)
    return owners


def test_no_table_is_written_or_locked_by_two_packages() -> None:
    shared = {table: sorted(packages) for table, packages in _owners().items() if len(packages) > 1}
    assert shared == TWO_OWNERS, "add a function to the owner's package, and call it"


def test_every_table_has_an_owner() -> None:
    assert set(tables()) - _owners().keys() - {SCHEMA_TABLE} == set()


def test_tables_are_read_only_by_their_owner_and_by_packages_after_it() -> None:
    owners = {table: min(packages, key=position) for table, packages in _owners().items()}
    wrong = {
        (text.module.path.relative_to(PACKAGE).as_posix(), table)
        for text in texts()
        for table in text.read_tables & owners.keys()
        if position(owners[table]) > position(text.module.package_name)
    }
    assert wrong == UPWARD_READS, "(module, table of a package after its own)"


def test_orders_are_written_and_locked_by_four_modules() -> None:
    writers = {statement.module.name for statement in statements() if "orders" in statement.changed_tables}
    names = ("placing/insert_store", "queue", "store", "window_store")
    assert writers == {f"src/tonne/selling/orders/{name}.py" for name in names}


def test_the_documentation_lists_the_owners() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    documented = text.partition("<!-- owners -->\n")[2].partition("<!-- /owners -->")[0]
    assert documented == _owners_table(), "copy the expected table into docs/architecture.md"


def test_the_schema_groups_tables_by_owner() -> None:
    """One file per area, in each a section per package."""
    assert [path.name for path in sorted(MIGRATIONS.glob("*.sql"))[: len(ORDER)]] == [
        f"{number:04}_{area}.sql" for number, area in enumerate(ORDER, 1)
    ]
    for area, packages in ORDER.items():
        assert list(sections(area)) == [package for package in packages if package in sections(area)]
    owners, grouped = _owners(), packages_of_tables()
    assert grouped.keys() == owners.keys()
    assert {table: package for table, package in grouped.items() if package not in owners[table]} == {}


def test_triggers_write_only_tables_of_their_package() -> None:
    grouped = packages_of_tables()
    foreign = {
        trigger.name
        for trigger in triggers()
        for table in changed_tables(trigger.body)
        if grouped[table] != trigger.package
    }
    assert foreign == set(), "call a function of the other package in the same transaction"


def test_the_writes_of_all_triggers_are_found() -> None:
    names = re.findall(r"^CREATE (?:CONSTRAINT )?TRIGGER (\w+)", schema(), re.MULTILINE)
    assert [trigger.name for trigger in triggers()] == names
    found = {trigger.name: changed_tables(trigger.body) for trigger in triggers()}
    assert found["folded_orders_are_counted"] == {"account_totals", "bundle_totals", "metadata_totals"}
    assert found["pending_events_are_appended"] == {"pending_events", "event_streams", "event_traces", "events"}
    assert found["charges_not_while_held"] == set()


def _owners_table() -> str:
    owned: defaultdict[str, list[str]] = defaultdict(list)
    for table, packages in sorted(_owners().items()):
        owned[min(packages)].append(f"`{table}`")
    rows = [f"| `{package}` | {', '.join(owned[package])} |" for package in PACKAGES if package in owned]
    return "\n".join(["| Package | Tables |", "|---|---|", *rows, ""])
