"""Which errors mean that the database is unavailable."""

import asyncpg
import pytest

from tonne.platform.db.errors import DATABASE_ERRORS, is_database_unavailable

UNAVAILABLE: list[BaseException] = [
    ConnectionRefusedError(),
    TimeoutError(),
    asyncpg.InterfaceError("the connection is closed"),
    asyncpg.InternalClientError("unexpected state"),
    asyncpg.TargetServerAttributeNotMatched("no primary"),
    asyncpg.ConnectionDoesNotExistError(),
    asyncpg.CannotConnectNowError(),
    asyncpg.AdminShutdownError(),
    asyncpg.TooManyConnectionsError(),
    asyncpg.DiskFullError(),
    asyncpg.ReadOnlySQLTransactionError(),
]
AVAILABLE: list[BaseException] = [
    asyncpg.QueryCanceledError(),
    asyncpg.UniqueViolationError(),
    asyncpg.UndefinedTableError(),
    asyncpg.DeadlockDetectedError(),
    asyncpg.DataError("invalid input for query argument $1"),
]


@pytest.mark.parametrize("error", UNAVAILABLE, ids=lambda error: type(error).__name__)
def test_the_database_is_unavailable(error: BaseException) -> None:
    assert is_database_unavailable(error)
    assert isinstance(error, DATABASE_ERRORS)


@pytest.mark.parametrize("error", AVAILABLE, ids=lambda error: type(error).__name__)
def test_one_statement_failed(error: BaseException) -> None:
    assert not is_database_unavailable(error)
    assert isinstance(error, DATABASE_ERRORS)


def test_an_error_of_our_own_is_none_of_the_database() -> None:
    assert not is_database_unavailable(KeyError("x"))
    assert not is_database_unavailable(ValueError("x"))
