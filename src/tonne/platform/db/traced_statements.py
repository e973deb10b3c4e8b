"""A span for every statement of a connection: its name and duration, never its text or values."""

import sys
import time
from functools import lru_cache
from typing import TYPE_CHECKING

import asyncpg

from tonne.platform.process.telemetry import tracing
from tonne.platform.process.telemetry.spans import SpanKind

if TYPE_CHECKING:
    from asyncpg.connection import LoggedQuery

# A release has about a thousand statements.
_REMEMBERED = 5000


def trace_statements(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    connection.add_query_logger(_record)


def _record(query: "LoggedQuery") -> None:
    """asyncpg calls it in the context of the statement, shortly after its end."""
    name, operation = _name_of(query.query)
    error = query.exception
    attributes: dict[str, str] = {"db.system.name": "postgresql", "db.operation.name": operation}
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate is not None:
        attributes["db.response.status_code"] = error.sqlstate
    tracing.record(
        name,
        SpanKind.CLIENT,
        attributes,
        start_ns=time.time_ns() - int(query.elapsed * 1e9),
        error=None if error is None else type(error).__qualname__,
    )


@lru_cache(_REMEMBERED)
def _name_of(statement: str) -> tuple[str, str]:
    """The constant that holds the statement, such as selling.orders.store.FIND_ORDER, and its first word.

    Statements without a constant, such as BEGIN, have only that.
    """
    operation = statement.split(None, 1)[0].rstrip(";").upper() if statement.strip() else "EMPTY"
    for name, module in list(sys.modules.items()):
        if name.startswith("tonne."):
            for constant, value in vars(module).items():
                if constant.isupper() and value == statement:
                    return f"{name.removeprefix('tonne.')}.{constant}", operation
    return operation, operation
