"""Monthly partitions of the tables that grow with every order.

A table is partitioned by the time of its rows. New partitions are copies of the default partition, with its indexes.
The default partition gets the rows that fit into no other; it is empty as long as the job runs.
"""

import re
from datetime import UTC, datetime

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.db.queues import WaitingCheck, no_parameters
from tonne.platform.db.session_settings import LONG_STATEMENT_S, lift_limits

# From this many days before the end of the last partition on, the doctor warns.
WARN_DAYS = 14
_BOUNDS = re.compile(r"FOR VALUES FROM \((?:MINVALUE|'(?P<start>[^']+)')\) TO \('(?P<end>[^']+)'\)")


class PartitionedTable(Struct, frozen=True):
    """`key` is the column with the time of a row, or its day."""

    name: str
    key: str

    @property
    def default(self) -> str:
        return f"{self.name}_default"


EVENTS = PartitionedTable("events", "sequence")
ATTEMPTS = PartitionedTable("webhook_attempts", "at")
MAILS = PartitionedTable("mails", "created_at")
DOCUMENTS = PartitionedTable("tax_document_files", "issued_on")
PARTITIONED = (EVENTS, ATTEMPTS, MAILS, DOCUMENTS)


class Partition(Struct, frozen=True):
    """The rows from `start` until before `end`. The first partition has no start."""

    name: str
    start: datetime | None
    end: datetime


LIST_PARTITIONS = """
SELECT part.relname AS name, pg_get_expr(part.relpartbound, part.oid) AS bounds
FROM pg_inherits JOIN pg_class part ON part.oid = pg_inherits.inhrelid
WHERE pg_inherits.inhparent = to_regclass($1)
"""


async def list_partitions(connection: Connection, table: PartitionedTable) -> list[Partition]:
    """In order of time, without the default partition."""
    found = [
        (row["name"], _BOUNDS.fullmatch(row["bounds"])) for row in await connection.fetch(LIST_PARTITIONS, table.name)
    ]
    partitions = [
        Partition(name, _moment(match["start"]) if match["start"] else None, _moment(match["end"]))
        for name, match in found
        if match is not None
    ]
    return sorted(partitions, key=lambda partition: partition.end)


def month_after(moment: datetime) -> datetime:
    """The start of the next month."""
    moment = moment.astimezone(UTC)
    years, month = divmod(moment.month, 12)
    return datetime(moment.year + years, month + 1, 1, tzinfo=UTC)


def _moment(text: str) -> datetime:
    """Bounds that are days have no zone."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


async def create_partition(tx: Connection, table: PartitionedTable, start: datetime) -> Partition:
    """Rows of that month which are in the default partition already move to the new one, however many they are."""
    await lift_limits(tx)
    partition = Partition(f"{table.name}_{start:%Y_%m}", start, month_after(start))
    bounds = f"FROM ('{partition.start}') TO ('{partition.end}')"
    names = await _column_names(tx, table.name)
    is_in_month = f"{table.key} >= '{partition.start}' AND {table.key} < '{partition.end}'"
    moved = f"DELETE FROM {table.default} WHERE {is_in_month} RETURNING {names}"  # noqa: S608 - our own names
    for statement in (
        # In the order in which ATTACH PARTITION locks them.
        f"LOCK TABLE ONLY {table.name} IN SHARE UPDATE EXCLUSIVE MODE",
        f"LOCK TABLE {table.default} IN ACCESS EXCLUSIVE MODE",
        f"CREATE TABLE {partition.name} (LIKE {table.default} INCLUDING ALL)",
        f"WITH moved AS ({moved}) INSERT INTO {partition.name} ({names}) SELECT {names} FROM moved",  # noqa: S608
        f"ALTER TABLE {table.name} ATTACH PARTITION {partition.name} FOR VALUES {bounds}",
    ):
        await tx.execute(statement, timeout=LONG_STATEMENT_S)
    return partition


COLUMN_NAMES = """
SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped
"""


async def _column_names(connection: Connection, table: str) -> str:
    names: str = await connection.fetchval(COLUMN_NAMES, table)
    return names


def first_kept_day(table: PartitionedTable) -> str:
    """SQL: the first day of the rows that are not removed; null if none was."""
    return f"""(SELECT substring(min(bounds) FROM 'FROM \\(''([^'']+)''\\)')::date
     FROM (SELECT pg_get_expr(part.relpartbound, part.oid) AS bounds
           FROM pg_inherits JOIN pg_class part ON part.oid = pg_inherits.inhrelid
           WHERE pg_inherits.inhparent = '{table.name}'::regclass) AS partitions
     WHERE bounds <> 'DEFAULT' HAVING NOT bool_or(bounds LIKE '%MINVALUE%'))"""  # noqa: S608 - our own names


# SQL: the end of the partition `part`, null for the default partition.
PARTITION_END = "substring(pg_get_expr(part.relpartbound, part.oid) FROM 'TO \\(''([^'']+)''\\)')::timestamptz"
_TABLES = ", ".join(f"'{table.name}'" for table in PARTITIONED)
_IN_DEFAULT = " UNION ALL ".join(
    f"(SELECT '{table.default}' AS name, {table.key} AS at FROM {table.default} ORDER BY {table.key} LIMIT 1)"  # noqa: S608
    for table in PARTITIONED
)
WAITING = (
    WaitingCheck(
        "the partitions of the next weeks exist",
        "The job `make_partitions` does not succeed. Rows without a partition go to the default partition, where they "
        "cannot be archived or removed.",
        "Check that `tonne worker` runs, and its log for `partition_not_created` or failures of `make_partitions`.",
        f"""
        SELECT format('%s, until %s', name, to_char(covered, 'YYYY-MM-DD')) AS "where"
        FROM (SELECT parent.relname AS name, max({PARTITION_END}) AS covered
              FROM pg_inherits JOIN pg_class part ON part.oid = pg_inherits.inhrelid
              JOIN pg_class parent ON parent.oid = pg_inherits.inhparent
              WHERE parent.relname IN ({_TABLES}) AND parent.relnamespace = current_schema()::regnamespace
              GROUP BY parent.relname) tables
        WHERE covered < now() + interval '{WARN_DAYS} days' ORDER BY covered, name
        """,  # noqa: S608 - our own names
        no_parameters,
    ),
    WaitingCheck(
        "no row is in a default partition",
        "Rows were written before their partition existed. They are read like all others, but cannot be archived or "
        "removed.",
        "The job `make_partitions` moves them with the next partition: check that `tonne worker` runs, and its log.",
        f"""
        SELECT format('%s, a row of %s', name, to_char(at, 'YYYY-MM-DD')) AS "where"
        FROM ({_IN_DEFAULT}) AS strays WHERE at < now()
        """,  # noqa: S608 - our own names
        no_parameters,
    ),
)
