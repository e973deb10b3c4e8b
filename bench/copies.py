"""Fast filling of tables with copies of rows that the service wrote, each with its own ids, keys and times."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from asyncpg import Record

from bench.environment import Environment
from bench.recount import count_copied_orders
from bench.tenants import Tenant
from tonne.platform.db.database import Connection
from tonne.platform.values.context import to_wire

# From this number of copies on, building the indexes afterwards is faster than maintaining them.
BULK = 50_000
EVENTS_PER_ORDER = 2
OF_THE_COPY = {"account_id": "copy.account_id", "order_id": "copy.order_id"}
CREATE_COPIES = """
CREATE UNLOGGED TABLE bench_copies (
    number bigint, organisation_id text, account_id text, estimate_id text, order_id text, key text,
    created_at timestamptz, created_at_text text, before_position bigint, before_sequence timestamptz
)
"""
# Ids sort in the order of creation and keys in no order, like real ones.
PLAN_COPIES = """
INSERT INTO bench_copies (number, organisation_id, account_id, estimate_id, order_id, key, created_at, created_at_text,
                          before_position, before_sequence)
SELECT number, slot.organisation_id, slot.account_id, slot.estimate_id, 'ord_' || lpad(number::text, 26, '0'),
       left(md5(number::text), 24), created_at,
       to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
       stream.last_position + before, stream.last_sequence + before * interval '1 ms'
FROM (SELECT number, date_trunc('second', now()) - interval '30 days' + number * $8::bigint * interval '1 ms'
                 AS created_at,
             $6::bigint * ((number - $4::bigint) / cardinality($1::text[])) AS before
      FROM generate_series($4::bigint, $5::bigint) AS number) copy
JOIN unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY
     AS slot (organisation_id, account_id, estimate_id, place) ON slot.place = 1 + number % cardinality($1::text[])
JOIN event_streams stream ON stream.organisation_id = slot.organisation_id AND stream.mode = $7
"""
ADVANCE_STREAMS = """
UPDATE event_streams stream
SET last_position = last_position + $1::bigint * added,
    last_sequence = last_sequence + $1::bigint * added * interval '1 ms'
FROM (SELECT organisation_id, count(*) AS added FROM bench_copies GROUP BY organisation_id) copies
WHERE stream.organisation_id = copies.organisation_id AND stream.mode = $2
"""


@contextlib.asynccontextmanager
async def copying(
    environment: Environment, tenants: Sequence[Tenant], count: int, *, events_each: int, tables: Sequence[str]
) -> AsyncIterator[tuple[Connection, Connection]]:
    """Two connections, and a table `bench_copies` with the values of `count` copies, for `tenants` in turn.

    Afterwards the streams have moved on, and `tables` are vacuumed, analysed and on disk.
    """
    first, mode = environment.copied + 1, tenants[0].scope.mode
    environment.copied += count
    async with environment.connection() as one, environment.connection() as two, without_flushing(one):
        for connection in (one, two):
            # Skip the foreign key triggers: the copies are correct by construction.
            await connection.execute("SET session_replication_role = replica")
        await one.execute(CREATE_COPIES)
        columns = [(tenant.scope.organisation_id, tenant.scope.account_id, tenant.estimate_id) for tenant in tenants]
        numbers = (first, first + count - 1, events_each)
        values = (*map(list, zip(*columns, strict=True)), *numbers, mode, environment.copy_interval_ms)
        await one.execute(PLAN_COPIES, *values)
        await one.execute("ANALYZE bench_copies")
        async with without_indexes(one, two, tables if count >= BULK else ()):
            yield one, two
        await one.execute(ADVANCE_STREAMS, events_each, mode)
        await one.execute("DROP TABLE bench_copies")
        if "orders" in tables:
            await count_copied_orders(one)
        await asyncio.gather(
            one.execute(f"VACUUM ANALYZE event_streams, {', '.join(tables[::2])}"),
            two.execute(f"VACUUM ANALYZE {', '.join(tables[1::2] or tables)}"),
        )


@contextlib.asynccontextmanager
async def without_flushing(connection: Connection) -> AsyncIterator[None]:
    """Turn off fsync. On exit all data is on disk: no writes are left for a later measurement.

    PostgreSQL keeps used segments of the log as spare ones, so a larger log would take disk space until the end.
    """
    for setting in ("fsync = off", "full_page_writes = off", "autovacuum = off", "max_wal_size = '4GB'"):
        await connection.execute(f"ALTER SYSTEM SET {setting}")
    await connection.execute("SELECT pg_reload_conf()")
    yield
    await connection.execute("ALTER SYSTEM RESET ALL")
    await connection.execute("SELECT pg_reload_conf()")
    await connection.execute("CHECKPOINT")
    await asyncio.to_thread(os.sync)


# Foreign keys depend on unique indexes, so they are dropped first and added last.
CONSTRAINTS = """
SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) AS drop_it,
       format('ALTER TABLE %s ADD CONSTRAINT %I %s', conrelid::regclass, conname, pg_get_constraintdef(oid)) AS make_it,
       contype = 'f' AS is_foreign
