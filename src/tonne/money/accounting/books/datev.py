"""The journal of a month as a batch of bookings in the format of DATEV (EXTF).

A row has one account and one contra account, an entry of the journal any number of postings. So each posting is booked
against the transit account of the chart, whose balance is zero after every entry. The postings of a day are summed by
kind, account, tax code and currency. Written from the published description; not tried with DATEV.
"""

from collections.abc import AsyncIterator
from datetime import date, datetime, timedelta

import asyncpg

from tonne.money.accounting.books.chart import TRANSIT, Chart, require_chart
from tonne.money.accounting.books.month_store import find_closed
from tonne.money.accounting.journal.read_journal import Period, describe
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money

ENCODING = "cp1252"
LONGEST_TEXT = 60
COLUMNS = (
    *("Umsatz (ohne Soll/Haben-Kz)", "Soll/Haben-Kennzeichen", "WKZ Umsatz", "Kurs", "Basis-Umsatz"),
    *("WKZ Basis-Umsatz", "Konto", "Gegenkonto (ohne BU-Schlüssel)", "BU-Schlüssel", "Belegdatum"),
    *("Belegfeld 1", "Belegfeld 2", "Skonto", "Buchungstext"),
)

SUM_DAYS = """
SELECT entry.booked_on, entry.kind, posting.account::text AS account, coalesce(posting.tax_code, '') AS tax_code,
       posting.currency, sum(posting.amount_minor)::bigint AS amount_minor,
       coalesce(sum(posting.home_minor), 0)::bigint AS home_minor, max(posting.home_currency) AS home_currency
FROM ledger_entries entry JOIN ledger_postings posting ON posting.entry_id = entry.id
WHERE entry.mode = $1 AND entry.booked_on >= $2 AND entry.booked_on < $3
GROUP BY entry.booked_on, entry.kind, posting.account, posting.tax_code, posting.currency
HAVING sum(posting.amount_minor) <> 0 OR sum(posting.home_minor) <> 0
ORDER BY entry.booked_on, entry.kind COLLATE "C", posting.account, posting.tax_code COLLATE "C" NULLS FIRST,
         posting.currency
"""


async def sum_days_any_account(tx: Connection, period: Period) -> list[asyncpg.Record]:
    return await tx.fetch(SUM_DAYS, period.mode, *period.days)


async def datev_csv(tx: Connection, period: Period) -> AsyncIterator[str]:
    """Raises ChartIncomplete before the first line."""
    closed = await find_closed(tx, period.mode, period.start.date())
    chart = await require_chart(tx, period)
    yield _head(chart, period, period.end if closed is None else closed.closed_at, is_final=closed is not None)
    yield _line(COLUMNS)
    transit = chart.line(TRANSIT, "").number
    for row in await sum_days_any_account(tx, period):
        line = chart.line(row["account"], row["tax_code"])
        minor, currency, home, base = row["amount_minor"], row["currency"], row["home_currency"], ""
        if home and minor:
            base = _amount(row["home_minor"], home)
        elif home:
            minor, currency, home = row["home_minor"], home, None
        side = "S" if minor > 0 else "H"
        day: date = row["booked_on"]
        reference = f"{row['kind'][:8]}{day:%y%m%d}"
        before = (_amount(minor, currency), _text(side), _text(currency), "", base, _text(home or "") if base else "")
        cells = (*before, line.number, transit, _text(line.bu_key))
        yield _line((*cells, f"{day:%d%m}", _text(reference), _text(""), "", _text(describe(row["kind"]))), ready=True)


def _head(chart: Chart, period: Period, made_at: datetime, *, is_final: bool) -> str:
    first, last = period.start.date(), period.end.date() - timedelta(days=1)
    year = first.replace(year=first.year - (first.month < chart.year_begins), month=chart.year_begins)
    made = f"{made_at:%Y%m%d%H%M%S}{made_at.microsecond // 1000:03}"
    return _line(
        (
            *(_text("EXTF"), "700", "21", _text("Buchungsstapel"), "13", made, "", _text("RE"), _text(""), _text("")),
            *(str(chart.consultant), str(chart.client), f"{year:%Y%m%d}", str(chart.account_length)),
            *(f"{first:%Y%m%d}", f"{last:%Y%m%d}", _text(f"Tonne {first:%Y-%m}"), _text(""), "1", "0"),
            *(
                str(int(is_final)),
                _text(chart.currency),
                "",
                _text(""),
                "",
                "",
                _text(""),
                "",
                "",
                _text(""),
                _text(""),
            ),
        ),
        ready=True,
    )


def _amount(minor: int, currency: str) -> str:
    return format_money(abs(minor), currency).replace(".", ",")


def _text(value: str) -> str:
    return f'"{value[:LONGEST_TEXT].replace(chr(34), chr(34) * 2)}"'


def _line(cells: tuple[str, ...], *, ready: bool = False) -> str:
    """`ready` cells have their quotes."""
    return ";".join(cells if ready else map(_text, cells)) + "\r\n"
