"""One transaction for all that a task writes."""

import asyncio

import asyncpg
import pytest

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.one_transaction import OneTransaction

KEY = "INSERT INTO secret_keys (id) VALUES ($1)"
COUNT = "SELECT count(*) FROM secret_keys"


async def _first(tx: Connection) -> None:
    await tx.execute(KEY, "00000000000000f0")


async def _count(database: Database) -> int:
    found: int = await database.run(lambda connection: connection.fetchval(COUNT))
    return found


async def _insert(database: Database, key: str) -> None:
    async with database.transaction() as tx:
        await tx.execute(KEY, key)


async def test_the_transactions_of_the_task_are_committed_together(db: Database) -> None:
    async with OneTransaction(db, _first) as one:
        assert one.connection is None, "a connection is held before it is needed"
        await _insert(db, "00000000000000f1")
        with pytest.raises(asyncpg.UniqueViolationError):
            await _insert(db, "00000000000000f1")
        await _insert(db, "00000000000000f2")
        # A read of the same task sees what is written, and needs no second connection.
        assert await _count(db) == 3
        assert await asyncio.create_task(_count(db)) == 0, "another task sees what is not committed"
    assert await _count(db) == 3


async def test_an_error_rolls_everything_back(db: Database) -> None:
    async def fail() -> None:
        async with OneTransaction(db, _first):
            await _insert(db, "00000000000000f1")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await _count(db) == 0


async def test_nothing_is_begun_if_the_task_writes_nothing(db: Database) -> None:
    async with OneTransaction(db, _first) as one:
        assert await _count(db) == 0
    assert one.connection is None
    assert await _count(db) == 0
