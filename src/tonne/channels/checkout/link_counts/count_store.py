"""SQL for the counts of offset links. Deltas and days are always read together."""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import ClassVar, NamedTuple, Self

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, Database, columns
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order


class CountedDay(NamedTuple):
    """A link and a day (UTC)."""

    scope: Scope
    offset_link_id: str
    day: date


class CountedPages(NamedTuple):
    opened: int = 0
    begun: int = 0

    def plus(self, other: Self) -> "CountedPages":
        return CountedPages(self.opened + other.opened, self.begun + other.begun)


class LinkTotals(NamedTuple):
    """`paid_minor` is with tax, in the currency of the account. Refunds are not subtracted."""

    opened: int = 0
    begun: int = 0
    paid: int = 0
    paid_grams: int = 0
    paid_minor: int = 0

    def plus(self, other: "LinkTotals") -> "LinkTotals":
        return LinkTotals(*(one + another for one, another in zip(self, other, strict=True)))


# `synchronous_commit = off`: no other commit waits for this one. A crash of the database loses the last counts.
INSERT_COUNTS = """
INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day, opened, begun)
SELECT organisation_id, mode, account_id, offset_link_id, day, opened, begun
FROM unnest($1::text[], $2::mode[], $3::text[], $4::text[], $5::date[], $6::bigint[], $7::bigint[])
    AS counted (organisation_id, mode, account_id, offset_link_id, day, opened, begun)
WHERE set_config('synchronous_commit', 'off', true) = 'off'
"""


async def insert_counts(connection: Connection, counts: Mapping[CountedDay, CountedPages]) -> None:
    await connection.execute(
        INSERT_COUNTS,
        *columns(list(counts), "scope.organisation_id, scope.mode, scope.account_id, offset_link_id, day"),
        *columns(list(counts.values()), "opened, begun"),
    )


# Sorted to prevent deadlocks between workers. A row that is being written is not visible yet, and is folded later.
FOLD_COUNTS = """
WITH taken AS (
    DELETE FROM offset_link_deltas delta
    WHERE delta.ctid = ANY (ARRAY(SELECT ctid FROM offset_link_deltas LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING delta.organisation_id, delta.mode, delta.account_id, delta.offset_link_id, delta.day, delta.opened,
              delta.begun, delta.paid, delta.paid_grams, delta.paid_minor
), folded AS (
    INSERT INTO offset_link_days AS known (organisation_id, mode, account_id, offset_link_id, day, opened, begun, paid,
                                           paid_grams, paid_minor)
    SELECT organisation_id, mode, account_id, offset_link_id, day, sum(opened), sum(begun), sum(paid), sum(paid_grams),
           sum(paid_minor)
    FROM taken GROUP BY organisation_id, mode, account_id, offset_link_id, day ORDER BY account_id, offset_link_id, day
    ON CONFLICT (account_id, offset_link_id, day) DO UPDATE
    SET opened = known.opened + excluded.opened, begun = known.begun + excluded.begun,
        paid = known.paid + excluded.paid, paid_grams = known.paid_grams + excluded.paid_grams,
        paid_minor = known.paid_minor + excluded.paid_minor
)
SELECT count(*) FROM taken
"""


async def fold_counts(connection: Connection, limit: int) -> int:
    """Add up to `limit` deltas to the days. Returns how many there were."""
    count: int = await connection.fetchval(FOLD_COUNTS, limit)
    return count


_SUMS = """sum(opened)::bigint AS opened, sum(begun)::bigint AS begun, sum(paid)::bigint AS paid,
       sum(paid_grams)::bigint AS paid_grams, sum(paid_minor)::bigint AS paid_minor"""
_COUNTED = "offset_link_id, day, opened, begun, paid, paid_grams, paid_minor"
_OF_ACCOUNT = "organisation_id = $1 AND mode = $2 AND account_id = $3"
LIST_LINK_DAYS = f"""
SELECT day, {_SUMS}
FROM (SELECT {_COUNTED} FROM offset_link_days WHERE {_OF_ACCOUNT} AND offset_link_id = $4 AND day BETWEEN $5 AND $6
      UNION ALL
      SELECT {_COUNTED} FROM offset_link_deltas WHERE {_OF_ACCOUNT} AND offset_link_id = $4 AND day BETWEEN $5 AND $6)
     counted
GROUP BY day ORDER BY day
"""  # noqa: S608 - columns above


async def list_link_days(
    connection: Connection, scope: Scope, link_id: str, first: date, last: date
) -> dict[date, LinkTotals]:
    """The days on which something was counted, of one link."""
    rows = await connection.fetch(
        LIST_LINK_DAYS, scope.organisation_id, scope.mode, scope.account_id, link_id, first, last
    )
    return {row["day"]: _totals(row) for row in rows}


