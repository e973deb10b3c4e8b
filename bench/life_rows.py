"""The limit of an order's life: exactly the rows that it leaves, written by asyncpg in batches and nothing else."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg
import uvloop

from bench.life_scene import make_due
from tonne.db.pool import Connection
from tonne.orders.load_orders import OrderKey

# In an order in which foreign keys are satisfied.
INSERTED = ("simulated_charges", "charges", "parcels", "shares", "order_projects", "certificates", "events")
UPDATED = ("orders", "parcels", "lots", "event_streams")
# Sums over many orders, a few rows in all: the limit writes them once, in the end.
COUNTED = "retired_totals"
KEPT = sorted({*INSERTED, *UPDATED, COUNTED})
# What tells to which order a row of these tables belongs.
_BELONGS_TO = dict.fromkeys(INSERTED, "order_id") | {"simulated_charges": "id", "parcels": "id", "events": "subject_id"}
BATCH = 200


@dataclass(frozen=True, slots=True)
class Rewrite:
    url: str
    # Those that the round was about.
    keys: Sequence[OrderKey]
    # New rows by COPY rather than by `executemany`.
    by_copy: bool


async def remember(connection: Connection) -> None:
    """Keep the state before the first round: every round begins with it."""
    for table in KEPT:
        await connection.execute(f"CREATE UNLOGGED TABLE before_{table} AS TABLE {table}")
        await connection.execute(f"ANALYZE before_{table}")


async def forget(connection: Connection) -> None:
    for table in KEPT:
        await connection.execute(f"DROP TABLE before_{table}")


# Made from the catalogue, so that they stay complete when a table gets another column.
MAKE_STATEMENTS = """
SELECT format('INSERT INTO %1$I (%2$s) VALUES (%3$s)', $1::text, string_agg(quote_ident(attname), ', ' ORDER BY attnum),
              string_agg('$' || place, ', ' ORDER BY attnum)) AS insert_it,
       format('SELECT %2$s FROM %1$I AS now WHERE NOT EXISTS (SELECT FROM %3$I AS before WHERE %4$s)', $1::text,
              string_agg(quote_ident(attname), ', ' ORDER BY attnum), 'before_' || $1::text,
              string_agg(format('before.%1$I = now.%1$I', attname), ' AND ') FILTER (WHERE is_key)) AS find_new,
       format('DELETE FROM %1$I AS now WHERE NOT EXISTS (SELECT FROM %2$I AS before WHERE %3$s)', $1::text,
              'before_' || $1::text,
              string_agg(format('before.%1$I = now.%1$I', attname), ' AND ') FILTER (WHERE is_key)) AS take_back_new,
       format('UPDATE %1$I AS now SET %2$s FROM %3$I AS before WHERE %4$s AND now.* IS DISTINCT FROM before.*',
              $1::text, string_agg(format('%1$I = before.%1$I', attname), ', ') FILTER (WHERE NOT is_key),
              'before_' || $1::text,
              string_agg(format('before.%1$I = now.%1$I', attname), ' AND ') FILTER (WHERE is_key)) AS take_back_changed
FROM (SELECT attname, attnum, row_number() OVER (ORDER BY attnum) AS place, attnum = ANY (indkey::smallint[]) AS is_key
      FROM pg_attribute JOIN pg_index ON indrelid = attrelid AND indisprimary
      WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '') columns