FROM pg_constraint
WHERE (conrelid = ANY ($1::text[]::regclass[])
       OR conrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY ($1::text[]::regclass[])))
  AND contype IN ('f', 'p', 'u')
   OR confrelid = ANY ($1::text[]::regclass[]) AND contype = 'f'
ORDER BY contype = 'f' DESC
"""
INDEXES = """
SELECT format('DROP INDEX %s', indexrelid::regclass) AS drop_it, pg_get_indexdef(indexrelid) AS make_it,
       false AS is_foreign
FROM pg_index
WHERE (indrelid = ANY ($1::text[]::regclass[])
       OR indrelid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = ANY ($1::text[]::regclass[])))
  AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND conrelid = indrelid)
"""


@contextlib.asynccontextmanager
async def without_indexes(one: Connection, two: Connection, tables: Sequence[str]) -> AsyncIterator[None]:
    """Build the indexes after loading, on both connections in parallel: far faster than row by row."""
    found = [*await one.fetch(CONSTRAINTS, tables), *await one.fetch(INDEXES, tables)]
    for row in found:
        await one.execute(row["drop_it"])
    yield
    waiting = [row["make_it"] for row in found if not row["is_foreign"]]
    await asyncio.gather(_build(one, waiting), _build(two, waiting))
    if tables:
        # Without statistics, the check of a foreign key may read one table for every row of the other.
        await one.execute(f"ANALYZE {', '.join(tables)}")
    await _build(one, [row["make_it"] for row in found if row["is_foreign"]])


async def _build(connection: Connection, waiting: list[str]) -> None:
    await connection.execute("SET maintenance_work_mem = '384MB'; SET max_parallel_maintenance_workers = 0")
    while waiting:
        await connection.execute(waiting.pop())


# The partitions of a partitioned table have the primary key.
COLUMNS = """
SELECT attname, coalesce(attnum = ANY (indkey::smallint[]), false) AS is_key
FROM pg_attribute
LEFT JOIN pg_index ON indrelid = coalesce(to_regclass($1::text || '_default'), attrelid) AND indisprimary
WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
ORDER BY attnum
"""


async def column_names(connection: Connection, table: str) -> dict[str, bool]:
    """The columns that can be written, and whether each is part of the primary key.

    Read from the catalogue, so that a new column needs no change here.
    """
    return {row["attname"]: row["is_key"] for row in await connection.fetch(COLUMNS, table)}


async def copy_rows(
    connection: Connection, table: str, templates: str, changes: Mapping[str, str], *, joined: str = ""
) -> None:
    """For each copy, insert the rows that match `templates`, with SQL expressions over `copy` for some columns.

    `joined` joins further tables, for the expressions.
    """
    names = list(await column_names(connection, table))
    values = [changes.get(name, f"template.{name}") for name in names]
    await connection.execute(
        f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(values)} "
        f"FROM bench_copies copy CROSS JOIN {table} template {joined} WHERE {templates}"
    )


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def text_of(template: str, values: Sequence[tuple[str, str]]) -> str:
    """An SQL expression for `template` with each of these values, in this order, replaced by an expression."""
    parts = []
    for value, expression in values:
        before, found, template = template.partition(value)
        if not found:
            raise ValueError(f"The document does not contain {value} where expected. Has its form changed?")
        parts += [literal(before), expression]
    return " || ".join([*parts, literal(template)])


@dataclass(frozen=True, slots=True)
class OrderTemplate:
    account_id: str
    id: str
    idempotency_key: str
    created_at: str
    estimate_id: str
    document: str

    @property
    def rows(self) -> str:
        """The condition for the rows of this order in other tables."""
        return f"template.account_id = {literal(self.account_id)} AND template.order_id = {literal(self.id)}"

    @property
    def values(self) -> list[tuple[str, str]]:
        """The values of its own in the document, in order. The link to a certificate repeats the id."""
        own_id = (self.id, "copy.order_id")
        repeated = [own_id] * (self.document.count(self.id) - 1)
        created_at = (self.created_at, "copy.created_at_text")
        return [
            own_id,
            (self.idempotency_key, "copy.key"),
            created_at,
            *repeated,
            (self.estimate_id, "copy.estimate_id"),
        ]


NEWEST_ORDER = """
SELECT account_id, id, idempotency_key, estimate_id, created_at, wire_document FROM orders
WHERE status = $1 ORDER BY id DESC LIMIT 1
"""


async def read_template(connection: Connection, status: str) -> OrderTemplate:
    """The order with the highest id. Ids of copies start with zeros, so this one was written by the service."""
    row = await connection.fetchrow(NEWEST_ORDER, status)
    if row is None:
        raise LookupError("there is no order to copy yet")
    document = row["wire_document"].decode()
    created_at = to_wire(row["created_at"])
    return OrderTemplate(
        row["account_id"], row["id"], row["idempotency_key"], created_at, row["estimate_id"], document=document
    )


def order_changes(order: OrderTemplate) -> dict[str, str]:
    """What a copy of the order has of its own, by column."""
    return {
        **{name: f"copy.{name}" for name in ("account_id", "organisation_id", "estimate_id", "created_at")},
        "id": "copy.order_id",
        "idempotency_key": "copy.key",
        "request_digest": "sha256(int8send(copy.number))",
        "status_changed_at": "copy.created_at",
        "next_attempt_at": "NULL",
        "wire_document": f"convert_to({text_of(order.document, order.values)}, 'UTF8')",
    }


async def copy_order(connection: Connection, order: OrderTemplate) -> None:
    """Copy the order and its lines."""
    condition = f"template.account_id = {literal(order.account_id)} AND template.id = {literal(order.id)}"
    await copy_rows(connection, "orders", condition, order_changes(order))
    await copy_rows(connection, "order_lines", order.rows, OF_THE_COPY)


async def copy_event(connection: Connection, event: Record, step: int = 1, order: OrderTemplate | None = None) -> None:
    """Copy an event as the `step`-th event of each copy; with `order`, as an event of the copied order.

    The compressed document is copied as it is: only the columns have ids of their own.
    """
    event_id = f"'evt_' || lpad('{step}' || lpad(copy.number::text, 20, '0'), 26, '0')"
    changes = {
        "organisation_id": "copy.organisation_id",
        "account_id": "copy.account_id",
        "position": f"copy.before_position + {step}",
        "sequence": f"copy.before_sequence + {step} * interval '1 ms'",
        "id": event_id,
        **({"subject_id": "copy.order_id"} if order else {}),
    }
    organisation_id = literal(event["organisation_id"])
    condition = f"template.organisation_id = {organisation_id} AND template.mode = {literal(event['mode'])}"
    await copy_rows(connection, "events", f"{condition} AND template.position = {event['position']}", changes)


EVENTS_OF_ORDER = """
SELECT organisation_id, mode, position, account_id, id, sequence FROM events
WHERE account_id = $1 AND subject_id = $2 ORDER BY position
"""


async def copy_orders(environment: Environment, tenants: Sequence[Tenant], count: int) -> None:
    """Add `count` placed orders with their lines and events, to `tenants` in turn."""
    tables = ("orders", "events", "order_lines")
    async with copying(environment, tenants, count, events_each=EVENTS_PER_ORDER, tables=tables) as (one, two):
        order = await read_template(one, "placed")
        events = await one.fetch(EVENTS_OF_ORDER, order.account_id, order.id)

        async def copy_events() -> None:
            for step, event in enumerate(events, 1):
                await copy_event(two, event, step, order)

        await asyncio.gather(copy_order(one, order), copy_events())
