"""Run batches of rows so that one row that always fails does not stop the others."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import TypeVar

import structlog
from msgspec import Struct

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock

_log = structlog.get_logger()
Row = TypeVar("Row")
Result = TypeVar("Result")
# The fields under which a failed row is logged. Not the row itself: it may hold personal data.
Describe = Callable[[Row], Mapping[str, str]]
# A row that failed alone is postponed by this time, unless the job has a schedule of its own.
RETRY_AFTER = timedelta(minutes=1)


class RowJob(Struct, frozen=True):
    """A job of the worker. Its `run_once` processes due rows, and returns whether there were any."""

    database: Database
    clock: Clock


class RowJobWithSettings(RowJob, frozen=True):
    settings: Settings


async def run_claimed(
    database: Database,
    claim: Callable[[Connection, int], Awaitable[Sequence[Row]]],
    handle: Callable[[Connection, Sequence[Row]], Awaitable[Result]],
    postpone: Callable[[Connection, Sequence[Row]], Awaitable[object]],
    *,
    limit: int,
    failure_event: str,
    describe: Describe[Row],
    on_commit: Callable[[Result], object] | None = None,
) -> bool:
    """Claim up to `limit` due rows and handle them in one transaction; false when no row is due.

    If that fails, the rows are claimed and handled one by one, and a row that fails alone is logged and postponed.
    Each gets a transaction of its own, not a savepoint: locks outlive a savepoint, and taking the next row's locks
    while holding the last row's breaks the lock order. `on_commit` gets what `handle` returned for a transaction that
    was committed.
    """
    rows: Sequence[Row] = []
    try:
        async with database.transaction() as tx:
            rows = await claim(tx, limit)
            if not rows:
                return False
            result = await handle(tx, rows)
    except Exception as error:
        if not rows or is_database_unavailable(error):
            raise
        if len(rows) == 1:
            _log.exception(failure_event, **describe(rows[0]))
            async with database.transaction() as tx:
                await postpone(tx, rows)
        else:
            _log.warning("batch_failed", failure_event=failure_event, rows=len(rows), error=repr(error))
            for _ in rows:
                await run_claimed(
                    database,
                    claim,
                    handle,
                    postpone,
                    limit=1,
                    failure_event=failure_event,
                    describe=describe,
                    on_commit=on_commit,
                )
    else:
        if on_commit is not None:
            on_commit(result)
    return True


async def run_leased(
    rows: Sequence[Row],
    handle: Callable[[Sequence[Row]], Awaitable[object]],
    *,
    failure_event: str,
    describe: Describe[Row],
) -> None:
    """Handle rows that are leased to this process all together; if that fails, one by one.

    `handle` opens its own transactions. A row that fails alone is logged, and is due again when its lease expires.
    """
    if len(rows) > 1:
        try:
            await handle(rows)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            _log.warning("batch_failed", failure_event=failure_event, rows=len(rows), error=repr(error))
        else:
            return
    await run_each(rows, lambda row: handle([row]), failure_event=failure_event, describe=describe)


async def run_each(
    rows: Sequence[Row], handle: Callable[[Row], Awaitable[object]], *, failure_event: str, describe: Describe[Row]
) -> bool:
    """Handle leased rows one by one, as `run_leased` does after a failure. Returns whether there were any."""
    for row in rows:
        try:
            await handle(row)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            _log.exception(failure_event, **describe(row))
    return bool(rows)
