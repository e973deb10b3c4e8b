"""Millions of old orders with their lines, by COPY from a query into COPY to the table.

The rows bypass the write-ahead log and are frozen: nothing is written twice. PostgreSQL needs `wal_level = minimal` for
that, and the tables truncated in the same transaction, so their other rows are saved and copied back.
"""

import asyncio
import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence

import psutil

from bench.copies import (
    OF_THE_COPY,
    OrderTemplate,
    column_names,
    literal,
    order_changes,
    read_template,
)
from bench.environment import Environment
from bench.recount import count_copied_orders
from bench.report import NotMeasured
from bench.tenants import Tenant
from tonne.platform.db.database import Connection
from tonne.platform.db.server.postmaster import postgres_binaries, postgres_environment

# The first orders belong to one tenant, so that its list has a thousand pages of ten.
OF_FIRST_TENANT = 10_000
TABLES = ("orders", "order_lines")
_BUFFERS_MB = 2048
_LOADING = (
    "wal_level = minimal",
    "max_wal_senders = 0",
    "fsync = off",
    "full_page_writes = off",
    "autovacuum = off",
    "checkpoint_timeout = '1h'",
)


async def add_old_orders(environment: Environment, count: int) -> None:
    """Add cancelled orders, numbered from 1 on, with their lines and without events."""
    if not count:
        return
    async with _loading(environment):
        started = time.monotonic()
        async with environment.connection() as connection:
            order = await read_template(connection, "cancelled")
            await _plan(connection, environment, count)
            queries = {table: await _rows(connection, table, order) for table in TABLES}
            async with _without_foreign_keys(connection):
                await asyncio.gather(*(_copy(environment, table, *queries[table]) for table in TABLES))
            for table in TABLES:
                await connection.execute(f"DROP TABLE bench_saved_{table}")
            await connection.execute("DROP VIEW bench_old; DROP TABLE bench_slots")
            await count_copied_orders(connection)
            # Frozen pages are skipped: this is mostly ANALYZE.
            await connection.execute(f"VACUUM ANALYZE {', '.join(TABLES)}")
        took_s = time.monotonic() - started
        print(f"{count:,} orders in {took_s:.0f} s: {count / took_s:,.0f} per second.", file=sys.stderr)


def tenant_of(environment: Environment, number: int) -> Tenant:
    """The tenant of a generated order."""
    tenants = environment.tenants
    return tenants[0] if number <= OF_FIRST_TENANT else tenants[number % len(tenants)]


