"""Every SQL statement is checked against the migrated schema."""

import re

from tests.architecture.format_arguments import format_arguments
from tests.architecture.statements import statements, statements_of, texts
from tonne.apps.cli.operations.doctor import ALL_INVARIANTS
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import Database
from tonne.platform.db.invariant import RowInvariant


def test_the_statements_are_found() -> None:
    labels = {statement.label for statement in statements()}
    assert len(labels) > 200
    assert {
        "src/tonne/selling/orders/placing/insert_store.py INSERT_ORDER",
        "src/tonne/platform/events/log.py APPEND",
    } <= labels


def test_composed_statements_belong_to_the_module_that_declares_them() -> None:
    """Otherwise the guards of tables would not see them: they are composed of names elsewhere."""
    found = {(text.module.name, table) for text in texts() if text.name == "SEALED" for table in text.changed_tables}
    assert ("src/tonne/channels/webhooks/sealed.py", "webhooks") in found
    assert {table for _, table in found} == {sealed.table for sealed in ALL_SEALED}
    queues = {(text.module.name, table) for text in texts() if text.name == "QUEUES" for table in text.read_tables}
    assert ("src/tonne/money/refunds/waiting.py", "refunds") in queues


def test_every_statement_is_an_upper_case_constant() -> None:
    assert [each.label for each in statements() if not each.name.strip("_").isupper()] == []


async def test_every_statement_can_be_prepared_on_the_migrated_schema(db: Database) -> None:
    broken = {}
    named = {each.label: each.sql for each in statements()}
    named |= {each.name: each.sql for each in (*ALL_INVARIANTS, *ALL_WAITING)}
    named |= {f"{each.owner}: {sql}": sql for each in ALL_SEALED for sql in statements_of(each)}
    async with db.connection() as connection:
        for name, sql in named.items():
            try:
                await connection.prepare(sql)
            except Exception as error:  # noqa: BLE001 - reported with the statement's name
                broken[name] = str(error)
    assert broken == {}


async def test_every_check_of_the_doctor_returns_places(db: Database) -> None:
    async with db.connection() as connection:
        for check in (*ALL_INVARIANTS, *ALL_WAITING):
            if isinstance(check, RowInvariant):
                continue
            statement = await connection.prepare(check.sql)
            assert [attribute.name for attribute in statement.get_attributes()] == ["where"], check.name


def test_the_doctor_prints_money_and_never_minor_units() -> None:
    amount, printed = re.compile(r"minor\b|exact_cost|_cost\b"), re.compile(r"money_text\(|decimals_of\(|^CASE\b")
    found = [
        (check.name, each)
        for check in (*ALL_INVARIANTS, *ALL_WAITING)
        for each in format_arguments(check.sql)
        if amount.search(each) and not printed.search(each)
    ]
    assert found == []


def test_every_statement_names_its_columns() -> None:
    starred = [each.label for each in statements() if re.search(r"(SELECT|RETURNING)\s+(\w+\.)?\*", each.sql)]
    assert starred == []


def test_every_statement_is_run_by_one_function_of_its_own_module() -> None:
    """The SQL is next to the code that runs it, and a change affects one caller."""
    assert [each.label for each in statements() if len(each.users) != 1] == []
