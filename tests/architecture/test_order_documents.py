"""Clients that poll get 304 by a version of all orders. Whatever changes the JSON of an order changes this version: it
appends an event in the same transaction, or calls `note_rewritten`."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.architecture.source import Module, functions, imports, package
from tests.architecture.statements import Statement, statements

APPENDING = {"append", "append_to_streams"}
# A new one is a decision: does the transaction append an event about the order?
WITH_EVENT = {
    ("INSERT_ORDER", "place_order"),
    ("INSERT_ORDERS", "_write"),
    ("MOVE_ORDER", "move_order"),
    ("MOVE_ORDERS", "move_orders"),
    # Of the orders that get an event about their payment.
    ("REWRITE_DOCUMENTS", "move_orders"),
    ("STORE_PAYMENT", "show_payment"),
}
REWRITTEN = {
    ("REWRITE_DOCUMENTS", "rewrite_documents"),
    ("STORE_BILLED", "show_billed"),
    ("SET_EMAIL", "correct_email"),
    ("STORE_DOCUMENTS", "rewrite_urls_any_account"),
    ("STORE_WINDOW", "end_window"),
    ("STORE_WINDOW", "hold_waiting"),
    ("STORE_REDUCED", "reduce_order"),
}
# The function that calls it appends the event.
EVENT_OF_CALLER = {("ERASE_PERSON", "_erase_order"): "erase_order"}


def test_every_statement_that_sets_the_json_of_an_order_changes_the_version() -> None:
    found = {
        (statement.name, caller.name): _called(caller) for statement in _setting() for caller in _callers(statement)
    }
    assert found.keys() == WITH_EVENT | REWRITTEN | EVENT_OF_CALLER.keys()
    assert [key for key in WITH_EVENT if not found[key] & APPENDING] == []
    assert [key for key in REWRITTEN if "note_rewritten" not in found[key]] == []
    for key, name in EVENT_OF_CALLER.items():
        [caller] = [each for module in package() for each in functions(module) if each.name == name]
        called = _called(caller)
        assert key[1] in called
        assert called & APPENDING


def _setting() -> list[Statement]:
    """The statements that set the column, or insert orders."""
    return [
        statement
        for statement in statements()
        if re.search(r"\bSET\b[^;]*\bwire_document = |\bINSERT INTO orders\b", statement.sql)
    ]


def _callers(statement: Statement) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    [user] = statement.users
    for module in package():
        imported = _imported(module)
        called = {user.name} if f"{statement.module.dotted}.{user.name}" in imported else set[str]()
        if statement.module.dotted in imported:
            called = {f"{statement.module.path.stem}.{user.name}"}
        if called:
            yield from (each for each in functions(module) if called & _called(each))


@cache
def _imported(module: Module) -> frozenset[str]:
    return frozenset(name for name, _ in imports(module))


def _called(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """The names that it uses, and members of them, such as `store.move_order`."""
    nodes = list(ast.walk(function))
    members = {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    return members | {node.id for node in nodes if isinstance(node, ast.Name)}
