"""The errors of database calls, and which of them mean that the database itself is unavailable."""

import asyncio
import errno
import time
from collections.abc import Awaitable, Callable

import asyncpg
import structlog

from tonne.platform.values.errors import Kind, TonneError

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
# Errors of files of this process. Sockets do not raise them.
_OF_FILES = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}
# An outage is logged once in this time by each process, however many jobs and requests it fails.
LOG_OUTAGE_EVERY_S = 60.0
_outage_logged_at = float("-inf")
_log = structlog.get_logger()


# Signs of load or of a conflict with another transaction: what failed may be tried again.
REPEATABLE = (
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
)


def is_database_unavailable(error: BaseException) -> bool:
    """True when any other statement would fail in the same way, so that trying the next row is pointless."""
    if isinstance(error, OSError) and (error.filename is not None or error.errno in _OF_FILES):
        return False
    return isinstance(error, _UNAVAILABLE) and not isinstance(error, _STATEMENT)


def log_outage(error: BaseException) -> bool:
    """False if the error is not an outage of the database. An outage is one line per process and minute."""
    global _outage_logged_at  # noqa: PLW0603 - the log belongs to the whole process
    if not is_database_unavailable(error):
        return False
    if time.monotonic() - _outage_logged_at >= LOG_OUTAGE_EVERY_S:
        _outage_logged_at = time.monotonic()
        _log.warning("database_unavailable", error=repr(error))
    return True


async def repeat(step: Callable[[], Awaitable[object]], every_s: float, failure_event: str) -> None:
    """Until cancelled. A step that the database fails is logged, and repeated like the others."""
    while True:
        try:
            await step()
        except DATABASE_ERRORS as error:
            _log.debug(failure_event, error=repr(error))
        await asyncio.sleep(every_s)


# Raised by the triggers that call refuse_while_held().
_HELD_STATE = "TH001"


class ServiceHeld(TonneError, kind=Kind.UNAVAILABLE, code="service_held"):
    """The operator holds the service, for example after restoring a backup: it answers reads only.

    Repeat the request later; nothing was changed.
    """

    message = "The service is held: it answers reads only, and nothing was changed. Repeat the request later."

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.headers["Retry-After"] = "60"


def is_service_held(error: BaseException) -> bool:
    """True when the database refused a charge, a refund or a number because the service is held."""
    return isinstance(error, asyncpg.PostgresError) and error.sqlstate == _HELD_STATE
