"""The locks of statements, compared with those that PostgreSQL takes."""

import pytest

from tests.platform.db.test_migrations import bare, bare_url
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migration_files import SqlStatement, split_statements
from tonne.platform.db.schema.statement_locks import LockMode, TableLock, Work, locks_of

__all__ = ["bare", "bare_url"]
AE, SRE, SUE = LockMode.ACCESS_EXCLUSIVE, LockMode.SHARE_ROW_EXCLUSIVE, LockMode.SHARE_UPDATE_EXCLUSIVE
SETUP = """
CREATE TABLE parents (id integer PRIMARY KEY);
CREATE TABLE things (id integer, size integer);
ALTER TABLE things ADD CONSTRAINT sized CHECK (size > 0) NOT VALID;
CREATE INDEX things_size ON things (size);
CREATE UNIQUE INDEX things_id ON things (id);
INSERT INTO things VALUES (1, 1);
CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER noted AFTER INSERT ON things FOR EACH STATEMENT EXECUTE FUNCTION nothing();
"""
CASES = {
    "ALTER TABLE things ADD COLUMN x text": [TableLock("things", AE)],
    "ALTER TABLE things ADD x text NOT NULL DEFAULT 'a;b', ADD y integer": [TableLock("things", AE)] * 2,
    "ALTER TABLE things ADD COLUMN x timestamptz DEFAULT now()": [TableLock("things", AE)],
    "ALTER TABLE things ADD COLUMN x uuid DEFAULT gen_random_uuid()": [TableLock("things", AE, Work.REWRITES)],
    "ALTER TABLE things ADD COLUMN x bigint GENERATED ALWAYS AS IDENTITY": [TableLock("things", AE, Work.REWRITES)],
    "ALTER TABLE things ADD COLUMN x bigserial": [TableLock("things", AE, Work.REWRITES)],
    "ALTER TABLE things ADD x integer GENERATED ALWAYS AS (size + 1) STORED": [TableLock("things", AE, Work.REWRITES)],
    'ALTER TABLE things ADD COLUMN IF NOT EXISTS serial text, ADD stored boolean, ADD "identity" text': [
        TableLock("things", AE)
    ]
    * 3,
    "ALTER TABLE things ADD COLUMN x integer CHECK (x > 0)": [TableLock("things", AE, Work.SCANS)],
    "ALTER TABLE things ADD x integer REFERENCES parents": [TableLock("things", AE), TableLock("parents", SRE)],
    "ALTER TABLE things ADD CONSTRAINT c CHECK (id > 0)": [TableLock("things", AE, Work.SCANS)],
    "ALTER TABLE things ADD CONSTRAINT c CHECK (id > 0) NOT VALID": [TableLock("things", AE)],
    "ALTER TABLE things ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES parents NOT VALID": [
        TableLock("things", SRE),
        TableLock("parents", SRE),
    ],
    "ALTER TABLE things VALIDATE CONSTRAINT sized": [TableLock("things", SUE, Work.SCANS)],
    "ALTER TABLE things ADD CONSTRAINT u UNIQUE USING INDEX things_id": [TableLock("things", AE)],
    "ALTER TABLE things ADD UNIQUE (id)": [TableLock("things", AE, Work.SCANS)],
    "ALTER TABLE things ALTER COLUMN size TYPE bigint": [TableLock("things", AE, Work.REWRITES)],
    "ALTER TABLE things ALTER size SET NOT NULL": [TableLock("things", AE, Work.SCANS)],
    "ALTER TABLE things ALTER size SET DEFAULT 5": [TableLock("things", AE)],
    "ALTER TABLE things SET (fillfactor = 80)": [TableLock("things", SUE)],
    "ALTER TABLE things DROP COLUMN size": [TableLock("things", AE)],
    "ALTER TABLE things RENAME COLUMN size TO weight": [TableLock("things", AE)],
    "ALTER TABLE things DISABLE TRIGGER noted": [TableLock("things", SRE)],
    "CREATE INDEX ON things (id, size)": [TableLock("things", LockMode.SHARE, Work.SCANS)],
    "CREATE UNIQUE INDEX IF NOT EXISTS more ON things (id)": [TableLock("things", LockMode.SHARE, Work.SCANS)],
    "DROP TRIGGER noted ON things": [TableLock("things", AE)],
    "CREATE TRIGGER t BEFORE UPDATE OF size ON things FOR EACH ROW EXECUTE FUNCTION nothing()": [
        TableLock("things", SRE)
    ],
    "CREATE TABLE more (id integer REFERENCES parents)": [TableLock("parents", SRE)],
    "DROP TABLE things": [TableLock("things", AE)],
    "TRUNCATE things, parents": [TableLock("things", AE), TableLock("parents", AE)],
    "LOCK TABLE things IN SHARE MODE": [TableLock("things", LockMode.SHARE)],
    "UPDATE things SET size = 2 WHERE id = 1": [TableLock("things", LockMode.ROW_EXCLUSIVE, Work.REWRITES)],
    "INSERT INTO parents SELECT id FROM things ON CONFLICT (id) DO UPDATE SET id = 1": [
        TableLock("parents", LockMode.ROW_EXCLUSIVE)
    ],
    "WITH gone AS (DELETE FROM things RETURNING id) INSERT INTO parents SELECT id FROM gone": [
        TableLock("things", LockMode.ROW_EXCLUSIVE, Work.REWRITES),
        TableLock("parents", LockMode.ROW_EXCLUSIVE),
    ],
    "COMMENT ON TABLE things IS 'DROP TABLE parents'": [TableLock("things", SUE)],
}
# Not those of system tables and of readers, nor of indexes.
TAKEN = """
SELECT class.relname, upper(regexp_replace(regexp_replace(locks.mode, 'Lock$', ''), '(?<=[a-z])(?=[A-Z])', ' ', 'g'))
FROM pg_locks locks
JOIN pg_class class ON class.oid = locks.relation
WHERE locks.pid = pg_backend_pid() AND class.relname IN ('things', 'parents')
  AND locks.mode NOT IN ('AccessShareLock', 'RowShareLock')
"""
# Another one after the table was rewritten.
FILE = "SELECT pg_relation_filenode('things')"


