"""The errors of database calls, and which of them mean that the database itself is unavailable."""

import asyncpg

# Whatever a database call may raise.
DATABASE_ERRORS = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
_UNAVAILABLE = (
    OSError,  # refused, reset, timed out
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also TargetServerAttributeNotMatched: no server is of the kind that the URL names
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ReadOnlySQLTransactionError,  # after a failover the server became a replica
)
# Subclasses of the above that one statement or one row causes: a statement timeout, and a value that asyncpg cannot
# encode (a private class, which is the only `ValueError` among the interface errors).
_STATEMENT = (asyncpg.QueryCanceledError, ValueError)


def is_database_unavailable(error: BaseException) -> bool:
    """True when any other statement would fail in the same way, so that trying the next row is pointless."""
    return isinstance(error, _UNAVAILABLE) and not isinstance(error, _STATEMENT)
