"""The SQL constants of the package, and what they do to which tables."""

import ast
import importlib
import re
from dataclasses import dataclass
from functools import cache, cached_property

from tests.architecture.schema import tables
from tests.architecture.source import Module, functions, package
from tonne.platform.db.queues import Queue
from tonne.platform.keys.sealed import SealedSecrets

_SQL = re.compile(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|MERGE)\s", re.IGNORECASE)
_OWNED = re.compile(r"^\s+(account_id|organisation_id)\s", re.MULTILINE)
_MUST_REFER = re.compile(r"^.*(?:NOT NULL|PRIMARY KEY).*REFERENCES (\w+)|^.*REFERENCES (\w+).*NOT NULL", re.MULTILINE)
_WRITTEN = re.compile(r"\b(?:INSERT INTO|DELETE FROM|MERGE INTO|(?<!FOR )(?<!KEY )(?<!DO )UPDATE)(?: ONLY)? (\w+)")
_LOCK = re.compile(r"\bFOR (?:NO KEY )?UPDATE\b(?: OF (\w+))?")
_FROM = re.compile(r"\b(?:FROM|JOIN) (\w+)(?: (?:AS )?(\w+))?")

# All that is listed after FROM, JOIN or USING: `a, b AS c, LATERAL (`.
_SOURCES = re.compile(r"\b(?:FROM|JOIN|USING)(?: ONLY)? (\w+(?:(?: AS)? \w+)?(?:, \w+(?:(?: AS)? \w+)?)*)")
_LISTED = re.compile(r", (\w+)")
_CTE = re.compile(r"\b(\w+)(?: \([\w, ]+\))? AS (?:NOT )?(?:MATERIALIZED )?\(")


@dataclass(frozen=True)
class Statement:
    module: Module
    name: str
    sql: str

    @property
    def label(self) -> str:
        """For messages: `src/tonne/selling/orders/store.py INSERT_ORDER`."""
        return f"{self.module.name} {self.name}"

    @property
    def tables(self) -> set[str]:
        """All tables that it reads, writes or locks."""
        return set(re.findall(r"\w+", self.sql)) & tables().keys()

    @property
    def changed_tables(self) -> set[str]:
        return changed_tables(self.sql)

    @property
    def read_tables(self) -> set[str]:
        """The tables that it names after FROM, JOIN or USING, also in a list, but for its own CTEs."""
        sql = " ".join(self.sql.split())
        named = {name for found in _SOURCES.finditer(sql) for name in _LISTED.findall(f", {found[1]}")}
        return (named - set(_CTE.findall(sql))) & tables().keys()

    @cached_property
    def users(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """The functions that run it."""
        return [function for function in functions(self.module) if self.name in _names(function)]


def changed_tables(sql: str) -> set[str]:
    """The tables whose rows it inserts, updates, deletes or locks."""
    sql = " ".join(sql.split())
    locked = {table for lock in _LOCK.finditer(sql) for table in _locked(sql, lock)}
    return (set(_WRITTEN.findall(sql)) | locked) & tables().keys()


@cache
def _names(function: ast.FunctionDef | ast.AsyncFunctionDef) -> frozenset[str]:
    return frozenset(node.id for node in ast.walk(function) if isinstance(node, ast.Name))


def _locked(sql: str, lock: re.Match[str]) -> set[str]:
    """The tables that a locking clause locks: the one it names, or all of its SELECT."""
    aliases: dict[str, str] = {}
    for table, alias in _FROM.findall(_own_select(sql[: lock.start()])):
        aliases |= {table: table, alias: table}
    return {aliases[lock[1]]} if lock[1] else set(aliases.values())


def _own_select(before: str) -> str:
    """The SELECT that ends here, without what is in parentheses."""
    depth, kept = 0, []
    for character in reversed(before):
        depth += (character == ")") - (character == "(")
        if depth < 0:
            break
        if depth == 0:
            kept.append(character)
    return "".join(reversed(kept))


@cache
def _values() -> tuple[tuple[Module, str, object], ...]:
    """What modules assign at their top level, with the module and the name."""
    found = []
    for module in package():
        if module.path.stem == "__main__":
            continue  # importing it runs the command
        assigned = {
            target.id
            for node in module.tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        values = vars(importlib.import_module(module.dotted)).items()
        found += [(module, name, value) for name, value in values if name in assigned]
    return tuple(found)


@cache
def statements() -> tuple[Statement, ...]:
    return tuple(
        Statement(module, name, value)
        for module, name, value in _values()
        if isinstance(value, str) and _SQL.match(value)
    )


def statements_of(sealed: SealedSecrets) -> tuple[str, ...]:
    return sealed.list_in_use, sealed.count, sealed.lock_others, sealed.update


def _composed(value: object) -> tuple[str, ...]:
    """The statements of secrets or of queues, which are composed of the names that a package declares."""
    if isinstance(value, SealedSecrets):
        return statements_of(value)
    queues = value if isinstance(value, tuple) else ()
    return tuple(queue.sql for queue in queues if isinstance(queue, Queue))


@cache
def texts() -> tuple[Statement, ...]:
    """Everything in the package that is SQL: the constants, the queries of invariants and checks, and composed ones."""
    written = (
        Statement(module, f"line {node.lineno}", node.value)
        for module in package()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _SQL.match(node.value)
    )
    composed = (Statement(module, name, sql) for module, name, value in _values() for sql in _composed(value))
    return (*statements(), *written, *composed)


@cache
def tenant_tables() -> frozenset[str]:
    """Tables whose rows belong to an organisation or an account: they have its id, or must refer to such a table.

    A bank transfer may refer to an invoice, but belongs to the seller.
    """
    owned = {"organisations"} | {table for table, body in tables().items() if _OWNED.search(body)}
    while True:
        referring = {
            table
            for table, body in tables().items()
            if table not in owned and owned & {name for found in _MUST_REFER.findall(body) for name in found}
        }
        if not referring:
            return frozenset(owned)
        owned |= referring
