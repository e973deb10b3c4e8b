"""Record acknowledgements. Those of several webhooks that are ready at the same time share one statement."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

import asyncpg

from tonne.channels.webhooks import attempt_store
from tonne.channels.webhooks.delivery.outcomes import Delivered
from tonne.channels.webhooks.delivery.schedule import MAX_BATCH
from tonne.channels.webhooks.model import EventBatch, Lease
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.values.context import Mode

# Bounds how long the rows of a group are locked.
MAX_GROUP = 64


class Acknowledgement(NamedTuple):
    organisation_id: str
    webhook_id: str
    token: int
    version: int
    reaches: int
    attempt_id: str
    # As text, because arrays of several lengths do not fit into one. None: all from the first one to `reaches`.
    positions: str | None
    first_position: int
    status: int | None
    error: str | None
    duration_ms: int
    answer: str
    # Whether the lease ends, or is kept by this session, if nothing else waits.
    release: bool
    after: int
    keeper: int | None
    mode: Mode

    @classmethod
    def of(
        cls,
        lease: Lease,
        batch: EventBatch,
        outcome: Delivered,
        attempt_id: str,
        *,
        release: bool = False,
        keeper: int | None = None,
    ) -> "Acknowledgement":
        # The database writes out consecutive positions faster than a list is encoded.
        is_range = isinstance(batch.positions, range) and batch.positions[-1] == batch.reaches
        positions = None if is_range else f"{{{','.join(map(str, batch.positions))}}}"
        cursor = (batch.reaches, attempt_id, positions, batch.positions[0])
        return cls(*lease.fence, *cursor, *outcome.recorded, release, batch.after, keeper, lease.mode)


_COLUMNS = ", ".join(Acknowledgement._fields)
_OF_MANY = ", ".join(f"many.{name}" for name in Acknowledgement._fields)
# A worker that has lost its lease settles nothing. If the registration was changed meanwhile, the attempt is recorded
# and the cursor stays where the change put it.
# Only what an acknowledgement changes is returned: with an equal version, the registration is that of the lease.
# synchronous_commit = off: a crash loses cursor and attempt together, and the events are sent again. A worker that
# outlives the crash has sent the next batch meanwhile: without the result before, that one is not settled either.
RENEWED = ("cursor_position", "batch_limit", "accepted_probe", "last_position", "has_parked", "is_released", "keeper")
_SETTLE = f"""
), settled AS (
    UPDATE webhooks webhook
    SET cursor_position = CASE WHEN webhook.version = done.version THEN greatest(cursor_position, done.reaches)
                               ELSE cursor_position END,
        batch_limit = least({MAX_BATCH}, batch_limit * 2), failures = 0, head_refusals = 0, failing_since = NULL,
        probe_after = NULL, alerts_sent = 0, next_attempt_at = clock_timestamp(),
        acknowledged_count = acknowledged_count + 1, last_attempt_at = clock_timestamp(),
        lease_until = CASE WHEN ending.is_done AND webhook.version = done.version AND done.keeper IS NULL
                           THEN NULL ELSE clock_timestamp() + $17::interval END,
        lease_keeper = CASE WHEN ending.is_done AND webhook.version = done.version THEN done.keeper END
    FROM done JOIN event_streams stream USING (organisation_id, mode)
    CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM webhook_parked parked
                                       WHERE parked.organisation_id = done.organisation_id
                                         AND parked.webhook_id = done.webhook_id) AS has_parked) parked
    CROSS JOIN LATERAL (SELECT done.release AND done.reaches >= stream.last_position AND NOT parked.has_parked
                               AS is_done) ending
    WHERE webhook.organisation_id = done.organisation_id AND webhook.id = done.webhook_id
      AND webhook.lease_token = done.token AND (webhook.version <> done.version OR cursor_position >= done.after)
    RETURNING done.organisation_id, done.webhook_id, done.attempt_id, done.positions, done.first_position, done.reaches,
              done.status, done.error, done.duration_ms, done.answer,
              webhook.version AS current_version, webhook.cursor_position, webhook.batch_limit, webhook.accepted_probe,
              stream.last_position, parked.has_parked, webhook.lease_until IS NULL AS is_released, webhook.lease_keeper
), attempt AS (
    INSERT INTO webhook_attempts ({attempt_store.COLUMNS})
    SELECT organisation_id, webhook_id, attempt_id, date_trunc('milliseconds', clock_timestamp()),
           coalesce(positions::bigint[], ARRAY(SELECT generate_series(first_position, reaches))),
           true, status, error, duration_ms, answer
    FROM settled
)
SELECT attempt_id, current_version, cursor_position, batch_limit, accepted_probe, last_position, has_parked,
       is_released, lease_keeper AS keeper
