"""Wait out a short outage of the database, so that a webhook does not stay leased until its lease expires."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from tonne.platform.db.errors import is_database_unavailable

T = TypeVar("T")

_log = structlog.get_logger()
FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0


async def retry_until(
    expires_at: float, run: Callable[[], Awaitable[T]], run_again: Callable[[], Awaitable[T]] | None = None
) -> T:
    """Retry while the database is unavailable, until `expires_at` on the monotonic clock: the end of the lease.

    Then another worker may claim the webhook, so there is nothing left to save. `run_again` replaces `run` in retries:
    the first transaction may have committed although its response was lost.
    """
    pause_s = FIRST_PAUSE_S
    attempt = run
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not is_database_unavailable(error) or time.monotonic() + pause_s > expires_at:
                raise
            _log.warning("settlement_retried", error=repr(error))
        await asyncio.sleep(pause_s)
        pause_s = min(MAX_PAUSE_S, pause_s * 2)
        attempt = run_again or run
