"""Conditions that must always hold, each as a query that returns the violations, or as a function of a row."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection

# For the transaction of a check. Whole tables are grouped and joined, in memory instead of in files; PostgreSQL takes
# no more than it needs. It expects far too few rows of joins by account and order, and would look up each by an index;
# and far too many groups, which it would sort. Checks on two connections need no parallel workers besides.
FOR_CHECKS = """
SET LOCAL work_mem = '128MB'; SET LOCAL enable_nestloop = off; SET LOCAL enable_sort = off;
SET LOCAL max_parallel_workers_per_gather = 0
"""


class SharedScan(Struct, frozen=True):
    """Common table expressions that several invariants read, so that a large table is scanned once for all of them."""

    sql: str


class Invariant(Struct, frozen=True):
    """`query` returns one row per violation, with a column `where` that locates it. `meaning` explains it to a person.

    A query with the parameter `$1`, a time or null, can be limited to what changed since then. The parameter may be in
    `scan`. What `is_slow` is started first, so that it is not left for the end.
    """

    name: str
    meaning: str
    query: str
    scan: SharedScan | None = None
    is_slow: bool = False

    @property
    def sql(self) -> str:
        """The statement that checks this invariant alone."""
        return f"WITH {self.scan.sql} {self.query}" if self.scan else self.query

    @property
    def can_be_limited(self) -> bool:
        return "$1" in self.sql

    def arguments(self, since: datetime | None = None) -> tuple[datetime | None, ...]:
        """The arguments of `sql`. Without `since`, all data is checked."""
        return (since,) if self.can_be_limited else ()


# Rows of a scan that are in memory at the same time.
ROWS_AT_ONCE = 5_000


class RowScan(Struct, frozen=True):
    """Rows of orders with stored JSON. Python parses it in a third of the time that PostgreSQL takes.

    They have the columns `account_id` and `order_id`. The statement has the parameter `$1`, a time or null, to limit it
    to what changed since then. `parse` makes of a row what the invariants look at, once for all of them.
    """

    sql: str
    parse: Callable[[asyncpg.Record], Any]


class RowInvariant(Struct, frozen=True):
    """`find` says what is wrong with a row of the scan, or returns None.

    `unless` selects the `account_id` and `order_id` of orders that are left out, if something is wrong at all.
    """

    name: str
    meaning: str
    scan: RowScan
    find: Callable[[asyncpg.Record, Any], str | None]
    unless: str | None = None
    is_slow: bool = True
    can_be_limited: bool = True

    @property
    def sql(self) -> str:
        return self.scan.sql


class RowCheck(Struct, frozen=True):
    """Reads one scan for all invariants of its rows."""

    invariants: Sequence[RowInvariant]
    is_slow: bool = True

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.invariants]

    async def find(self, tx: Connection, since: datetime | None = None) -> AsyncIterator[tuple[str, str]]:
        """The name of the invariant and the place of each violation."""
        scan = self.invariants[0].scan
        wrong = list[tuple[RowInvariant, tuple[str, str], str]]()
        cursor = await tx.cursor(scan.sql, since)
        while rows := await cursor.fetch(ROWS_AT_ONCE):
            for row in rows:
                parsed = scan.parse(row)
                for invariant in self.invariants:
                    if (where := invariant.find(row, parsed)) is not None:
                        wrong.append((invariant, (row["account_id"], row["order_id"]), where))
        for invariant in self.invariants:
            found = [(key, where) for each, key, where in wrong if each is invariant]
            left_out = await tx.fetch(invariant.unless) if found and invariant.unless else ()
            keys = {(row["account_id"], row["order_id"]) for row in left_out}
            for key, where in found:
                if key not in keys:
                    yield invariant.name, where


class InvariantCheck(Struct, frozen=True):
    """One statement for the invariants that share a scan, or for a single one.

    Its rows have the columns `invariant`, an index of `invariants`, and `where`.
    """

    invariants: Sequence[Invariant]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.invariants]

    @property
    def sql(self) -> str:
        parts = (
            f'SELECT {number} AS invariant, "where" FROM ({each.query}) AS found'  # noqa: S608 - our own queries
            for number, each in enumerate(self.invariants)
        )
        scan = self.invariants[0].scan
        return f"{f'WITH {scan.sql} ' if scan else ''}{' UNION ALL '.join(parts)}"

    @property
    def is_slow(self) -> bool:
        return any(each.is_slow for each in self.invariants)

    def arguments(self, since: datetime | None = None) -> tuple[datetime | None, ...]:
        return (since,) if any(each.can_be_limited for each in self.invariants) else ()

    async def find(self, tx: Connection, since: datetime | None = None) -> AsyncIterator[tuple[str, str]]:
        """The name of the invariant and the place of each violation."""
        for row in await tx.fetch(self.sql, *self.arguments(since)):
            yield self.names[row["invariant"]], row["where"]


AnyInvariant = Invariant | RowInvariant
AnyCheck = InvariantCheck | RowCheck


def group_by_scan(invariants: Iterable[AnyInvariant]) -> list[AnyCheck]:
    """Slow checks first, otherwise in the order of their first invariants."""
    groups: dict[object, list[Any]] = {}
    for each in invariants:
        groups.setdefault(each.scan or each, []).append(each)
    checks = [RowCheck(each) if isinstance(each[0], RowInvariant) else InvariantCheck(each) for each in groups.values()]
    return sorted(checks, key=lambda check: not check.is_slow)


async def find_violations(
    tx: Connection, invariants: Iterable[AnyInvariant], since: datetime | None = None
) -> dict[str, list[str]]:
    """The places of all violations by the name of the invariant. Without `since`, all data is checked."""
    found: dict[str, list[str]] = {}
    for check in group_by_scan(invariants):
        async for name, where in check.find(tx, since):
            found.setdefault(name, []).append(where)
    return found
