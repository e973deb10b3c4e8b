"""Values that are made of rows, and parameters of statements that are made of values."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

import asyncpg
import msgspec

from tonne.platform.values.context import Mode, Scope

T = TypeVar("T", bound=msgspec.Struct)
Row = asyncpg.Record | Mapping[str, Any]


def value_of(kind: type[T], row: Row, **others: Any) -> T:
    """A struct of the columns that have the names of its fields, and of `others`. Texts become enums, arrays tuples."""
    return msgspec.convert({**row, **others}, kind)


def scope_of(row: Row) -> Scope:
    return Scope(row["organisation_id"], row["account_id"], Mode(row["mode"]))


def columns(rows: Sequence[object], names: str) -> list[list[Any]]:
    """Arrays for `unnest`: one for each name of a column list such as `account_id, id`."""
    return [[read(row) for row in rows] for read in _readers(names)]


def parameters_of(value: object, names: str) -> list[Any]:
    """The attributes of one value that have the names of a column list."""
    return [read(value) for read in _readers(names)]


@cache
def _readers(names: str) -> tuple[Callable[[object], Any], ...]:
    return tuple(attrgetter(name.strip()) for name in names.split(","))


def json_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """A parameter for `jsonb_populate_recordset`, which matches columns by name and ignores other members."""
    return msgspec.json.encode(list(rows)).decode()
