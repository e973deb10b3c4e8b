"""What it costs to look for due webhooks when none is due, with many idle webhooks."""

import contextlib
from collections.abc import AsyncIterator

from bench.delivery.webhooks import Delivery
from bench.environment import cpu_s_by_process
from bench.pace import DeliveryPace
from bench.report import Goal, NotMeasured, Result
from bench.tenants import MODE
from tonne.channels.webhooks.delivery.claim import claim_webhooks
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings

GOAL = Goal(reach=1.5, at_most=True)
FEW, MANY = 10, 10_000
_PREFIX = "idle_"


async def idle_look(delivery: Delivery, pace: DeliveryPace) -> Result:
    """The claim of a poll, without a full scan. Every webhook has an organisation and a stream of its own."""
    took = {}
    for webhooks in (FEW, MANY):
        async with _idle_webhooks(delivery, webhooks):
            took[webhooks] = await _look(delivery, pace.looks)
    return Result("idle_look", took[MANY], "us", took[FEW], GOAL)


async def _look(delivery: Delivery, looks: int) -> float:
    """CPU time of the database per claim, in microseconds, on a connection with the settings of a worker."""
    database = await Database(delivery.environment.url, Settings()).open()
    try:
        async with database.connection() as connection:
            process_id = await connection.fetchval("SELECT pg_backend_pid()")
            # The first ones make the plans.
            await _claim(connection, looks // 10)
            before = cpu_s_by_process([process_id])[process_id]
            await _claim(connection, looks)
            return (cpu_s_by_process([process_id])[process_id] - before) / looks * 1e6
    finally:
        await database.close()


async def _claim(connection: Connection, times: int) -> None:
    for _ in range(times):
        if await claim_webhooks(connection, 256, 128, 45.0, full_scan=False):
            raise NotMeasured("A webhook was due.")


ADD = """
WITH number AS (SELECT $2 || n AS id FROM generate_series(1, $1::integer) AS n),
organisation AS (
    INSERT INTO organisations (id, name, created_at) SELECT id, id, now() FROM number RETURNING id
), mode AS (
    INSERT INTO organisation_modes (organisation_id, mode) SELECT id, $3::mode FROM organisation
    RETURNING organisation_id
), stream AS (
    INSERT INTO event_streams (organisation_id, mode) SELECT organisation_id, $3::mode FROM mode
    RETURNING organisation_id
)
INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, cursor_position,
                      next_attempt_at)
SELECT organisation_id, $3::mode, organisation_id, 'https://receiver.test/', now(), ''::bytea, 'abcd', 0, now()
FROM stream
"""
REMOVE = (
    "DELETE FROM webhooks WHERE starts_with(organisation_id, $1)",
    "DELETE FROM event_streams WHERE starts_with(organisation_id, $1)",
    "DELETE FROM organisation_modes WHERE starts_with(organisation_id, $1)",
    "DELETE FROM organisations WHERE starts_with(id, $1)",
)


@contextlib.asynccontextmanager
async def _idle_webhooks(delivery: Delivery, count: int) -> AsyncIterator[None]:
    async with delivery.environment.connection() as connection:
        await connection.execute(ADD, count, _PREFIX, MODE)
        await connection.execute("VACUUM ANALYZE webhooks, event_streams")
        await _forget_recent(connection)
        yield
        for statement in REMOVE:
            await connection.execute(statement, _PREFIX)
        await connection.execute("VACUUM ANALYZE webhooks, event_streams")


async def _forget_recent(connection: Connection) -> None:
    """Webhooks of earlier benchmarks have nothing to send."""
    if await connection.fetchval("SELECT count(*) FROM webhooks WHERE due_at <= now() AND enabled"):
        await connection.execute("UPDATE webhooks SET due_at = NULL")
