"""Months that are closed: nothing is booked in them any more."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from tonne.money.accounting.journal.read_journal import AccountTurnover, Period
from tonne.platform.db.database import Connection
from tonne.platform.values.context import By, Mode
from tonne.selling.catalogue.prices.reference_rates import HomeRate


class NumberRange(Struct, frozen=True):
    """The documents of one series that were issued in a month."""

    series: str
    first: str
    last: str
    count: int


class ClosedMonth(Struct, frozen=True, kw_only=True):
    id: str
    mode: Mode
    # Its first day.
    month: date
    closed_at: datetime
    closed_by: str
    known_until: datetime
    number_ranges: tuple[NumberRange, ...]
    # Of the foreign currencies in the report for the OSS, if a quarter ends with the month.
    oss_rates: Mapping[str, HomeRate | None]
    # The SHA-256 of each file, by its name. None until a worker has written them.
    digests: Mapping[str, str] | None
    reopen_reason: str | None
    reopen_requested_by: str | None

    @property
    def name(self) -> str:
        return f"{self.month:%Y-%m}"


_CLOSED_MONTH = """
id, mode, month, closed_at, closed_by, known_until, number_ranges::text AS number_ranges,
oss_rates::text AS oss_rates, digests::text AS digests, reopen_reason, reopen_requested_by"""

LIST_CLOSED = f"""
SELECT {_CLOSED_MONTH} FROM closed_months WHERE mode = $1 AND reopened_at IS NULL ORDER BY month DESC LIMIT $2
"""  # noqa: S608 - our own columns


async def list_closed(connection: Connection, mode: Mode, limit: int = 1_000) -> list[ClosedMonth]:
    """The newest first."""
    return [_closed(row) for row in await connection.fetch(LIST_CLOSED, mode, limit)]


FIND_CLOSED = f"""
SELECT {_CLOSED_MONTH} FROM closed_months WHERE mode = $1 AND month = $2 AND reopened_at IS NULL
"""  # noqa: S608 - our own columns


async def find_closed(connection: Connection, mode: Mode, month: date) -> ClosedMonth | None:
    row = await connection.fetchrow(FIND_CLOSED, mode, month)
    return None if row is None else _closed(row)


def _closed(row: asyncpg.Record) -> ClosedMonth:
    ranges = msgspec.json.decode(row["number_ranges"], type=tuple[NumberRange, ...])
    rates = msgspec.json.decode(row["oss_rates"], type=dict[str, HomeRate | None])
    digests = None if row["digests"] is None else msgspec.json.decode(row["digests"], type=dict[str, str])
    decoded = {"number_ranges": ranges, "oss_rates": rates, "digests": digests}
    return ClosedMonth(**{**row, "mode": Mode(row["mode"]), **decoded})


# Months without an entry need not be closed.
FIND_OPEN_BEFORE = """
SELECT min(month) FROM ledger_totals WHERE mode = $1 AND month < $2
   AND month > coalesce((SELECT max(month) FROM closed_months WHERE mode = $1 AND reopened_at IS NULL), '-infinity')
"""


async def find_open_before(connection: Connection, mode: Mode, month: date) -> date | None:
    """The first month before this one in which something is booked, and which is not closed."""
    found: date | None = await connection.fetchval(FIND_OPEN_BEFORE, mode, month)
    return found


LIST_NUMBER_RANGES = """
SELECT series, min(reference) FILTER (WHERE number = first) AS first, min(reference) FILTER (WHERE number = last)
       AS last, count(*) AS count
FROM (SELECT series, number, reference, min(number) OVER (PARTITION BY series) AS first,
             max(number) OVER (PARTITION BY series) AS last
      FROM tax_documents WHERE mode = $1 AND issued_on >= $2 AND issued_on < $3) AS document
GROUP BY series ORDER BY series
"""


async def list_number_ranges_any_account(tx: Connection, period: Period) -> list[NumberRange]:
    return [NumberRange(**row) for row in await tx.fetch(LIST_NUMBER_RANGES, period.mode, *period.days)]


INSERT_CLOSED = """
INSERT INTO closed_months (id, mode, month, closed_at, closed_by, known_until, balances, number_ranges,
                           oss_rates)
VALUES ($1, $2, $3, $4, $5, $6, $7::jsonb, $8::jsonb, $9::jsonb)
"""


async def insert_closed(tx: Connection, month: ClosedMonth, balances: Sequence[AccountTurnover]) -> None:
    await tx.execute(
        INSERT_CLOSED,
        *(month.id, month.mode, month.month, month.closed_at, month.closed_by, month.known_until),
        _json(balances),
        _json(month.number_ranges),
        _json(month.oss_rates),
    )


FIND_WITHOUT_DIGESTS = f"""
SELECT {_CLOSED_MONTH} FROM closed_months WHERE digests IS NULL AND reopened_at IS NULL ORDER BY closed_at LIMIT 1
"""  # noqa: S608 - our own columns


async def find_without_digests(connection: Connection) -> ClosedMonth | None:
    row = await connection.fetchrow(FIND_WITHOUT_DIGESTS)
    return None if row is None else _closed(row)


SET_DIGESTS = "UPDATE closed_months SET digests = $2::jsonb WHERE id = $1 AND digests IS NULL"


async def set_digests(tx: Connection, month: ClosedMonth, digests: Mapping[str, str]) -> None:
    await tx.execute(SET_DIGESTS, month.id, _json(digests))


REQUEST_REOPENING = """
UPDATE closed_months SET reopen_reason = $2, reopen_requested_by = $3, reopen_requested_at = $4 WHERE id = $1
"""


async def set_reopening(tx: Connection, month: ClosedMonth, reason: str, *, by: By) -> None:
    """Instead of an earlier request."""
    await tx.execute(REQUEST_REOPENING, month.id, reason, str(by.actor), by.at)


REOPEN = "UPDATE closed_months SET reopened_at = $2 WHERE id = $1"


async def set_reopened(tx: Connection, month: ClosedMonth, now: datetime) -> None:
    await tx.execute(REOPEN, month.id, now)


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