"""


async def _statements(connection: Connection, table: str) -> asyncpg.Record:
    row = await connection.fetchrow(MAKE_STATEMENTS, table)
    if row is None:
        raise LookupError(f"there is no table {table}")
    return row


async def take_back(connection: Connection) -> None:
    """Bring every table back to what `remember` has kept, and leave it as a database at rest leaves it."""
    async with connection.transaction():
        for table in (*reversed(INSERTED), COUNTED):
            await connection.execute((await _statements(connection, table))["take_back_new"])
        for table in (*UPDATED, COUNTED):
            await connection.execute((await _statements(connection, table))["take_back_changed"])
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")


@dataclass(slots=True)
class _Batch:
    """What 200 orders leave: new rows by table, and the last state of rows that were there."""

    inserted: dict[str, list[asyncpg.Record]] = field(default_factory=lambda: {table: [] for table in INSERTED})
    orders: list[asyncpg.Record] = field(default_factory=list)
    parcels: list[asyncpg.Record] = field(default_factory=list)
    lots: dict[tuple[str, str], int] = field(default_factory=dict)
    streams: dict[tuple[str, str], tuple[int, datetime]] = field(default_factory=dict)


class _Step(NamedTuple):
    """One statement and the rows that it is run for; for new rows also where they belong."""

    sql: str
    rows: list[tuple[Any, ...]]
    table: str = ""
    columns: Sequence[str] = ()


def rewrite(work: Rewrite) -> float:
    """Orders a second. The rows are read, taken back and made ready before the clock starts."""
    return uvloop.run(_rewrite(work))


async def _rewrite(work: Rewrite) -> float:
    connection: Connection = await asyncpg.connect(work.url, server_settings={"jit": "off"})
    try:
        inserts = {table: (await _statements(connection, table))["insert_it"] for table in INSERTED}
        transactions = [_steps(batch, inserts) for batch in await _read_batches(connection, work.keys)]
        counted = await connection.fetch("TABLE retired_totals")
        await take_back(connection)
        # As the worker finds them, except that nobody takes them up: it is the limit that writes now.
        await make_due(connection, work.keys, in_s=86_400)
        started = time.perf_counter()
        for steps in transactions:
            async with connection.transaction():
                for step in steps:
                    if step.table and work.by_copy:
                        await connection.copy_records_to_table(step.table, records=step.rows, columns=step.columns)
                    else:
                        await connection.executemany(step.sql, step.rows)
        async with connection.transaction():
            await connection.execute("TRUNCATE retired_totals")
            await connection.copy_records_to_table(COUNTED, records=[tuple(row) for row in counted])
        return len(work.keys) / (time.perf_counter() - started)
    finally:
        await connection.close()


UPDATE_ORDERS = """
UPDATE orders SET status = $3, status_changed_at = $4, next_attempt_at = $5, wire_document = $6
WHERE account_id = $1 AND id = $2
"""
UPDATE_PARCELS = "UPDATE parcels SET allocated_grams = $3 WHERE mode = $1 AND id = $2"
UPDATE_LOTS = "UPDATE lots SET allocated_grams = $3 WHERE mode = $1 AND id = $2"
UPDATE_STREAMS = """
UPDATE event_streams SET last_position = $3, last_sequence = $4 WHERE organisation_id = $1 AND mode = $2
"""


def _steps(batch: _Batch, inserts: Mapping[str, str]) -> list[_Step]:
    """The statements of one transaction. Streams come last, as in the service: they are what others wait for."""
    steps = [
        _Step(inserts[table], [tuple(row) for row in rows], table, list(rows[0].keys()))
        for table, rows in batch.inserted.items()
        if rows
    ]
    changed = (
        _Step(UPDATE_ORDERS, [tuple(row) for row in batch.orders]),
        _Step(UPDATE_PARCELS, [tuple(row) for row in batch.parcels]),
        _Step(UPDATE_LOTS, [(*lot, grams) for lot, grams in batch.lots.items()]),
        _Step(UPDATE_STREAMS, [(*stream, *last) for stream, last in batch.streams.items()]),
    )
    return [*steps, *(step for step in changed if step.rows)]


FINAL_ORDERS = """
SELECT orders.account_id, orders.id, orders.status, orders.status_changed_at, orders.next_attempt_at,
       orders.wire_document
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN orders ON orders.account_id = wanted.account_id AND orders.id = wanted.id
ORDER BY orders.status_changed_at, orders.id
"""
CHANGED_PARCELS = """
SELECT now.mode, now.id, now.allocated_grams FROM parcels now
JOIN before_parcels before ON before.mode = now.mode AND before.id = now.id
WHERE now.allocated_grams <> before.allocated_grams
"""


async def _read_batches(connection: Connection, keys: Sequence[OrderKey]) -> list[_Batch]:
    """Orders in the order in which they were completed; each row with the first batch that needs it."""
    orders = await connection.fetch(FINAL_ORDERS, [key.account_id for key in keys], [key.id for key in keys])
    new = {table: await connection.fetch((await _statements(connection, table))["find_new"]) for table in INSERTED}
    number_of = {order["id"]: place // BATCH for place, order in enumerate(orders)}
    for charge in new["charges"]:
        number_of[charge["id"]] = number_of[charge["order_id"]]
    for share in new["shares"]:
        number = number_of[share["order_id"]]
        number_of[share["parcel_id"]] = min(number, number_of.get(share["parcel_id"], number))
    batches = [_Batch() for _ in range(0, len(orders), BATCH)]
    for order in orders:
        batches[number_of[order["id"]]].orders.append(order)
    for table, rows in new.items():
        for row in rows:
            batches[number_of[row[_BELONGS_TO[table]]]].inserted[table].append(row)
    for parcel in await connection.fetch(CHANGED_PARCELS):
        batches[number_of[parcel["id"]]].parcels.append(parcel)
    _count(batches)
    return batches


def _count(batches: Sequence[_Batch]) -> None:
    """How far lots and streams have got after each batch."""
    lots: dict[tuple[str, str], int] = {}
    streams: dict[tuple[str, str], tuple[int, datetime]] = {}
    for batch in batches:
        for parcel in batch.inserted["parcels"]:
            lot, end_grams = (parcel["mode"], parcel["lot_id"]), parcel["start_grams"] + parcel["quantity_grams"]
            batch.lots[lot] = lots[lot] = max(end_grams, lots.get(lot, 0))
        for event in batch.inserted["events"]:
            stream, last = (event["organisation_id"], event["mode"]), (event["position"], event["sequence"])
            batch.streams[stream] = streams[stream] = max(last, streams.get(stream, last))
