"""The limit of completing orders: asyncpg writes exactly the rows that they leave, in batches."""

import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import asyncpg

from bench.copies import column_names
from bench.life.orders import make_due
from tonne.platform.db.database import Connection
from tonne.selling.orders.model import OrderKey

# In an order that satisfies the foreign keys.
INSERTED = (
    "simulated_charges",
    "charges",
    "charge_orders",
    "parcels",
    "shares",
    "order_projects",
    "certificates",
    "events",
)
UPDATED = ("orders", "parcels", "lots", "event_streams")
# Sums over many orders, a few rows in all. The limit writes them once, at the end.
COUNTED = ("retired_totals", "retired_vintages")
# Sums that triggers and the worker keep. A round that is undone must leave nothing in them.
FOLDED = ("order_deltas", "order_totals", "account_totals", "bundle_totals")
SAVED = sorted({*INSERTED, *UPDATED, *COUNTED, *FOLDED})
# The column that connects a row to its order, or to a charge or parcel of it.
_OWNER = dict.fromkeys(INSERTED, "order_id") | {"simulated_charges": "id", "parcels": "id", "events": "subject_id"}
BATCH = 200


@contextlib.asynccontextmanager
async def save_state(connection: Connection) -> AsyncIterator[None]:
    """Save the state before the first round. `undo` returns to it."""
    for table in SAVED:
        await connection.execute(f"CREATE UNLOGGED TABLE before_{table} AS TABLE {table}")
        await connection.execute(f"ANALYZE before_{table}")
    yield
    for table in SAVED:
        await connection.execute(f"DROP TABLE before_{table}")


async def undo(connection: Connection) -> None:
    """Return to the saved state, vacuumed and on disk."""
    async with connection.transaction():
        # Without triggers, which would count what is undone, and while the worker adds nothing to the sums.
        await connection.execute("SET LOCAL session_replication_role = replica")
        await connection.execute("LOCK TABLE order_deltas IN EXCLUSIVE MODE")
        for table in FOLDED:
            await connection.execute(f"DELETE FROM {table}")
            await connection.execute(f"INSERT INTO {table} OVERRIDING SYSTEM VALUE TABLE before_{table}")
        for table in (*reversed(INSERTED), *COUNTED):
            columns = await column_names(connection, table)
            await connection.execute(f"DELETE FROM {table} AS now WHERE {_is_new(table, columns)}")
        for table in (*UPDATED, *COUNTED):
            columns = await column_names(connection, table)
            changes = ", ".join(f"{name} = before.{name}" for name, is_key in columns.items() if not is_key)
            await connection.execute(
                f"UPDATE {table} AS now SET {changes} FROM before_{table} AS before "
                f"WHERE {_same_key(columns)} AND now.* IS DISTINCT FROM before.*"
            )
    await connection.execute("VACUUM ANALYZE")
    await connection.execute("CHECKPOINT")


def _same_key(columns: Mapping[str, bool]) -> str:
    return " AND ".join(f"before.{name} = now.{name}" for name, is_key in columns.items() if is_key)


def _is_new(table: str, columns: Mapping[str, bool]) -> str:
    return f"NOT EXISTS (SELECT FROM before_{table} AS before WHERE {_same_key(columns)})"


@dataclass(slots=True)
class _Batch:
    """What 200 orders leave: new rows by table, and the last state of existing rows."""

    inserted: dict[str, list[asyncpg.Record]] = field(default_factory=lambda: {table: [] for table in INSERTED})
    orders: list[asyncpg.Record] = field(default_factory=list)
    parcels: list[asyncpg.Record] = field(default_factory=list)
    lots: dict[tuple[str, str], int] = field(default_factory=dict)
    streams: dict[tuple[str, str], tuple[int, datetime]] = field(default_factory=dict)


class _Step(NamedTuple):
    """A statement and the rows that it runs for; for new rows also their table and columns."""

    sql: str
    rows: list[tuple[Any, ...]]
    table: str = ""
    columns: Sequence[str] = ()


