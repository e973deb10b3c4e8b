"""Bytes on disk per complete order: tables, TOAST and indexes, before and after `tonne reindex`, and in archives."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from bench.delivery.receivers import start_receivers
from bench.delivery.webhooks import Delivery, Hook
from bench.environment import Environment, Worker
from bench.life.orders import LEFT_TO_DO, Orders, open_life
from bench.pace import DiskPace
from bench.report import Goal, Result
from tests.support.processes import HOST
from tonne.apps.privacy.retention.archive_file import ArchiveWriter, read_lines
from tonne.platform.db.database import Connection
from tonne.platform.db.schema.partitions import EVENTS, list_partitions
from tonne.platform.db.schema.reindex import list_indexes, rebuild
from tonne.platform.events.store import ALWAYS
from tonne.platform.values.context import utc_now
from tonne.selling.orders.model import OrderKey

LIMIT_KB = 13.0
GOAL = Goal(reach=1.0, at_most=True)
# Rows that are removed: after 30 days, or, of `order_deltas`, when they are added to the totals.
SHORT_LIVED = frozenset({"api_requests", "webhook_attempts", "order_deltas"})
# Of the simulated gateway.
TEST_ONLY = frozenset({"simulated_charges"})
# Documents that the law demands, and their files: per document, because orders may share one.
FILES, QUEUE = "tax_document_files", "unrendered_documents"
DOCUMENTS = frozenset({"tax_documents", FILES, QUEUE, "einvoice_deliveries"})
# The worker renders with a small share of the CPU: all files of a run would take an hour. This many are enough.
_FILES_AT_LEAST = 100
# Tables below this share of an order are summed up as `others`.
_SHOWN_KB = 0.05
_CONNECTIONS = 16
_ACCOUNTS = 3
_PLACE_FOR_S = 0.1

COUNT_DOCUMENTS = """
SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (SELECT FROM unrendered_documents WHERE document_id = id))
FROM tax_documents
"""
# Documents are issued a moment after the payment.
LACKS_FILES = f"""
SELECT count(*) FILTER (WHERE format = 'pdf') < {_FILES_AT_LEAST} FROM tax_document_files
"""
ALL_ORDERS = "SELECT account_id, id FROM orders"
# Bytes of write-ahead log since the server was created.
WRITTEN = "SELECT pg_current_wal_insert_lsn() - '0/0'"


@dataclass(frozen=True, slots=True)
class Size:
    """Bytes of a table, its TOAST and its indexes."""

    heap: int
    toast: int
    indexes: int

    @property
    def total(self) -> int:
        return self.heap + self.toast + self.indexes

    def __sub__(self, other: "Size") -> "Size":
        return Size(self.heap - other.heap, self.toast - other.toast, self.indexes - other.indexes)


async def disk_per_order(pace: DiskPace) -> list[Result]:
    """Orders of the API, paid by card, complete, certified and delivered to a webhook of their organisation.

    They belong to few accounts, so that the pages of indexes fill as they do in a large installation. They come in
    waves, and the tables are vacuumed after each, as autovacuum does when a fifth of the rows are dead: an order is
    updated three times. What the environment needs before the first order does not count. No checkpoint is forced
    between the waves: every page that is changed after one is written to the log as a whole.
    """
    async with open_life() as orders:
        environment = orders.environment
        async with _delivering(orders) as (delivery, hooks):
            await environment.vacuum()
            async with environment.connection() as connection:
                before, wal_before = await read_sizes(connection), await connection.fetchval(WRITTEN)
                for _ in range(pace.waves):
                    _place(environment, pace.wave_orders)
                    await environment.wait_while(LEFT_TO_DO)
                    await delivery.wait_until_delivered(hooks)
                    await connection.execute("VACUUM ANALYZE")
                await environment.wait_while(LACKS_FILES)
                wal_bytes = await connection.fetchval(WRITTEN) - wal_before
                grown = _subtract(await read_sizes(connection), before)
                keys = [OrderKey(*row) for row in await connection.fetch(ALL_ORDERS)]
        await orders.require_complete(keys)
        async with environment.connection() as connection:
            async for _ in rebuild(connection, await list_indexes(connection, 0, ())):
                pass
            rebuilt = _subtract(await read_sizes(connection), before)
            [(documents, with_files)] = await connection.fetch(COUNT_DOCUMENTS)
            archived = await _archive_per_event(connection, environment.folder)
        await environment.require_consistent()
    of_documents = _of_documents(rebuilt, documents, with_files, len(keys))
    return [*_results(grown, rebuilt, int(wal_bytes), len(keys)), *of_documents, archived]


def _of_documents(sizes: dict[str, Size], documents: int, with_files: int, orders: int) -> list[Result]:
    """A document that waits for its files counts with those of an average one."""
    rows = sum(sizes[name].total for name in DOCUMENTS - {FILES, QUEUE})
    kb = (rows / documents + sizes[FILES].total / with_files) / 1000
    return [
        Result("disk_per_document", kb, "KB", LIMIT_KB),
        Result("disk_documents_per_order", kb * documents / orders, "KB", LIMIT_KB),
        Result("disk_documents_with_files", with_files / documents, "of all", 1.0),
    ]


async def _archive_per_event(connection: Connection, folder: Path) -> Result:
    """As the worker archives a month; the limit is the length of its line before it is compressed."""
    async with connection.transaction():
        last = (await list_partitions(connection, EVENTS))[-1]
        writer = ArchiveWriter(folder, EVENTS, last)
        plain = 0
        async for lines in read_lines(connection, EVENTS, ALWAYS, last.end):
            writer.write(lines)
            plain += sum(map(len, lines)) + len(lines)
    writer.verify()
    found = writer.finish(utc_now())
    return Result("archive_per_event", found.byte_count / found.row_count, "bytes", plain / found.row_count)


def _subtract(after: dict[str, Size], before: dict[str, Size]) -> dict[str, Size]:
    return {name: size - before.get(name, Size(0, 0, 0)) for name, size in after.items()}


def _place(environment: Environment, count: int) -> None:
    placed = 0
    while placed < count:
        requests = environment.create_requests(environment.tenants[:_ACCOUNTS])
        placed += environment.run_load(requests, connections=_CONNECTIONS, seconds=_PLACE_FOR_S).answered


@contextlib.asynccontextmanager
async def _delivering(orders: Orders) -> AsyncIterator[tuple[Delivery, list[Hook]]]:
    environment = orders.environment
    delivery = Delivery(environment, [])
    with start_receivers(len(environment.tenants), delivery.ca_file) as delivery.receivers:
        async with delivery.hooks(environment.tenants) as hooks, _worker(environment, delivery):
            yield delivery, hooks


def _worker(environment: Environment, delivery: Delivery) -> contextlib.AbstractAsyncContextManager[Worker]:
    return environment.worker(
        port=environment.port,
        webhook_allow_private=f"{HOST}/32",
        webhook_ports="*",
        webhook_ca_file=delivery.ca_file,
    )


# Partitions count for their table.
SIZES = """
SELECT coalesce(pg_partition_root(class.oid), class.oid)::regclass::text AS name,
       sum(pg_table_size(class.oid) - coalesce(pg_total_relation_size(nullif(class.reltoastrelid, 0)), 0))::bigint
           AS heap,
       sum(coalesce(pg_total_relation_size(nullif(class.reltoastrelid, 0)), 0))::bigint AS toast,
       sum(pg_indexes_size(class.oid))::bigint AS indexes
