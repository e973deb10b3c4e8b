"""Read the journal: entries of a period, and balances. A worker stores them (`books/post_entries.py`)."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from itertools import groupby

import asyncpg
from msgspec import Struct

from tonne.money.accounting.journal.model import JournalEntry, LedgerAccount, Posting
from tonne.money.accounting.journal.sources import SOURCES
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode

# Rows per round trip: bounds the memory of an export.
PAGE = 5_000
# Before the first entry of any installation.
BEGINNING = datetime(1990, 1, 1, tzinfo=UTC)
# A kind without a source: it is booked when a month is closed.
REVALUED = "revalued"
_DESCRIPTIONS = {source.kind: source.description for source in SOURCES} | {
    REVALUED: "Value of a foreign currency at the end of the month"
}


def describe(kind: str) -> str:
    return _DESCRIPTIONS[kind]


class Period(Struct, frozen=True):
    """From `start` until before `end`."""

    mode: Mode
    start: datetime
    end: datetime

    @property
    def days(self) -> tuple[date, date]:
        return self.start.date(), self.end.date()


def month_period(mode: Mode, month: date) -> Period:
    """A calendar month in UTC. `month` is its first day."""
    start = datetime(month.year, month.month, 1, tzinfo=UTC)
    return Period(mode, start, start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1))


# The order of the entries is that in which they were stored: a file that is written again has the same bytes.
READ_POSTINGS = """
SELECT entry.id, entry.booked_on, entry.event_at, entry.kind, entry.version, entry.source_id,
       coalesce(entry.subject, entry.source_id) AS subject, entry.organisation_id, posting.account::text AS account,
       posting.tax_code, posting.currency, posting.amount_minor, posting.home_minor,
       posting.home_currency
FROM ledger_entries entry JOIN ledger_postings posting ON posting.entry_id = entry.id
WHERE entry.mode = $1 AND entry.booked_on >= $2 AND entry.booked_on < $3
ORDER BY entry.booked_on, entry.id, posting.account, posting.tax_code COLLATE "C" NULLS FIRST, posting.currency
"""


async def read_entries_any_account(tx: Connection, period: Period) -> AsyncIterator[JournalEntry]:
    """By day. Call it in a transaction: it reads with a cursor, from one snapshot."""
    held: list[asyncpg.Record] = []
    cursor = await tx.cursor(READ_POSTINGS, period.mode, *period.days)
    while rows := await cursor.fetch(PAGE):
        grouped = [list(group) for _, group in groupby([*held, *rows], key=lambda row: row["id"])]
        # The last entry may continue on the next page.
        for each in grouped[:-1]:
            yield _entry(each)
        held = grouped[-1]
    if held:
        yield _entry(held)


def _entry(rows: list[asyncpg.Record]) -> JournalEntry:
    first = rows[0]
    happened_on = first["event_at"].astimezone(UTC).date()
    return JournalEntry(
        booked_on=first["booked_on"],
        kind=first["kind"],
        source_id=first["source_id"],
        subject=first["subject"],
        organisation_id=first["organisation_id"],
        description=describe(first["kind"]),
        postings=tuple(
            Posting(
                LedgerAccount(row["account"]),
                row["currency"],
                row["amount_minor"],
                row["tax_code"],
                row["home_minor"],
                row["home_currency"],
            )
            for row in rows
        ),
        version=first["version"],
        happened_on=None if happened_on == first["booked_on"] else happened_on,
    )


class AccountTurnover(Struct, frozen=True):
    """What was debited to and credited to an account, per tax code, in one currency."""

    account: LedgerAccount
    tax_code: str
    currency: str
    debit_minor: int
    credit_minor: int
    # In the currency of the country, if that is another one.
    home_minor: int = 0
    home_currency: str | None = None

    @property
    def balance_minor(self) -> int:
        """Debits are positive."""
        return self.debit_minor - self.credit_minor

    @property
    def account_name(self) -> str:
        return f"{self.account}:{self.tax_code}" if self.tax_code else self.account


SUM_TURNOVER = """
SELECT account::text AS account, tax_code, currency, sum(debit_minor)::bigint AS debit_minor,
       sum(credit_minor)::bigint AS credit_minor, sum(home_minor)::bigint AS home_minor,
       max(home_currency) AS home_currency
FROM ledger_totals WHERE mode = $1 AND month >= $2 AND month < $3
GROUP BY ledger_totals.account, tax_code, currency
ORDER BY currency, ledger_totals.account, tax_code COLLATE "C"
"""


async def sum_turnover(tx: Connection, period: Period) -> tuple[AccountTurnover, ...]:
    """Of the months that begin in the period: by currency, in the order of the chart of accounts."""
    start, end = period.days
    rows = await tx.fetch(SUM_TURNOVER, period.mode, start, end)
    return tuple(AccountTurnover(LedgerAccount(account), *others) for account, *others in rows)


async def sum_balances(tx: Connection, period: Period) -> list[Posting]:
    """What each account changed by in the months that begin in the period."""
    return [
        Posting(
            each.account,
            each.currency,
            each.balance_minor,
            each.tax_code or None,
            each.home_minor if each.home_currency else None,
            each.home_currency,
        )
        for each in await sum_turnover(tx, period)
        if each.balance_minor or each.home_minor
    ]


async def read_opening(tx: Connection, before: Period) -> JournalEntry | None:
    """One entry with all balances at the end of `before`; None if nothing was booked."""
    balances = await sum_balances(tx, before)
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


COUNT_DUE = "SELECT count(*) FROM (SELECT FROM ledger_due LIMIT 10000) AS due"


async def count_due(connection: Connection) -> int:
    """How many changed rows are not booked yet, up to 10,000."""
    count: int = await connection.fetchval(COUNT_DUE)
    return count
