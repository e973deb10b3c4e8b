"""Read the journal: entries of a period, and balances. It is computed from the records of business, never stored.

Those records are never edited once they are booked: an invoice is reduced by a credit note, a payment by a refund. So
a month that is exported again gives the same entries.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from tonne.money.accounting.journal.model import JournalEntry, LedgerAccount, Posting
from tonne.money.accounting.journal.sources import SOURCES, all_postings
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.process.progress import progress
from tonne.platform.values.context import By, Mode

# Rows per round trip: bounds the memory of an export.
PAGE = 5_000

_IN_PERIOD = "mode = $1 AND at >= $2 AND at < $3 AND amount_minor <> 0"
READ_POSTINGS = f"""
SELECT kind, mode, at, source_id, subject, organisation_id, currency, account, amount_minor
FROM ({all_postings(_IN_PERIOD)}) AS posting ORDER BY at, kind, source_id, account, amount_minor
"""  # noqa: S608 - our own constants
_DESCRIPTIONS = {source.kind: source.description for source in SOURCES}


class Period(Struct, frozen=True):
    """From `start` until before `end`."""

    mode: Mode
    start: datetime
    end: datetime


async def read_entries_any_account(tx: Connection, period: Period) -> AsyncIterator[JournalEntry]:
    """In the order of time. Call it in a transaction: it reads with a cursor, from one snapshot."""
    held: list[asyncpg.Record] = []
    cursor = await tx.cursor(READ_POSTINGS, period.mode, period.start, period.end)
    while rows := await cursor.fetch(PAGE):
        grouped = [list(group) for _, group in groupby([*held, *rows], key=_entry_key)]
        # The last entry may continue on the next page.
        for each in grouped[:-1]:
            yield _entry(each)
        held = grouped[-1]
    if held:
        yield _entry(held)


def _entry_key(row: asyncpg.Record) -> tuple[Any, ...]:
    return row["at"], row["kind"], row["source_id"]


def _entry(rows: list[asyncpg.Record]) -> JournalEntry:
    first = rows[0]
    return JournalEntry(
        booked_on=first["at"].astimezone(UTC).date(),
        kind=first["kind"],
        source_id=first["source_id"],
        subject=first["subject"],
        organisation_id=first["organisation_id"],
        description=_DESCRIPTIONS[first["kind"]],
        postings=tuple(Posting(LedgerAccount(row["account"]), row["currency"], row["amount_minor"]) for row in rows),
    )


# Postings of one kind: PostgreSQL does not read the tables of the others.
SUM_KIND = f"""
SELECT account, currency, sum(amount_minor)::bigint AS amount_minor
FROM ({all_postings(_IN_PERIOD)}) AS posting WHERE kind = $4 GROUP BY account, currency
"""  # noqa: S608 - our own constants


async def sum_balances_any_account(tx: Connection, period: Period) -> list[Posting]:
    """What each account changed by, per currency. Call it in a transaction that reads one snapshot."""
    sums: Counter[tuple[str, str]] = Counter()
    with progress("Summing the journal", len(SOURCES)) as advance:
        for source in SOURCES:
            rows = await tx.fetch(SUM_KIND, period.mode, period.start, period.end, source.kind)
            sums.update({(row["account"], row["currency"]): row["amount_minor"] for row in rows})
            advance(1)
    return [
        Posting(LedgerAccount(account), currency, minor) for (account, currency), minor in sorted(sums.items()) if minor
    ]


SUM_TURNOVER = f"""
SELECT account, currency, coalesce(sum(amount_minor) FILTER (WHERE amount_minor > 0), 0)::bigint AS debit_minor,
       coalesce(-sum(amount_minor) FILTER (WHERE amount_minor < 0), 0)::bigint AS credit_minor
