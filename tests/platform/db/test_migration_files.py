"""What a migration may do while servers of the previous release serve requests, checked in every file."""

import re
from collections.abc import Iterator

import pytest

from tonne.platform.db.schema.migrate import BASELINE
from tonne.platform.db.schema.migration_files import REPEAT, Migration, all_migrations
from tonne.platform.db.schema.statement_locks import LockMode, Work, created_tables, locks_of

# A comment above a statement that says why its table is small enough to scan or rewrite under a lock.
SMALL = "small table:"
_REPEATABLE = re.compile(
    r"\bIF\s+(NOT\s+)?EXISTS\b|\bOR\s+REPLACE\b|\bVALIDATE\s+CONSTRAINT\b|\b(SET|DROP)\s+(NOT\s+NULL|DEFAULT)\b|"
    r"\bON\s+CONFLICT\b|^(ANALYZE|VACUUM)\b",
    re.IGNORECASE,
)
_RENAMES = re.compile(r"ALTER\s+(TABLE|VIEW|TYPE)\b.*\bRENAME\b", re.IGNORECASE | re.DOTALL)


def problems_of(migration: Migration) -> list[str]:
    return list(_problems(migration))


def _problems(migration: Migration) -> Iterator[str]:
    if not migration.states_compatibility:
        yield "Its first line is not `-- compatible_from: N`, the oldest release that can run on the schema."
    created = created_tables(migration.statements)
    for statement in migration.statements:
        start = " ".join(statement.text.split())[:80]
        is_concurrent = re.search(r"\bCONCURRENTLY\b", statement.text, re.IGNORECASE) is not None
        is_batch = REPEAT in statement.comments
        if migration.in_transaction and (is_concurrent or is_batch):
            yield f"{start}: needs `-- transaction: none` in the header."
        if not migration.in_transaction and not is_batch and not _REPEATABLE.search(statement.text):
            yield f"{start}: a file without transaction is run again after a failure. Use IF [NOT] EXISTS or batches."
        if _RENAMES.search(statement.text) and migration.compatible_from != migration.version:
            yield f"{start}: the previous release does not know the new name. Add, copy, and drop a release later."
        if any(comment.startswith(SMALL) for comment in statement.comments):
            continue
        for lock in locks_of(statement):
            if lock.table in created:
                continue
            if lock.mode is LockMode.UNKNOWN:
                yield f"{start}: its locks are not known. Use plain statements, or teach `statement_locks` this form."
            elif lock.work is not Work.BRIEF and lock.mode.blocks_writers:
                yield f"{start}: {lock.work} {lock.table} with a lock ({lock.mode}) that blocks writers."
            elif lock.work is Work.REWRITES and not is_batch:
                yield f"{start}: changes rows of {lock.table} in one transaction. Change them in batches."


def test_migrations_can_run_while_servers_serve_requests() -> None:
    problems = {each.name: problems_of(each) for each in all_migrations() if each.version > BASELINE}
    assert {name: found for name, found in problems.items() if found} == {}


GOOD = {
    "a new table": "CREATE TABLE a (id text); CREATE INDEX ON a (id); UPDATE a SET id = 'y'",
    "a column": "ALTER TABLE orders ADD COLUMN x text, ADD COLUMN y boolean NOT NULL DEFAULT false",
    "a constraint": "ALTER TABLE orders ADD CONSTRAINT x CHECK (quantity_grams > 0) NOT VALID",
    "its validation": "ALTER TABLE orders VALIDATE CONSTRAINT x",
    "a dropped column": "ALTER TABLE orders DROP COLUMN x",
    "an index": "-- transaction: none\nCREATE INDEX CONCURRENTLY IF NOT EXISTS x ON orders (id)",
    "a dropped index": "-- transaction: none\nDROP INDEX CONCURRENTLY IF EXISTS x",
    "a backfill": "-- transaction: none\n-- repeat until it changes no row\nUPDATE orders SET x = '' WHERE x IS NULL",
    "a small table": "-- small table: one row per mode\nUPDATE catalogues SET version = 1",
}
BAD = {
    "CREATE INDEX x ON orders (id)": "scans orders with a lock (SHARE)",
    "CREATE INDEX CONCURRENTLY IF NOT EXISTS x ON orders (id)": "needs `-- transaction: none`",
    "-- transaction: none\nCREATE INDEX CONCURRENTLY x ON orders (id)": "run again after a failure",
    "ALTER TABLE orders ADD COLUMN x uuid DEFAULT gen_random_uuid()": "rewrites orders",
    "ALTER TABLE orders ADD CONSTRAINT x CHECK (id > '')": "scans orders with a lock (ACCESS EXCLUSIVE)",
    "ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES accounts (id)": "scans accounts with a lock",
    "ALTER TABLE orders ALTER COLUMN id TYPE varchar": "rewrites orders",
    "ALTER TABLE orders ALTER COLUMN id SET NOT NULL": "scans orders",
    "ALTER TABLE orders ADD UNIQUE (id)": "scans orders",
    "ALTER TABLE orders RENAME TO purchases": "does not know the new name",
    "UPDATE orders SET id = ''": "Change them in batches",
    "DELETE FROM events WHERE id = ''": "Change them in batches",
    "DO $$ BEGIN NULL; END $$": "its locks are not known",
}


@pytest.mark.parametrize("sql", GOOD.values(), ids=GOOD.keys())
def test_what_a_migration_may_do(sql: str) -> None:
    assert problems_of(Migration(99, "0099_x", f"-- compatible_from: 98\n{sql}")) == []


@pytest.mark.parametrize("sql", BAD)
def test_what_a_migration_must_not_do(sql: str) -> None:
    found = problems_of(Migration(99, "0099_x", f"-- compatible_from: 98\n{sql}"))
    assert any(BAD[sql] in problem for problem in found), found


def test_a_migration_states_from_which_release_on_its_schema_can_be_used() -> None:
    assert "compatible_from" in problems_of(Migration(99, "0099_x", "SELECT 1"))[0]
