"""Migration 0007: serial blocks that are spelt differently become one, and overlapping lots stop it."""

import pytest

from tests.platform.db.test_migrations import bare, bare_url
from tonne.platform.db.pool import Connection
from tonne.platform.db.schema.migrate import MigrationError, migrate
from tonne.platform.db.schema.migration_files import all_migrations

__all__ = ["bare", "bare_url"]
LOTS = """
INSERT INTO lots (mode, id, project_id, vintage, serial_block, first_number, last_number, country, status, created_at)
SELECT 'live', new.id, 'prj_1', 2020, block.number, new.first_number, new.last_number, 'Kenya', 'held', now()
FROM (VALUES ('lot_1', 'Verra', '9731-VCS', 1, 100), ('lot_2', 'verra', '9731 vcs', $1, 200)) AS
     new (id, registry, block, first_number, last_number)
JOIN serial_blocks block ON block.registry = new.registry AND block.block = new.block
"""


async def prepare(bare: Connection, first_number: int) -> None:
    """A database of the previous release, with two lots of one block in two spellings."""
    await bare.execute("CREATE TABLE schema_migrations (version integer PRIMARY KEY, name text, checksum text)")
    for migration in all_migrations():
        if migration.version < 7:
            await bare.execute(migration.sql)
            await bare.execute(
                "INSERT INTO schema_migrations VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.checksum,
            )
    await bare.execute("INSERT INTO catalogues (mode, currency, version) VALUES ('live', 'EUR', 1)")
    await bare.execute(
        "INSERT INTO projects (mode, id, registry, registry_project_id, name, slug, country, type, mechanism, "
        "granularity_grams, created_at) VALUES ('live', 'prj_1', 'Verra', 'A', 'A', 'a', 'Kenya', 'Wind', 'avoidance', "
        "1000000, now())"
    )
    await bare.execute(
        "INSERT INTO serial_blocks (registry, block) VALUES ('Verra', '9731-VCS'), ('verra', '9731 vcs')"
    )
    await bare.execute(LOTS, first_number)


async def test_money_9_blocks_in_two_spellings_become_one(bare: Connection) -> None:
    await prepare(bare, 101)
    await bare.execute("ALTER TABLE schema_migrations ADD COLUMN applied_at timestamptz DEFAULT now()")
    await migrate(bare)
    rows = await bare.fetch(
        "SELECT coalesce(block_spelling, block) AS printed FROM lots "
        "JOIN serial_blocks ON serial_blocks.number = lots.serial_block ORDER BY lots.id"
    )
    assert [row["printed"] for row in rows] == ["9731-VCS", "9731 vcs"]
    assert await bare.fetchval("SELECT count(*) FROM serial_blocks") == 1


async def test_money_9_overlapping_lots_stop_the_migration_and_are_named(bare: Connection) -> None:
    await prepare(bare, 100)
    with pytest.raises(MigrationError) as refused:
        await migrate(bare)
    message = str(refused.value)
    assert "lot_1 (live, Verra 9731-VCS 1–100, 0 g allocated) and lot_2 (live, verra 9731 vcs 100–200" in message
    assert "\n" not in message
    assert await bare.fetchval("SELECT max(version) FROM schema_migrations") < 7
    await bare.execute("DELETE FROM lots WHERE id = 'lot_2'")
    await migrate(bare)