FROM ({all_postings(_IN_PERIOD)}) AS posting WHERE kind = $4 GROUP BY account, currency
"""  # noqa: S608 - our own constants


async def sum_turnover_any_account(tx: Connection, period: Period) -> list[tuple[str, str, int, int]]:
    """Debits and credits of each account, per currency. Call it in a transaction that reads one snapshot."""
    debits: Counter[tuple[str, str]] = Counter()
    credits_: Counter[tuple[str, str]] = Counter()
    for source in SOURCES:
        for row in await tx.fetch(SUM_TURNOVER, period.mode, period.start, period.end, source.kind):
            debits[row["account"], row["currency"]] += row["debit_minor"]
            credits_[row["account"], row["currency"]] += row["credit_minor"]
    keys = sorted(
        debits.keys() | credits_.keys(), key=lambda key: (key[1], [*LedgerAccount].index(LedgerAccount(key[0])))
    )
    return [(*key, debits[key], credits_[key]) for key in keys]


async def read_opening_any_account(tx: Connection, before: Period) -> JournalEntry | None:
    """One entry with all balances at the end of `before`; None if nothing was booked."""
    balances = await sum_balances_any_account(tx, before)
    if not balances:
        return None
    return JournalEntry(
        booked_on=before.end.date(),
        kind="opening",
        source_id=f"{before.end:%Y-%m}",
        subject="",
        organisation_id=None,
        description="Opening balances",
        postings=tuple(balances),
    )


class AccountTurnover(msgspec.Struct, frozen=True):
    """What was debited to and credited to an account in a month, in one currency."""

    account: LedgerAccount
    currency: str
    debit_minor: int
    credit_minor: int

    @property
    def balance_minor(self) -> int:
        """Debits are positive."""
        return self.debit_minor - self.credit_minor


class MonthTotals(msgspec.Struct, frozen=True):
    totals: tuple[AccountTurnover, ...]
    computed_at: datetime
    computed_by: str

    def unbalanced(self) -> Sequence[str]:
        """The currencies in which debits and credits differ: never, unless the records are damaged."""
        sums: Counter[str] = Counter()
        for each in self.totals:
            sums[each.currency] += each.balance_minor
        return sorted(currency for currency, minor in sums.items() if minor)


def month_period(mode: Mode, month: date) -> Period:
    """A calendar month in UTC. `month` is its first day."""
    start = datetime(month.year, month.month, 1, tzinfo=UTC)
    return Period(mode, start, start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1))


async def sum_month_any_account(tx: Connection, mode: Mode, month: date) -> tuple[AccountTurnover, ...]:
    """By currency, in the order of the chart of accounts. Call it in a transaction that reads one snapshot."""
    sums = await sum_turnover_any_account(tx, month_period(mode, month))
    return tuple(
        AccountTurnover(LedgerAccount(name), currency, debit, credit) for name, currency, debit, credit in sums
    )


STORE_TOTALS = """
INSERT INTO month_totals (mode, month, totals, computed_at, computed_by) VALUES ($1, $2, $3::jsonb, $4, $5)
ON CONFLICT (mode, month) DO UPDATE
SET totals = excluded.totals, computed_at = excluded.computed_at, computed_by = excluded.computed_by
"""


async def store_totals(tx: Connection, mode: Mode, month: date, totals: Sequence[AccountTurnover], *, by: By) -> None:
    """Instead of earlier ones. `now` is when they were read."""
    await tx.execute(STORE_TOTALS, mode, month, msgspec.json.encode(totals).decode(), by.at, str(by.actor))
    await audit.record(tx, None, "journal.summed", by=by, subject_id=f"{month:%Y-%m}", mode=mode)


FIND_TOTALS = "SELECT totals::text AS totals, computed_at, computed_by FROM month_totals WHERE mode = $1 AND month = $2"


async def find_totals(connection: Connection, mode: Mode, month: date) -> MonthTotals | None:
    """As they were computed last."""
    row = await connection.fetchrow(FIND_TOTALS, mode, month)
    if row is None:
        return None
    totals = msgspec.json.decode(row["totals"], type=tuple[AccountTurnover, ...])
    return MonthTotals(totals, row["computed_at"], row["computed_by"])


class OpenPoint(Struct, frozen=True):
    """`count` things of one kind. `amounts` are their sums, by currency."""

    kind: str
    count: int
    amounts: dict[str, int]


# Each kind counts at most this many: a page need not be exact beyond it.
MOST = 1_000
# $2 is the end of the month. Money and orders that came later do not belong to it.
LIST_OPEN_POINTS = f"""
SELECT point.kind, point.currency, count(*)::integer AS count, coalesce(sum(point.minor), 0)::bigint AS minor
FROM ((SELECT 'transfers' AS kind, currency::text AS currency, abs(amount_minor) AS minor FROM bank_transfers
       WHERE state IN ('unmatched', 'overpaid') AND mode = $1 AND booked_on < $2::date LIMIT {MOST})
      UNION ALL
      (SELECT 'doubtful', NULL, 0 FROM doubtful_lines
       WHERE is_same IS NULL AND mode = $1 AND imported_at IS NOT NULL LIMIT {MOST})
      UNION ALL
      (SELECT 'returns', transfer.currency::text, sent.amount_minor FROM transfer_returns sent
       JOIN bank_transfers transfer ON transfer.id = sent.transfer_id
       WHERE sent.status IN ('planned', 'exported') AND transfer.mode = $1 AND sent.created_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'unbilled', grouped.currency::text, unbilled.total_minor
       FROM billing_groups grouped JOIN unbilled_orders unbilled ON unbilled.group_id = grouped.id
       WHERE grouped.mode = $1 AND unbilled.placed_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'held_back', orders.currency::text, orders.total_cost_minor FROM orders
       WHERE orders.mode = $1 AND orders.status = 'placed' AND orders.payment_method = 'invoice'
         AND orders.next_attempt_at IS NOT NULL AND orders.total_cost_minor > 0 AND orders.created_at < $2
         AND NOT EXISTS (SELECT FROM invoice_orders billed
                         WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
         AND NOT EXISTS (SELECT FROM unbilled_orders unbilled
                         WHERE unbilled.account_id = orders.account_id AND unbilled.order_id = orders.id)
       LIMIT {MOST})
      UNION ALL
      (SELECT 'write_offs', invoices.currency::text, written.amount_minor FROM write_offs written
       JOIN invoices ON invoices.id = written.invoice_id
       WHERE written.state = 'approval' AND invoices.mode = $1 AND written.requested_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'refunds', currency::text, amount_minor FROM refunds
       WHERE state IN ('approval', 'due', 'pending') AND mode = $1 AND created_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'disputes', currency::text, amount_minor FROM disputes
       WHERE state = 'opened' AND mode = $1 AND opened_at < $2 LIMIT {MOST})
      UNION ALL
      (SELECT 'payouts', currency::text, amount_minor FROM gateway_payouts
       WHERE transfer_id IS NULL AND mode = $1 AND paid_on < $2::date LIMIT {MOST})) AS point
GROUP BY point.kind, point.currency ORDER BY point.kind, point.currency
"""  # noqa: S608 - a number


async def list_open_points_any_account(connection: Connection, period: Period) -> list[OpenPoint]:
    """Those that exist, by kind."""
    rows: dict[str, list[asyncpg.Record]] = {}
    for row in await connection.fetch(LIST_OPEN_POINTS, period.mode, period.end):
        rows.setdefault(row["kind"], []).append(row)
    return [
        OpenPoint(
            kind,
            sum(row["count"] for row in found),
            {row["currency"]: row["minor"] for row in found if row["currency"] is not None},
        )
        for kind, found in rows.items()
    ]


FIND_LAST_BOOKING = """
SELECT booked_on FROM bank_transfers WHERE mode = $1 ORDER BY booked_on DESC LIMIT 1
"""


async def find_last_booking_any_account(connection: Connection, mode: Mode) -> date | None:
    """The last day of which a bank statement was imported."""
    day: date | None = await connection.fetchval(FIND_LAST_BOOKING, mode)
    return day


FIND_FIRST_DOCUMENT = """
SELECT least((SELECT min(created_at) FROM organisations), (SELECT created_at FROM invoices ORDER BY number LIMIT 1))
"""


async def find_beginning_any_account(connection: Connection) -> datetime | None:
    """Before it nothing was booked."""
    moment: datetime | None = await connection.fetchval(FIND_FIRST_DOCUMENT)
    return moment
