"""Conditions that must always hold, each as a query that returns the violations."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

# For the transaction of a check. Whole tables are sorted and joined, in memory instead of in files; PostgreSQL takes no
# more than it needs. It expects far too few rows of joins by account and order, and would look up each by an index.
FOR_CHECKS = "SET LOCAL work_mem = '128MB'; SET LOCAL enable_nestloop = off"


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


def group_by_scan(invariants: Iterable[Invariant]) -> list[InvariantCheck]:
    """Slow checks first, otherwise in the order of their first invariants."""
    groups: dict[object, list[Invariant]] = {}
    for each in invariants:
        groups.setdefault(each.scan or each, []).append(each)
    return sorted(map(InvariantCheck, groups.values()), key=lambda check: not check.is_slow)