FROM settled WHERE set_config('synchronous_commit', 'off', true) = 'off'
"""  # noqa: S608 - only constants are inserted
ACKNOWLEDGE = f"""
WITH done AS (
    SELECT {_COLUMNS}
    FROM (VALUES ($1::text, $2::text, $3::bigint, $4::integer, $5::bigint, $6::text, $7::text, $8::bigint, $9::integer,
                  $10::text, $11::integer, $12::text, $13::boolean, $14::bigint, $15::integer, $16::mode))
         AS one ({_COLUMNS})
{_SETTLE}"""  # noqa: S608 - only constants are inserted


async def acknowledge(
    connection: Connection, acknowledgement: Acknowledgement, lease_s: float
) -> asyncpg.Record | None:
    """What it changed; None when the lease is lost. Waits if the row is locked."""
    return await connection.fetchrow(ACKNOWLEDGE, *acknowledgement, timedelta(seconds=lease_s))


ACKNOWLEDGE_MANY = f"""
WITH done AS (
    SELECT {_OF_MANY}
    FROM unnest($1::text[], $2::text[], $3::bigint[], $4::integer[], $5::bigint[], $6::text[], $7::text[],
                $8::bigint[], $9::integer[], $10::text[], $11::integer[], $12::text[], $13::boolean[], $14::bigint[],
                $15::integer[], $16::mode[]) AS many ({_COLUMNS})
    JOIN webhooks ON webhooks.organisation_id = many.organisation_id AND webhooks.id = many.webhook_id
    FOR UPDATE OF webhooks SKIP LOCKED
{_SETTLE}"""  # noqa: S608 - only constants are inserted


async def acknowledge_many(
    connection: Connection, acknowledgements: Sequence[Acknowledgement], lease_s: float
) -> Mapping[str, asyncpg.Record]:
    """By attempt, without those whose lease is lost or whose row is locked."""
    rows = await connection.fetch(ACKNOWLEDGE_MANY, *zip(*acknowledgements, strict=True), timedelta(seconds=lease_s))
    return {row["attempt_id"]: row for row in rows}


class Acknowledgements:
    """An acknowledgement is written at once and alone if no other is being written, otherwise with those that wait.

    It waits only for a statement that skips locked rows, and what that one has not settled is written alone: no webhook
    delays another or makes it fail.
    """

    def __init__(self, database: Database, lease_s: float) -> None:
        self._database = database
        self._lease_s = lease_s
        self._waiting: list[tuple[Acknowledgement, asyncio.Future[asyncpg.Record | None]]] = []
        self._writes_one = False
        self._writes_groups: asyncio.Task[None] | None = None

    async def write(self, done: Acknowledgement) -> asyncpg.Record | None:
        """What it changed; None when the lease is lost."""
        if not self._writes_one and self._writes_groups is None:
            self._writes_one = True
            try:
                return await self._write_alone(done)
            finally:
                self._writes_one = False
        settled: asyncio.Future[asyncpg.Record | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((done, settled))
        if self._writes_groups is None:
            self._writes_groups = asyncio.create_task(self._write_groups())
        return await settled or await self._write_alone(done)

    async def _write_alone(self, done: Acknowledgement) -> asyncpg.Record | None:
        return await self._database.run(acknowledge, done, self._lease_s)

    async def _write_groups(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
            rows: Mapping[str, asyncpg.Record] = {}
            failure: Exception | None = None
            try:
                rows = await self._database.run(acknowledge_many, [done for done, _ in group], self._lease_s)
            except Exception as error:  # noqa: BLE001 - each is then written alone
                # The statement may have been committed, so each of them has to look whether its attempt is recorded.
                failure = error if is_database_unavailable(error) else None
            for done, settled in group:
                if settled.done():
                    continue
                if failure is None:
                    settled.set_result(rows.get(done.attempt_id))
                else:
                    settled.set_exception(failure)
        self._writes_groups = None