LIST_ACCOUNT_DAYS = f"""
SELECT day, {_SUMS}
FROM (SELECT {_COUNTED} FROM offset_link_days WHERE {_OF_ACCOUNT} AND day BETWEEN $4 AND $5
      UNION ALL
      SELECT {_COUNTED} FROM offset_link_deltas WHERE {_OF_ACCOUNT} AND day BETWEEN $4 AND $5) counted
GROUP BY day ORDER BY day
"""  # noqa: S608 - columns above


async def list_account_days(connection: Connection, scope: Scope, first: date, last: date) -> dict[date, LinkTotals]:
    """The days on which something was counted, of all links of the account together."""
    rows = await connection.fetch(LIST_ACCOUNT_DAYS, scope.organisation_id, scope.mode, scope.account_id, first, last)
    return {row["day"]: _totals(row) for row in rows}


SUM_LINKS = f"""
SELECT offset_link_id, {_SUMS}
FROM (SELECT {_COUNTED} FROM offset_link_days
      WHERE {_OF_ACCOUNT} AND offset_link_id = ANY ($4::text[]) AND day BETWEEN $5 AND $6
      UNION ALL
      SELECT {_COUNTED} FROM offset_link_deltas
      WHERE {_OF_ACCOUNT} AND offset_link_id = ANY ($4::text[]) AND day BETWEEN $5 AND $6) counted
GROUP BY offset_link_id
"""  # noqa: S608 - columns above


async def sum_links(
    connection: Connection, scope: Scope, link_ids: Sequence[str], first: date, last: date
) -> dict[str, LinkTotals]:
    """The sums of these days by link, of those links that have any."""
    rows = await connection.fetch(SUM_LINKS, scope.organisation_id, scope.mode, scope.account_id, link_ids, first, last)
    return {row["offset_link_id"]: _totals(row) for row in rows}


class ListedDay(NamedTuple):
    """One line of the export."""

    day: date
    offset_link_id: str
    title: str
    totals: LinkTotals


LIST_EXPORT = f"""
SELECT counted.day, counted.offset_link_id, offset_links.title, {_SUMS}
FROM (SELECT {_COUNTED} FROM offset_link_days WHERE {_OF_ACCOUNT} AND day BETWEEN $4 AND $5
      UNION ALL
      SELECT {_COUNTED} FROM offset_link_deltas WHERE {_OF_ACCOUNT} AND day BETWEEN $4 AND $5) counted
JOIN offset_links ON offset_links.account_id = $3 AND offset_links.id = counted.offset_link_id
WHERE $6::text IS NULL OR counted.offset_link_id = $6
GROUP BY counted.day, counted.offset_link_id, offset_links.title ORDER BY counted.day, counted.offset_link_id
"""  # noqa: S608 - columns above


async def list_export(
    connection: Connection, scope: Scope, link_id: str | None, first: date, last: date
) -> list[ListedDay]:
    """By day and link: all links of the account, or one."""
    rows = await connection.fetch(
        LIST_EXPORT, scope.organisation_id, scope.mode, scope.account_id, first, last, link_id
    )
    return [ListedDay(row["day"], row["offset_link_id"], row["title"], _totals(row)) for row in rows]


def _totals(row: asyncpg.Record) -> LinkTotals:
    return LinkTotals(*(row[name] for name in LinkTotals._fields))


# A job: adds what was counted of offset links to their days, so that reading them stays cheap.

BATCH_ROWS = 500


class FoldLinkCounts(Struct, frozen=True):
    # Totals are exact before their deltas are folded, too.
    EVERY_S: ClassVar[int] = 10

    database: Database

    async def run_once(self) -> bool:
        """Fold one batch. True when there may be more."""
        return await self.database.run(fold_counts, BATCH_ROWS) == BATCH_ROWS


# Counts what was paid through offset links, in the transaction in which the orders are paid.

INSERT_PAID = """
INSERT INTO offset_link_deltas (organisation_id, mode, account_id, offset_link_id, day, paid, paid_grams, paid_minor)
SELECT organisation_id, mode, account_id, offset_link_id, $1, 1, grams, cost_minor + tax_minor
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[])
     AS paid (organisation_id, mode, account_id, offset_link_id, grams, cost_minor, tax_minor)
"""


async def count_paid_links(tx: Connection, orders: Sequence[Order], now: datetime) -> None:
    """Those of the orders that were placed through a link. They are paid now."""
    linked = [order for order in orders if order.offset_link_id is not None and order.priced is not None]
    if linked:
        links = columns(linked, "scope.organisation_id, scope.mode, scope.account_id, offset_link_id")
        amounts = columns(linked, "priced.quantity_grams, priced.total_cost_minor")
        taxes = [order.tax.tax_minor or 0 for order in linked]
        await tx.execute(INSERT_PAID, now.astimezone(UTC).date(), *links, *amounts, taxes)
