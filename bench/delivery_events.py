"""A long stream, quickly: copies of a tenant's newest event, each with its own id, position and sequence, no orders."""

import asyncio

from bench.bulk import without_flushing, without_indexes
from bench.stage import Stage
from bench.tenants import MODE, Tenant
from tonne.base.clock import to_wire
from tonne.db.pool import Connection

# Fewer than this are written row by row, as the service does; more with the indexes built afterwards.
BULK = 50_000

NEWEST_EVENT = """
SELECT event.account_id, event.subject_id, event.event_type, event.id, event.sequence, event.payload,
       stream.last_position, stream.last_sequence
FROM event_streams stream JOIN events event USING (organisation_id, mode)
WHERE stream.organisation_id = $1 AND stream.mode = $2 AND event.position = stream.last_position
"""


async def lengthen_stream(stage: Stage, tenant: Tenant, count: int) -> None:
    """The tables are left as a database at rest leaves them: vacuumed, analysed, on disk."""
    async with stage.connection() as one, stage.connection() as two, without_flushing(one):
        newest = await one.fetchrow(NEWEST_EVENT, tenant.scope.organisation_id, MODE)
        if newest is None:
            raise LookupError("there is no event to copy yet")
        before, id_found, rest = newest["payload"].partition(newest["id"])
        middle, sequence_found, after = rest.partition(to_wire(newest["sequence"]))
        if not (id_found and sequence_found):
            raise ValueError("an event's id and sequence are not where they were: has it a new form?")
        values = (
            tenant.scope.organisation_id,
            MODE,
            newest["account_id"],
            newest["subject_id"],
            newest["event_type"],
            *(newest["last_position"], newest["last_sequence"], before, middle, after),
        )
        if count < BULK:
            await one.execute(COPY_EVENT, *values, 1, count)
        else:
            async with without_indexes(one, two, ["events"]):
                await asyncio.gather(
                    one.execute(COPY_EVENT, *values, 1, count // 2),
                    two.execute(COPY_EVENT, *values, count // 2 + 1, count),
                )
        await _advance_stream(one, tenant, count)
        await one.execute("VACUUM ANALYZE events, event_streams")


# Other fills put a digit where these ids have a zero: no two are alike.
COPY_EVENT = """
INSERT INTO events (organisation_id, mode, account_id, subject_id, event_type, position, sequence, id, payload)
SELECT $1, $2, $3, $4, $5, position, sequence, id,
       $8 || id || $9 || to_char(sequence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') || $10
FROM (SELECT $6::bigint + n AS position, $7::timestamptz + n * interval '1 ms' AS sequence,
             'evt_' || lpad(($6::bigint + n)::text, 26, '0') AS id
      FROM generate_series($11::bigint, $12::bigint) AS n) copy
"""
ADVANCE_STREAM = """
UPDATE event_streams
SET last_position = last_position + $3::bigint, last_sequence = last_sequence + $3::bigint * interval '1 ms'
WHERE organisation_id = $1 AND mode = $2
"""


async def _advance_stream(connection: Connection, tenant: Tenant, count: int) -> None:
    await connection.execute(ADVANCE_STREAM, tenant.scope.organisation_id, MODE, count)
