"""Monthly partitions: a new database, new months, stray rows, locks, and plans that look into few partitions."""

import asyncio
from datetime import UTC, datetime, timedelta

from tests.support.clock import START, ManualClock
from tests.support.world import World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.privacy.retention.make_partitions import MakePartitions
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.db.schema.partitions import (
    ATTEMPTS,
    EVENTS,
    MAILS,
    PARTITIONED,
    PartitionedTable,
    list_partitions,
    month_after,
)
from tonne.platform.events import store
from tonne.platform.events.log import NewEvent, append
from tonne.platform.values.context import Scope

MISSING = "the partitions of the next weeks exist"
STRAY = "no row is in a default partition"
ADD_EVENTS = """
INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, document)
SELECT 'org_1', 'live', n, 'evt_' || n, 'acc_1', 'x', 'x.placed', now() - interval '1 year' + n * interval '1 h', '{}'
FROM generate_series(1, 100) AS n
"""
ADD_MAIL = """
INSERT INTO mails (id, organisation_id, recipients, message, created_at)
VALUES ('mail_1', 'org_1', '{a@example.org}', 'x', now() - interval '3 years')
"""
ADD_ATTEMPT = """
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, acknowledged, duration_ms)
VALUES ('org_1', 'wh_1', 'att_1', now(), '{1}', true, 1)
"""


async def test_a_new_database_has_the_partitions_of_this_month_and_the_next(db: Database) -> None:
    """The first one also takes rows with an earlier time, and no row is in a default partition."""
    now = datetime.now(UTC)
    async with db.connection() as connection:
        for statement in (ADD_EVENTS, ADD_MAIL, ADD_ATTEMPT):
            await connection.execute(statement)
        for table, count in ((EVENTS, 100), (MAILS, 1), (ATTEMPTS, 1)):
            first, second = await list_partitions(connection, table)
            assert (first.name, first.start, first.end) == (f"{table.name}_{now:%Y_%m}", None, month_after(now))
            assert (second.start, second.end) == (first.end, month_after(first.end))
            assert second.name == f"{table.name}_{first.end:%Y_%m}"
            assert await connection.fetchval(f"SELECT count(*) FROM {first.name}") == count  # noqa: S608 - our own name


async def make_all(job: MakePartitions) -> int:
    made = 0
    while await job.run_once():
        made += 1
        assert made < 1000
    return made


def first_missing() -> datetime:
    return month_after(month_after(datetime.now(UTC)))


async def test_the_job_keeps_a_month_ahead(db: Database) -> None:
    clock = ManualClock(datetime.now(UTC))
    job = MakePartitions(db, clock)
    assert await make_all(job) == 0
    clock.now = first_missing() - timedelta(seconds=1)
    assert await make_all(job) == len(PARTITIONED)
    async with db.connection() as connection:
        for table in PARTITIONED:
            *_, last, made = await list_partitions(connection, table)
            assert (made.start, made.end) == (last.end, month_after(last.end))
            assert made.name == f"{table.name}_{last.end:%Y_%m}"
    clock.now = month_after(clock.now)
    assert await make_all(job) == len(PARTITIONED)
    assert await make_all(job) == 0


INDEXES = """
SELECT array_agg(concat(indisunique, ' ', regexp_replace(pg_get_indexdef(indexrelid), '^.* USING', '')))
FROM pg_index WHERE indrelid = $1::text::regclass
"""


async def test_every_partition_has_the_same_indexes(db: Database) -> None:
    clock = ManualClock(first_missing())
    await make_all(MakePartitions(db, clock))
    async with db.connection() as connection:
        for table in PARTITIONED:
            names = [table.default, *(each.name for each in await list_partitions(connection, table))]
            assert len(names) >= 4
            definitions = [sorted(await connection.fetchval(INDEXES, name)) for name in names]
            assert definitions == [definitions[0]] * len(names)


async def append_at(database: Database, scope: Scope, moment: datetime) -> None:
    async with database.transaction() as tx:
        await append(tx, scope, [NewEvent("order.placed", "ord_1", b"{}")], moment)