@contextlib.asynccontextmanager
async def _loading(environment: Environment) -> AsyncIterator[None]:
    """Stop the server, and let PostgreSQL write no log. Afterwards it has its defaults, and all is on disk."""
    environment.server.stop()
    buffers_mb = min(_BUFFERS_MB, psutil.virtual_memory().total // 2**20 // 8)
    async with environment.connection() as connection:
        for setting in (*_LOADING, f"shared_buffers = '{buffers_mb}MB'"):
            await connection.execute(f"ALTER SYSTEM SET {setting}")
    await environment.postgres.close()
    await environment.postgres.start()
    yield
    async with environment.connection() as connection:
        await connection.execute("ALTER SYSTEM RESET ALL")
        # It may take minutes, and `close` waits for one minute only.
        await connection.execute("CHECKPOINT")
    # Without fsync PostgreSQL leaves the writing to the operating system.
    await environment.postgres.close()
    await asyncio.to_thread(os.sync)
    await environment.postgres.start()
    environment.start_server()


CREATE_SLOTS = "CREATE TABLE bench_slots (place bigint, organisation_id text, account_id text, estimate_id text)"
# The same values as in `bench_copies`, made while they are read.
CREATE_VIEW = """
CREATE VIEW bench_old AS
SELECT number, slot.organisation_id, slot.account_id, slot.estimate_id,
       'ord_' || lpad(number::text, 26, '0') AS order_id, left(md5(number::text), 24) AS key, created_at,
       to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS created_at_text
FROM (SELECT number, '{start}'::timestamptz + number * interval '{interval_ms} ms' AS created_at
      FROM generate_series(1::bigint, {count}::bigint) AS number) copy
JOIN bench_slots slot ON slot.place = CASE WHEN number <= {of_first} THEN 0 ELSE number % {tenants} END
"""


async def _plan(connection: Connection, environment: Environment, count: int) -> None:
    tenants = environment.tenants
    slots = [
        (place, tenant.scope.organisation_id, tenant.scope.account_id, tenant.estimate_id)
        for place, tenant in enumerate(tenants)
    ]
    await connection.execute(CREATE_SLOTS)
    await connection.copy_records_to_table("bench_slots", records=slots)
    start = await connection.fetchval("SELECT date_trunc('second', now()) - interval '30 days'")
    interval_ms = environment.copy_interval_ms
    view = {"start": start, "interval_ms": interval_ms, "count": count, "of_first": OF_FIRST_TENANT}
    await connection.execute(CREATE_VIEW.format(**view, tenants=len(tenants)))


async def _rows(connection: Connection, table: str, order: OrderTemplate) -> tuple[str, str]:
    """The columns of a table, and the query for the rows that it has now, and for those of the copies."""
    await connection.execute(f"CREATE TABLE bench_saved_{table} AS TABLE {table}")
    columns = list(await column_names(connection, table))
    if table == "orders":
        changes = order_changes(order)
        template = f"template.account_id = {literal(order.account_id)} AND template.id = {literal(order.id)}"
    else:
        changes, template = OF_THE_COPY, order.rows
    names = ", ".join(columns)
    values = ", ".join(changes.get(name, f"template.{name}") for name in columns)
    query = (
        f"SELECT {names} FROM bench_saved_{table} UNION ALL "
        f"SELECT {values} FROM bench_old copy CROSS JOIN bench_saved_{table} template WHERE {template}"
    )
    return names, query


FOREIGN_KEYS = """
SELECT conrelid::regclass::text AS table, conname, pg_get_constraintdef(oid) AS definition FROM pg_constraint
WHERE contype = 'f' AND conparentid = 0
  AND (conrelid = ANY ($1::text[]::regclass[]) OR confrelid = ANY ($1::text[]::regclass[]))
"""
MARK_VALID = "UPDATE pg_constraint SET convalidated = true WHERE conrelid = $1::text::regclass AND conname = $2"


@contextlib.asynccontextmanager
async def _without_foreign_keys(connection: Connection) -> AsyncIterator[None]:
    """A referenced table cannot be truncated. The rows are correct by construction, so the keys are not validated."""
    found = await connection.fetch(FOREIGN_KEYS, TABLES)
    for row in found:
        await connection.execute(f'ALTER TABLE {row["table"]} DROP CONSTRAINT "{row["conname"]}"')
    yield
    for row in found:
        definition = f"{row['definition'].removesuffix(' NOT VALID')} NOT VALID"
        await connection.execute(f'ALTER TABLE {row["table"]} ADD CONSTRAINT "{row["conname"]}" {definition}')
        await connection.execute(MARK_VALID, row["table"], row["conname"])


async def _copy(environment: Environment, table: str, names: str, query: str) -> None:
    """Two processes: one makes the rows, the other inserts them."""
    source = _psql(environment, "SET jit = off", f"COPY ({query}) TO STDOUT (FORMAT binary)")
    target = _psql(
        environment,
        "SET session_replication_role = replica",
        f"TRUNCATE {table}",
        f"COPY {table} ({names}) FROM STDIN (FORMAT binary, FREEZE)",
    )
    process = await asyncio.create_subprocess_shell(
        f"set -o pipefail; {shlex.join(source)} | {shlex.join(target)}",
        executable="/bin/bash",
        env=postgres_environment(),
        stderr=subprocess.PIPE,
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise NotMeasured(f"The rows of {table} could not be copied: {errors.decode()[-2000:]}")


def _psql(environment: Environment, *statements: str) -> Sequence[str]:
    """The statements in one transaction."""
    options = ("--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--dbname", environment.url)
    commands = (part for statement in statements for part in ("--command", statement))
    return [str(postgres_binaries() / "psql"), *options, *commands]
