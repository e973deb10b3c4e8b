"""Values that are made of rows."""

from collections.abc import Mapping
from typing import Any, TypeVar

import asyncpg
import msgspec

from tonne.platform.values.scope import Mode, Scope

T = TypeVar("T", bound=msgspec.Struct)
Row = asyncpg.Record | Mapping[str, Any]


def value_of(kind: type[T], row: Row, **others: Any) -> T:
    """A struct of the columns that have the names of its fields, and of `others`. Texts become enums, arrays tuples."""
    return msgspec.convert({**row, **others}, kind)


def scope_of(row: Row) -> Scope:
    return Scope(row["organisation_id"], row["account_id"], Mode(row["mode"]))
