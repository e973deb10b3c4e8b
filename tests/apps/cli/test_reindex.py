"""tonne reindex"""

import asyncio
import json

import asyncpg
import pytest

from tests.support.command import Operator
from tonne.platform.db.database import Connection, Database

# In a random order, as the entries of many accounts arrive.
SCATTER = """
INSERT INTO log_tiles (log_id, level, number, hashes)
SELECT 1, 0, number, sha256('') FROM generate_series(1, 20000) AS number ORDER BY sha256(number::text::bytea)
"""
INVALID = "SELECT array_agg(indexrelid::regclass::text) FROM pg_index WHERE NOT indisvalid"
IS_WAITING = """
SELECT EXISTS (SELECT FROM pg_stat_activity
               WHERE query LIKE 'REINDEX%' AND wait_event_type = 'Lock' AND datname = current_database())
"""


async def wait_for_reindex(connection: Connection) -> None:
    async with asyncio.timeout(30):
        while not await connection.fetchval(IS_WAITING):
            pass


async def test_the_plan_lists_indexes_with_their_sizes_and_changes_nothing(
    operator: Operator, populated_db: Database
) -> None:
    async with populated_db.connection() as connection:
        files = "SELECT sum(relfilenode::bigint) FROM pg_class"
        before = await connection.fetchval(files)
        planned = operator.does("reindex", "--plan", "--at-least", "0", "--json", "events", "orders")
        rows = [json.loads(line) for line in planned.splitlines()]
        assert await connection.fetchval(files) == before
    assert {row["table"].partition("_")[0] for row in rows} == {"events", "orders"}
    assert any(row["name"].startswith("events_2") and row["table"].startswith("events_2") for row in rows), "partitions"
    assert [row["bytes"] for row in rows] == sorted(row["bytes"] for row in rows)
    assert operator.does("reindex", "--plan", "nothing") == "No index of these tables has 10 MB or more."
    assert "--json and --csv need --plan." in operator.runs("reindex", "--json").stderr


async def test_every_index_but_those_of_exclusion_constraints_is_rebuilt_and_the_data_stays(
    operator: Operator, populated_db: Database
) -> None:
    async with populated_db.connection() as connection:
        await connection.execute(SCATTER)
        before = await connection.fetchval("SELECT pg_relation_size('log_tiles_pkey')")
        lines = operator.does("reindex", "--at-least", "0").splitlines()
        after = await connection.fetchval("SELECT pg_relation_size('log_tiles_pkey')")
        indexes = await connection.fetchval(
            "SELECT count(*) FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid "
            "WHERE relnamespace = 'public'::regnamespace AND relkind = 'i' AND NOT indisexclusion"
        )
        assert await connection.fetchval(INVALID) is None
        assert await connection.fetchval("SELECT count(*) FROM log_tiles WHERE number BETWEEN 9 AND 18") == 10
    assert after < 0.8 * before
    assert f"log_tiles_pkey: {before / 1e6:.1f} MB, now {after / 1e6:.1f} MB" in lines
    assert lines[-1].startswith(f"Rebuilt {indexes} indexes: "), lines[-1]


async def test_tables_can_be_written_while_an_index_is_rebuilt(operator: Operator, populated_db: Database) -> None:
    insert = "INSERT INTO log_tiles (log_id, level, number, hashes) VALUES (1, 0, $1, sha256(''))"
    async with populated_db.connection() as older, populated_db.connection() as other:
        transaction = older.transaction()
        await transaction.start()
        await older.execute(insert, 1)
        rebuilding = asyncio.create_task(
            asyncio.to_thread(operator.does, "reindex", "log_tiles", "log_entries", "--at-least", "0")
        )
        await wait_for_reindex(other)
        assert "Another `tonne reindex` is running." in await asyncio.to_thread(operator.is_refused, "reindex")
        async with asyncio.timeout(10):
            await other.execute(insert, 2)
        await transaction.commit()
        assert "Rebuilt 2 indexes" in await rebuilding
        assert await other.fetchval("SELECT count(*) FROM log_tiles") == 2


async def test_what_an_interrupted_run_has_left_is_removed_by_the_next(
    operator: Operator, populated_db: Database
) -> None:
    async with populated_db.connection() as older, populated_db.connection() as other:
        transaction = older.transaction()
        await transaction.start()
        await older.execute("INSERT INTO log_tiles VALUES (1, 0, 1, sha256(''))")
        killed: Connection = await asyncpg.connect(populated_db._url)
        rebuilding = asyncio.create_task(killed.execute("REINDEX INDEX CONCURRENTLY log_tiles_pkey"))
        await wait_for_reindex(other)
        await other.execute("SELECT pg_terminate_backend($1)", killed.get_server_pid())
        with pytest.raises(asyncpg.PostgresError):
            await rebuilding
        await transaction.commit()
        assert await other.fetchval(INVALID) == ["log_tiles_pkey_ccnew"]
        lines = operator.does("reindex", "log_tiles", "--at-least", "0").splitlines()
        assert lines[0] == "Removed log_tiles_pkey_ccnew, which an interrupted run has left."
        assert lines[-1].startswith("Rebuilt 1 indexes")
        assert await other.fetchval(INVALID) is None
