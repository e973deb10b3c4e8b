"""Rate limits that hold across machines, without a query per request.

Every process decides with its own buckets, or those of its machine, and reports once a second what clients have used.
The database adds up the reports of all processes and returns the levels, and the process lowers its own buckets to
them. What was allowed too much within that second is paid back: the client waits until the common bucket has tokens
again. Without the database, the limits of each machine apply.
"""

import asyncio
import random
from collections.abc import Iterable

import structlog

from tonne.platform.db.database import Database
from tonne.platform.db.errors import DATABASE_ERRORS, log_outage
from tonne.platform.http.limits.limit_store import Usage, delete_full, settle
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.limits.shared_buckets import hash_client
from tonne.platform.process.telemetry.instruments import CounterFamily, Metric

SETTLE_EVERY_S = 1.0
# The common bucket holds this much more than the burst. A process reports what was used in the last second all at once;
# without the margin, a client that keeps to its rate could be refused.
MARGIN_S = 2.0
DELETE_EVERY_S = 60.0
_ROWS_PER_STATEMENT = 1000
_DELETED_AT_ONCE = 5000

_log = structlog.get_logger()


class SharedLimits:
    """Settles the limits that were added with the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._limits: dict[str, TokenBuckets] = {}
        self._is_failing = False
        self._settled = CounterFamily(
            "tonne_rate_limit_settlements_total", "Times that a process reported what clients have used.", "outcome"
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (self._settled,)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._limits)

    def add(self, limits: Iterable[TokenBuckets]) -> None:
        for each in limits:
            if each.name in self._limits:
                raise ValueError(f"there are two rate limits with the name {each.name}")
            self._limits[each.name] = each

    async def watch(self) -> None:
        """Settle and delete again and again, until cancelled."""
        loop = asyncio.get_running_loop()
        # Processes that start together do not delete at the same time.
        delete_at = loop.time() + random.uniform(0, DELETE_EVERY_S)  # noqa: S311 - not a secret
        while True:
            await asyncio.sleep(SETTLE_EVERY_S)
            await self.settle()
            if loop.time() >= delete_at:
                delete_at = loop.time() + DELETE_EVERY_S
                await self.delete_full()

    async def settle(self) -> None:
        """Report what was used since the last call, and lower the buckets to the common levels.

        What cannot be reported is forgotten. Reported after an outage, it would lock out clients that kept to their
        limit all the time.
        """
        used = self._take_used()
        try:
            for start in range(0, len(used), _ROWS_PER_STATEMENT):
                await self._settle(used[start : start + _ROWS_PER_STATEMENT])
        except DATABASE_ERRORS as error:
            self._settled.inc("failed")
            if not log_outage(error) and not self._is_failing:
                _log.warning("rate_limits_not_shared", error=repr(error))
            self._is_failing = True
            return
        if used:
            self._settled.inc("settled")
            self._is_failing = False

    async def delete_full(self) -> None:
        try:
            async with self._database.connection() as connection:
                while await delete_full(connection, _DELETED_AT_ONCE) == _DELETED_AT_ONCE:
                    pass
        except DATABASE_ERRORS as error:
            if not log_outage(error):
                _log.warning("rate_limits_not_deleted", error=repr(error))

    def _take_used(self) -> list[tuple[TokenBuckets, str, float]]:
        return [(each, client, used) for each in self._limits.values() for client, used in each.take_used().items()]

    async def _settle(self, used: list[tuple[TokenBuckets, str, float]]) -> None:
        usages: dict[tuple[str, int], Usage] = {}
        clients: dict[tuple[str, int], tuple[TokenBuckets, str]] = {}
        for limit, client, tokens in used:
            key = (limit.name, hash_client(client))
            usages[key] = Usage(*key, tokens, limit.burst + MARGIN_S * limit.per_second, limit.per_second)
            clients[key] = limit, client
        levels = await self._database.run(settle, list(usages.values()))
        for key, level in levels.items():
            limit, client = clients[key]
            limit.lower(client, level)
