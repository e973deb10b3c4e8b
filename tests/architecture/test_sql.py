"""Every statement, held against the migrated schema."""

import ast
import importlib
import re
from collections import Counter

import pytest

from tests.architecture.source import Module, functions, package
from tonne.cli.doctor import ALL_INVARIANTS
from tonne.db.pool import Database

_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|MERGE)\s", re.IGNORECASE)


def _statements() -> dict[str, str]:
    """The SQL constants of all modules, by the name under which a person finds them."""
    found = {}
    for module in package():
        if module.path.stem == "__main__":
            continue  # importing it runs the command
        for name, value in vars(importlib.import_module(module.dotted)).items():
            if isinstance(value, str) and _SQL.match(value) and _is_defined_in(module, name):
                found[f"{module.name} {name}"] = value
    return found


def _is_defined_in(module: Module, name: str) -> bool:
    """Assigned at the top of this module, not imported into it."""
    targets = (node.targets for node in module.tree.body if isinstance(node, ast.Assign))
    return any(isinstance(target, ast.Name) and target.id == name for group in targets for target in group)


STATEMENTS = _statements()


def test_the_statements_are_found() -> None:
    assert len(STATEMENTS) > 40
    assert "src/tonne/orders/store.py INSERT_ORDER" in STATEMENTS
    assert "src/tonne/events/log.py APPEND" in STATEMENTS


def test_every_statement_is_an_upper_case_constant() -> None:
    assert [name for name in STATEMENTS if not name.split()[1].strip("_").isupper()] == []


async def test_every_statement_can_be_prepared_on_the_migrated_schema(db: Database) -> None:
    broken = {}
    async with db.connection() as connection:
        for name, sql in {**STATEMENTS, **{i.name: i.sql for i in ALL_INVARIANTS}}.items():
            try:
                await connection.prepare(sql)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is shown with the statement's name
                broken[name] = str(error)
    assert broken == {}


async def test_every_invariant_names_the_place_of_a_breach(db: Database) -> None:
    async with db.connection() as connection:
        for invariant in ALL_INVARIANTS:
            statement = await connection.prepare(invariant.sql)
            assert [attribute.name for attribute in statement.get_attributes()] == ["where"], invariant.name


def test_every_statement_names_its_columns() -> None:
    starred = [name for name, sql in STATEMENTS.items() if re.search(r"(SELECT|RETURNING)\s+(\w+\.)?\*", sql)]
    assert starred == []


@pytest.mark.parametrize("module", package(), ids=lambda module: module.name)
def test_every_statement_is_run_by_one_function_of_its_own_module(module: Module) -> None:
    """So that whoever reads the function sees the SQL above it, and a change touches one caller."""
    ours = {name.split()[1] for name in STATEMENTS if name.split()[0] == module.name}
    users: Counter[str] = Counter()
    for function in functions(module):
        users.update({node.id for node in ast.walk(function) if isinstance(node, ast.Name)} & ours)
    assert {name for name in ours if users[name] != 1} == set()