async def rewrite(url: str, keys: Sequence[OrderKey], *, by_copy: bool) -> float:
    """Orders per second. New rows are written by `executemany`, or by COPY.

    The rows are read, removed and prepared before the clock starts.
    """
    connection: Connection = await asyncpg.connect(url, server_settings={"jit": "off"})
    try:
        transactions = [_steps(batch) for batch in await _read_batches(connection, keys)]
        counted = {table: await connection.fetch(f"TABLE {table}") for table in COUNTED}
        await undo(connection)
        # Due as they are for the worker, but tomorrow: it must leave them to the limit.
        await make_due(connection, keys, in_s=86_400)
        started = time.perf_counter()
        for steps in transactions:
            async with connection.transaction():
                for step in steps:
                    if step.table and by_copy:
                        await connection.copy_records_to_table(step.table, records=step.rows, columns=step.columns)
                    else:
                        await connection.executemany(step.sql, step.rows)
        async with connection.transaction():
            for table, rows in counted.items():
                await connection.execute(f"TRUNCATE {table}")
                await connection.copy_records_to_table(table, records=[tuple(row) for row in rows])
        return len(keys) / (time.perf_counter() - started)
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


def _steps(batch: _Batch) -> list[_Step]:
    """The statements of one transaction. Streams come last, like in the service."""
    steps = [_insert(table, rows) for table, rows in batch.inserted.items() if rows]
    updates = (
        _Step(UPDATE_ORDERS, [tuple(row) for row in batch.orders]),
        _Step(UPDATE_PARCELS, [tuple(row) for row in batch.parcels]),
        _Step(UPDATE_LOTS, [(*lot, grams) for lot, grams in batch.lots.items()]),
        _Step(UPDATE_STREAMS, [(*stream, *last) for stream, last in batch.streams.items()]),
    )
    return [*steps, *(step for step in updates if step.rows)]


def _insert(table: str, rows: Sequence[asyncpg.Record]) -> _Step:
    columns = list(rows[0].keys())
    values = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
    sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({values})"
    return _Step(sql, [tuple(row) for row in rows], table, columns)


FINAL_ORDERS = """
SELECT orders.account_id, orders.id, orders.status, orders.status_changed_at, orders.next_attempt_at,
       orders.wire_document
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
ORDER BY orders.status_changed_at, orders.id
"""
CHANGED_PARCELS = """
SELECT now.mode, now.id, now.allocated_grams FROM parcels now
JOIN before_parcels before ON before.mode = now.mode AND before.id = now.id
WHERE now.allocated_grams <> before.allocated_grams
"""


async def _read_batches(connection: Connection, keys: Sequence[OrderKey]) -> list[_Batch]:
    """Orders in the order of their completion; each row with the first batch that needs it."""
    orders = await connection.fetch(FINAL_ORDERS, [key.account_id for key in keys], [key.id for key in keys])
    new = {table: await _new_rows(connection, table) for table in INSERTED}
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
            batches[number_of[row[_OWNER[table]]]].inserted[table].append(row)
    for parcel in await connection.fetch(CHANGED_PARCELS):
        batches[number_of[parcel["id"]]].parcels.append(parcel)
    _add_counters(batches)
    return batches


async def _new_rows(connection: Connection, table: str) -> list[asyncpg.Record]:
    columns = await column_names(connection, table)
    return await connection.fetch(f"SELECT {', '.join(columns)} FROM {table} AS now WHERE {_is_new(table, columns)}")


def _add_counters(batches: Sequence[_Batch]) -> None:
    """The counters of lots and streams after each batch."""
    lots: dict[tuple[str, str], int] = {}
    streams: dict[tuple[str, str], tuple[int, datetime]] = {}
    for batch in batches:
        for parcel in batch.inserted["parcels"]:
            lot, end_grams = (parcel["mode"], parcel["lot_id"]), parcel["start_grams"] + parcel["quantity_grams"]
            batch.lots[lot] = lots[lot] = max(end_grams, lots.get(lot, 0))
        for event in batch.inserted["events"]:
            stream, last = (event["organisation_id"], event["mode"]), (event["position"], event["sequence"])
            batch.streams[stream] = streams[stream] = max(last, streams.get(stream, last))