FROM pg_class class
WHERE class.relkind = 'r' AND class.relnamespace = 'public'::regnamespace
GROUP BY name
"""


async def read_sizes(connection: Connection) -> dict[str, Size]:
    rows = await connection.fetch(SIZES)
    return {row["name"]: Size(row["heap"], row["toast"], row["indexes"]) for row in rows}


def _results(sizes: dict[str, Size], rebuilt: dict[str, Size], wal_bytes: int, orders: int) -> list[Result]:
    """What stays of an order, with its limit; what is removed again, and the largest tables, for comparison."""

    def kb(count: int) -> float:
        return count / orders / 1000

    def kept(found: dict[str, Size]) -> float:
        return kb(sum(size.total for name, size in found.items() if name not in SHORT_LIVED | TEST_ONLY | DOCUMENTS))

    results = [
        Result("disk_per_order", kept(rebuilt), "KB", LIMIT_KB, GOAL),
        Result("disk_per_order_before_reindex", kept(sizes), "KB", LIMIT_KB),
        Result("disk_short_lived", kb(sum(sizes[name].total for name in SHORT_LIVED)), "KB", LIMIT_KB),
        Result("disk_test_only", kb(sum(sizes[name].total for name in TEST_ONLY)), "KB", LIMIT_KB),
        Result("wal_per_order", kb(wal_bytes), "KB", LIMIT_KB),
    ]
    others_kb = 0.0
    for name, size in sorted(rebuilt.items(), key=lambda item: -item[1].total):
        if kb(size.total) < _SHOWN_KB:
            others_kb += kb(size.total)
            continue
        results.append(Result(f"disk_{name}", kb(size.total), "KB", LIMIT_KB))
        for part, size_of_part in (("toast", size.toast), ("indexes", size.indexes)):
            if kb(size_of_part) >= _SHOWN_KB:
                results.append(Result(f"disk_{name}_{part}", kb(size_of_part), "KB", LIMIT_KB))
    return [*results, Result("disk_others", others_kb, "KB", LIMIT_KB)]
