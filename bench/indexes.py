"""Tables without their indexes while they are filled: building one over all rows is far quicker than row by row."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from tonne.db.pool import Connection

# Foreign keys stand on unique indexes, so they go first and come back last.
CONSTRAINTS = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS removal,
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS return,
       contype = 'f' AS foreign, conrelid::regclass::text AS table
FROM pg_constraint WHERE conrelid = ANY ($1::text[]::regclass[]) AND contype IN ('f', 'p', 'u')
ORDER BY contype = 'f' DESC
"""
INDEXES = """
SELECT format('DROP INDEX %s', indexrelid::regclass) AS removal, pg_get_indexdef(indexrelid) AS return,
       false AS foreign, indrelid::regclass::text AS table
FROM pg_index WHERE indrelid = ANY ($1::text[]::regclass[])
              AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND conrelid = indrelid)
"""


@contextlib.asynccontextmanager
async def without_indexes(one: Connection, two: Connection, tables: Sequence[str]) -> AsyncIterator[None]:
    """Of `tables`; on the way out the two connections rebuild them side by side."""
    found = [*await one.fetch(CONSTRAINTS, tables), *await one.fetch(INDEXES, tables)]
    for row in found:
        await one.execute(row["removal"])
    yield
    waiting = [row["return"] for row in found if not row["foreign"]]
    await asyncio.gather(_run_all(one, waiting), _run_all(two, waiting))
    await _run_all(one, [row["return"] for row in found if row["foreign"]])


async def _run_all(connection: Connection, waiting: list[str]) -> None:
    await connection.execute("SET maintenance_work_mem = '256MB'")
    while waiting:
        await connection.execute(waiting.pop())
