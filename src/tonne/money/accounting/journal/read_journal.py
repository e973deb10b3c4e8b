"""Read the journal: entries of a period, and balances. It is computed from the records of business, never stored.

Those records are never edited once they are booked: an invoice is reduced by a credit note, a payment by a refund. So
a month that is exported again gives the same entries.
"""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import asyncpg
from msgspec import Struct

from tonne.money.accounting.journal.model import JournalEntry, LedgerAccount, Posting
from tonne.money.accounting.journal.sources import SOURCES, all_postings
from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Mode

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