async def test_rows_of_a_missing_month_are_kept_and_move_to_its_partition(services: Services, world: World) -> None:
    scope, moment = world.ours_test.scope, first_missing() + timedelta(days=3)
    database = services.database
    await append_at(database, scope, moment - timedelta(days=10))
    await append_at(database, scope, moment)
    await append_at(database, scope, month_after(moment))
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM events_default") == 2
    await make_all(MakePartitions(database, ManualClock(moment - timedelta(days=30))))
    async with database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM events_default") == 1
        created = (await list_partitions(connection, EVENTS))[-1].name
        assert await connection.fetchval(f"SELECT min(sequence) FROM {created}") == moment  # noqa: S608 - our own name
        rows = await store.list_events(
            connection,
            scope,
            store.PageBounds(2**62, 0, START),
            account_id=None,
            event_type="order.placed",
            oldest_first=True,
            limit=10,
        )
    assert [row["sequence"] for row in rows][-3:] == [moment - timedelta(days=10), moment, month_after(moment)]


async def test_workers_that_run_at_the_same_time_create_each_partition_once(db: Database) -> None:
    clock = ManualClock(first_missing())
    made = await asyncio.gather(*(make_all(MakePartitions(db, clock)) for _ in range(3)))
    assert sum(made) >= 2 * len(PARTITIONED)
    async with db.connection() as connection:
        assert [len(await list_partitions(connection, table)) for table in PARTITIONED] == [4] * len(PARTITIONED)


async def test_a_long_read_delays_the_job_and_the_next_run_succeeds(db: Database) -> None:
    job = MakePartitions(db, ManualClock(first_missing() - timedelta(days=1)))
    async with db.transaction() as tx:
        await tx.execute("SELECT FROM events")
        assert await job.run_once() is False
    assert await make_all(job) == len(PARTITIONED)


async def waiting(services: Services) -> dict[str, list[str]]:
    async with services.database.transaction() as tx:
        return await find_waiting(tx, services.settings, datetime.now(UTC))


async def end_first_partition(services: Services, table: PartitionedTable, end: datetime) -> None:
    """The first partition becomes the only one, and ends at this time."""
    async with services.database.transaction() as tx:
        first, *later = await list_partitions(tx, table)
        for partition in later:
            await tx.execute(f"DROP TABLE {partition.name}")
        earlier = f"{table.name}_earlier"
        await tx.execute(f"ALTER TABLE {table.name} DETACH PARTITION {first.name}")
        await tx.execute(f"ALTER TABLE {first.name} RENAME TO {earlier}")
        await tx.execute(f"ALTER TABLE {table.name} ATTACH PARTITION {earlier} FOR VALUES FROM (MINVALUE) TO ('{end}')")


async def test_the_doctor_warns_when_partitions_are_missing(services: Services) -> None:
    now = datetime.now(UTC)
    assert MISSING not in await waiting(services)
    await end_first_partition(services, EVENTS, now + timedelta(days=15))
    await end_first_partition(services, ATTEMPTS, now + timedelta(days=13))
    assert (await waiting(services))[MISSING] == [f"webhook_attempts, until {now + timedelta(days=13):%Y-%m-%d}"]


async def test_the_doctor_warns_of_rows_without_a_partition(services: Services, world: World) -> None:
    now = datetime.now(UTC)
    async with services.database.transaction() as tx:
        await tx.execute("DELETE FROM events")
    await end_first_partition(services, EVENTS, now - timedelta(days=40))
    assert STRAY not in await waiting(services)
    await append_at(services.database, world.ours_test.scope, now - timedelta(hours=1))
    assert (await waiting(services))[STRAY] == [f"events_default, a row of {now - timedelta(hours=1):%Y-%m-%d}"]


async def test_recent_events_are_read_from_few_of_many_partitions(services: Services) -> None:
    """The plan is generic, as in the service: partitions are left out when the statement starts."""
    database = services.database
    now = datetime.now(UTC)
    async with database.transaction() as tx:
        await tx.execute("DELETE FROM events")
    await end_first_partition(services, EVENTS, datetime(now.year - 3, now.month, 1, tzinfo=UTC))
    await make_all(MakePartitions(database, ManualClock(now)))
    async with database.connection() as connection:
        assert len(await list_partitions(connection, EVENTS)) > 36
        await connection.execute(
            "PREPARE reading (text, mode, bigint, integer, timestamptz) AS "
            "SELECT position FROM events WHERE organisation_id = $1 AND mode = $2 AND position > $3 AND sequence >= $5 "
            "ORDER BY position LIMIT $4"
        )
        rows = await connection.fetch(f"EXPLAIN EXECUTE reading ('org_1', 'live', 5, 10, '{now - timedelta(days=2)}')")
        plan = "\n".join(row[0] for row in rows)
        await connection.execute("DEALLOCATE reading")
    assert plan.count("Index Scan") + plan.count("Index Only Scan") <= 4, plan
    assert "Subplans Removed" in plan
