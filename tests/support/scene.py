"""The service with a clock that tests move, and short ways to its orders, jobs and tables."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import asyncpg

from tests.support.clock import ManualClock
from tests.support.orders import place
from tonne.apps.cli.operations.doctor import ALL_INVARIANTS, examine
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.receipts.mail_orders import MailOrders
from tonne.platform.db.database import Database
from tonne.platform.db.invariant import FOR_CHECKS, InvariantCheck, RowCheck, group_by_scan
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order

# A time-out that only a bug exceeds, even on a busy machine.
WITHIN_S = 20.0
MAX_ROUNDS = 1_000
WAITING_FOR_LOCK = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""

# One statement takes a tenth of the time of eighty. Nearly always it finds nothing.
_CHECKS = group_by_scan(ALL_INVARIANTS)
FIND_ANY_BREACH = " OR ".join(f"EXISTS ({check.sql})" for check in _CHECKS if isinstance(check, InvariantCheck))
ROW_CHECKS = [check for check in _CHECKS if isinstance(check, RowCheck)]


class RunsOnce(Protocol):
    def run_once(self) -> Awaitable[bool]:
        """False when there was nothing to do."""


class Scene:
    def __init__(self, services: Services, clock: ManualClock | None = None, settings: Settings | None = None) -> None:
        self.services = services
        self.clock = clock or ManualClock()
        self.settings = settings or services.settings

    @property
    def database(self) -> Database:
        return self.services.database

    @property
    def mail_orders(self) -> MailOrders:
        """The job that composes the mails about payments and refunds."""
        return MailOrders(self.database, self.clock, self.settings, self.services.originals)

    async def place_order(self, scope: Scope, **options: Any) -> Order:
        return await place(self.services, scope, self.clock(), **options)

    async def run_jobs(self, *jobs: RunsOnce) -> None:
        """Run these jobs until none of them finds anything to do."""
        for _ in range(MAX_ROUNDS):
            if not any([await job.run_once() for job in jobs]):
                return
        raise AssertionError(f"the jobs still find something to do after {MAX_ROUNDS} rounds")

    async def post_entries(self) -> None:
        """Post what is due to the journal."""
        await self.run_jobs(PostEntries(self.database, self.clock, self.settings))

    async def until(self, condition: Callable[[], Awaitable[object]]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not await condition():
            assert time.monotonic() < deadline, f"not within {WITHIN_S} s"
            await asyncio.sleep(0.005)

    async def until_waiting_for_lock(self) -> None:
        """Until a transaction on this database waits for a lock that another one holds."""
        await self.until(lambda: self.fetchval(WAITING_FOR_LOCK))

    async def fetch(self, sql: str, *values: object) -> list[asyncpg.Record]:
        async with self.database.connection() as connection:
            return await connection.fetch(sql, *values)

    async def fetchval(self, sql: str, *values: object) -> Any:
        async with self.database.connection() as connection:
            return await connection.fetchval(sql, *values)

    async def execute(self, sql: str, *values: object) -> None:
        async with self.database.transaction() as tx:
            await tx.execute(sql, *values)

    async def tamper(self, *statements: str) -> None:
        """Change what the service never changes: without triggers, and without foreign keys."""
        async with self.database.transaction() as tx:
            await tx.execute("SET LOCAL session_replication_role = replica")
            for statement in statements:
                await tx.execute(statement)

    async def status(self, order: Order) -> str:
        return str(await self.fetchval("SELECT status FROM orders WHERE id = $1", order.id))

    async def event_types(self, order: Order) -> list[str]:
        rows = await self.fetch("SELECT event_type FROM events WHERE subject_id = $1 ORDER BY position", order.id)
        return [row["event_type"] for row in rows]

    async def breaches(self) -> dict[str, list[str]]:
        """The invariants that do not hold, with the places."""
        async with self.database.transaction() as tx:
            await tx.execute(FOR_CHECKS)
            of_rows = [each for check in ROW_CHECKS async for each in check.find(tx)]
            if not of_rows and not await tx.fetchval(f"SELECT {FIND_ANY_BREACH}", None):
                return {}
        return await self.database.commit(examine)

    async def check_invariants(self) -> None:
        assert (found := await self.breaches()) == {}, found