@pytest.mark.parametrize("sql", CASES)
def test_the_locks_of_a_statement(sql: str) -> None:
    [statement] = split_statements(sql)
    assert locks_of(statement) == CASES[sql]


async def test_postgresql_takes_these_locks_and_rewrites_these_tables(bare: Connection) -> None:
    await bare.execute(SETUP)
    strength = list(LockMode).index
    for sql, expected in CASES.items():
        transaction = bare.transaction()
        await transaction.start()
        file = await bare.fetchval(FILE)
        await bare.execute(sql)
        if sql.startswith("ALTER"):
            assert (await bare.fetchval(FILE) != file) == any(lock.work is Work.REWRITES for lock in expected), sql
        taken = {(row[0], LockMode(row[1])) for row in await bare.fetch(TAKEN)}
        await transaction.rollback()
        for lock in expected:
            if sql == "DROP TABLE things":  # no longer in pg_class
                continue
            strongest = max((mode for table, mode in taken if table == lock.table), key=strength)
            ours = max((each.mode for each in expected if each.table == lock.table), key=strength)
            assert ours == strongest, sql


def test_concurrent_forms_do_not_block_writers() -> None:
    for sql in ("CREATE INDEX CONCURRENTLY IF NOT EXISTS i ON things (id)", "DROP INDEX CONCURRENTLY IF EXISTS i"):
        [lock] = locks_of(SqlStatement(sql))
        assert lock.mode is SUE
        assert not lock.mode.blocks_writers
    [lock] = locks_of(SqlStatement("DROP INDEX i"))
    assert lock == TableLock("i", AE, is_index=True)


def test_an_unknown_statement_is_reported_as_such() -> None:
    assert locks_of(SqlStatement("DO $$ BEGIN DELETE FROM things; END $$"))[0].mode is LockMode.UNKNOWN
    assert locks_of(SqlStatement("ALTER TABLE things FROBNICATE"))[0].mode is LockMode.UNKNOWN


def test_a_file_is_split_at_semicolons_outside_of_quotes_and_comments() -> None:
    sql = """-- first; not the end
    SELECT ';', "a;b" /* ; */ ; -- second
    CREATE FUNCTION f() RETURNS integer LANGUAGE sql AS $body$ SELECT 1; -- kept
    $body$;;
    SELECT 'it''s;'"""
    first, function, last = split_statements(sql)
    assert first.text.split() == ["SELECT", "';',", '"a;b"']
    assert first.comments[0] == "first; not the end"
    assert function.comments == ("second",)
    assert "SELECT 1; -- kept" in function.text
    assert last.text == "SELECT 'it''s;'"


def test_a_block_of_code_locks_what_its_comment_says() -> None:
    [stated, unknown] = split_statements("-- brief locks: things, parents\nDO $$ BEGIN END $$; DO $$ BEGIN END $$")
    assert locks_of(stated) == [TableLock("things", AE), TableLock("parents", AE)]
    assert [lock.mode for lock in locks_of(unknown)] == [LockMode.UNKNOWN]
