"""A stream with events in several partitions, and what reads it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import asyncpg

from tests.support.scene import Scene
from tests.support.world import TESTER, Tenant
from tonne.apps.privacy.retention.removal_store import RemovedPartition
from tonne.apps.privacy.retention.remove_partitions import NotRemoved, remove_due
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.platform.db.database import Database
from tonne.platform.db.schema.partitions import EVENTS, PartitionedTable, create_partition, list_partitions
from tonne.platform.events.log import NewEvent, append
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, job_actor, replace

JOB = job_actor("remove_partitions")


def month_start(months_ago: int) -> datetime:
    now = datetime.now(UTC)
    years, month = divmod(now.year * 12 + now.month - 1 - months_ago, 12)
    return datetime(years, month + 1, 1, tzinfo=UTC)


async def divide(database: Database, table: PartitionedTable, boundaries: Sequence[datetime]) -> None:
    """Replace the partitions of an empty table: they end at these boundaries, in order."""
    async with database.transaction() as tx:
        for partition in await list_partitions(tx, table):
            await tx.execute(f"DROP TABLE {partition.name}")
        start = "MINVALUE"
        for number, end in enumerate(boundaries):
            name = f"{table.name}_part_{number}"
            await tx.execute(f"CREATE TABLE {name} (LIKE {table.default} INCLUDING ALL)")
            await tx.execute(f"ALTER TABLE {table.name} ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ('{end}')")
            start = f"'{end}'"


async def make_months(database: Database, table: PartitionedTable, first: datetime) -> None:
    """A first partition until `first`, and one for every month until the next. The table must be empty."""
    await divide(database, table, [first])
    async with database.transaction() as tx:
        end = first
        while end < datetime.now(UTC) + timedelta(days=32):
            end = (await create_partition(tx, table, end)).end


@dataclass(frozen=True)
class Hook:
    id: str


class Months(Scene):
    """Six months of partitions, and a stream of `one` and `two`, accounts of one organisation."""

    def __init__(self, services: Services, tenant: Tenant, settings: Settings) -> None:
        super().__init__(services, settings=settings)
        self.one = tenant.scope
        self.two = replace(tenant.scope, account_id=tenant.client_account_id)

    async def open(self) -> None:
        await self.execute("DELETE FROM events")
        await self.execute("UPDATE event_streams SET last_position = 0, last_sequence = '2000-01-01'")
        await make_months(self.database, EVENTS, month_start(6))

    async def append(self, moment: datetime, scope: Scope | None = None) -> datetime:
        async with self.database.transaction() as tx:
            await append(tx, scope or self.one, [NewEvent("other.made", "x_1", b'{"n":1}')], moment)
        return moment

    async def register(self, *, at: int = 0) -> Hook:
        """A webhook that has got the events up to this position."""
        async with self.database.transaction() as tx:
            url = "https://127.0.0.1/hook"
            webhook, _ = await register_webhook(
                tx, self.one, WebhookRequest(url), box=self.services.box, by=TESTER.at(datetime.now(UTC))
            )
            await tx.execute("UPDATE webhooks SET cursor_position = $2 WHERE id = $1", webhook.id, at)
        return Hook(webhook.id)

    async def remove(self, now: datetime | None = None) -> list[RemovedPartition | NotRemoved]:
        connection = await self.database.connect()
        try:
            return list(await remove_due(connection, self.settings, lambda: now or datetime.now(UTC), JOB))
        finally:
            await connection.close()

    async def floor(self) -> asyncpg.Record:
        [row] = await self.fetch(
            "SELECT floor_position AS position, floor_sequence AS sequence FROM event_streams "
            "WHERE organisation_id = $1 AND mode = $2",
            self.one.organisation_id,
            self.one.mode,
        )
        return row

    async def positions(self) -> list[int]:
        return [row["position"] for row in await self.fetch("SELECT position FROM events ORDER BY position")]
