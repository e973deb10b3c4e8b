"""tonne migrate --plan"""

import json

import asyncpg
import pytest

from tests.platform.db.test_migrations import bare, bare_url
from tests.support.command import output_of, refusal_of, tonne
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.migration_files import Migration, all_migrations

__all__ = ["bare", "bare_url"]


async def test_the_plan_says_what_would_run_and_changes_nothing(bare_url: str) -> None:
    planned = [
        json.loads(line) for line in output_of("migrate", "--plan", "--json", database_url=bare_url).splitlines()
    ]
    assert [each["version"] for each in planned] == [each.version for each in all_migrations()]
    assert not any(each["previous_release_can_run"] for each in planned)
    connection: Connection = await asyncpg.connect(bare_url)
    assert await connection.fetchval("SELECT to_regclass('schema_migrations')") is None
    await connection.close()


# The migration of a later release.
DUE_WEBHOOKS = """-- compatible_from: 6
DROP INDEX webhooks_due;
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL AND enabled;
ALTER TABLE webhook_parked ADD COLUMN urgent boolean NOT NULL DEFAULT false;
UPDATE webhook_parked SET urgent = true;
"""


async def test_the_plan_of_an_upgrade_has_locks_rows_and_compatibility(
    bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output_of("migrate", database_url=bare_url)
    assert output_of("migrate", "--plan", database_url=bare_url) == "Nothing to do: the schema is up to date."
    connection: Connection = await asyncpg.connect(bare_url)
    await connection.execute("UPDATE pg_class SET reltuples = 1234 WHERE relname = 'webhook_parked'")
    await connection.close()
    release = [*all_migrations(), Migration(7, "0007_due_webhooks", DUE_WEBHOOKS)]
    monkeypatch.setattr("tonne.platform.db.schema.migrate.all_migrations", lambda: release)
    [planned] = [
        json.loads(line) for line in output_of("migrate", "--plan", "--json", database_url=bare_url).splitlines()
    ]
    assert (planned["version"], planned["name"], planned["in_transaction"]) == (7, "due_webhooks", True)
    assert (planned["compatible_from"], planned["previous_release_can_run"]) == (6, True)
    assert planned["rows_rewritten"] == 1234
    # The index that is dropped is named by its table.
    assert planned["locks"] == [
        {"table": "webhook_parked", "mode": "ACCESS EXCLUSIVE", "work": "rewrites", "blocks_writers": True},
        {"table": "webhooks", "mode": "ACCESS EXCLUSIVE", "work": "scans", "blocks_writers": True},
    ]
    table = output_of("migrate", "--plan", database_url=bare_url)
    assert "webhooks: ACCESS EXCLUSIVE (scans)" in table
    assert "1,234" in table


# Each file, and what its plan says about webhooks. A statement of a file without transaction keeps no lock.
FILES = {
    "ALTER TABLE webhooks ADD COLUMN serial text;": ["ACCESS EXCLUSIVE"],
    "-- transaction: none\nALTER TABLE webhooks ADD COLUMN IF NOT EXISTS note text;\n"
    "-- repeat until it changes no row\nUPDATE webhooks SET note = '' WHERE false;": [
        "ROW EXCLUSIVE (rewrites)",
        "ACCESS EXCLUSIVE",
    ],
    "ALTER TABLE webhooks ADD COLUMN note text; UPDATE webhooks SET note = '';": ["ACCESS EXCLUSIVE (rewrites)"],
    "UPDATE webhooks SET url = url; ALTER TABLE webhooks ADD COLUMN note text;": [
        "ROW EXCLUSIVE (rewrites)",
        "ACCESS EXCLUSIVE",
    ],
    "ALTER TABLE webhooks VALIDATE CONSTRAINT webhooks_pkey, ADD COLUMN note text;": ["ACCESS EXCLUSIVE (scans)"],
}


def test_operations_9_the_plan_names_the_lock_under_which_a_statement_works(
    bare_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output_of("migrate", database_url=bare_url)
    found = {}
    for sql in FILES:
        release = [*all_migrations(), Migration(7, "0007_x", f"-- compatible_from: 6\n{sql}")]
        monkeypatch.setattr("tonne.platform.db.schema.migrate.all_migrations", lambda release=release: release)
        [planned] = json.loads(output_of("migrate", "--plan", "--json", database_url=bare_url).join("[]"))
        found[sql] = [
            lock["mode"] + ("" if lock["work"] == "brief" else f" ({lock['work']})") for lock in planned["locks"]
        ]
    assert found == FILES


def test_json_is_for_the_plan(bare_url: str) -> None:
    done = tonne("migrate", "--json", database_url=bare_url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--json and --csv need --plan." in done.stderr


async def test_migrate_waits_no_longer_than_it_is_told(bare_url: str) -> None:
    connection: Connection = await asyncpg.connect(bare_url)
    await connection.execute("SELECT pg_advisory_lock(7405610214)")
    assert "Another `tonne migrate` is still running" in refusal_of("migrate", "--wait", "0", database_url=bare_url)
    await connection.close()
