"""What a month still needs before it can be closed."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta

from msgspec import Struct

from tonne.money.accounting.books.chart import TRANSIT, find_numbers
from tonne.money.accounting.books.errors import ChartIncomplete
from tonne.money.accounting.books.month_store import ClosedMonth, find_closed, find_open_before
from tonne.money.accounting.books.revalue import find_revaluations, missing_rates
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import BEGINNING, Period, count_due
from tonne.money.accounting.journal.sales import taxes_of
from tonne.money.accounting.reports.oss_report import find_oss_rates_any_account
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.selling.catalogue.prices.reference_rates import HomeRate

# A document of the last second of a month may be stored a moment after it.
SETTLING = timedelta(hours=1)
# Examples that are named.
SHOWN = 10


class TaxSum(Struct, frozen=True):
    """The tax of a month by its documents, and by the journal."""

    tax_code: str
    currency: str
    documents_minor: int
    booked_minor: int

    @property
    def is_equal(self) -> bool:
        return self.documents_minor == self.booked_minor

    @property
    def difference(self) -> str:
        documents, booked = (format_money(each, self.currency) for each in (self.documents_minor, self.booked_minor))
        return (
            f"The tax {self.tax_code or 'without a code'} of the documents is {documents} {self.currency}, that of the "
            f"journal {booked}: run `tonne doctor`."
        )


class MonthCheck(Struct, frozen=True):
    period: Period
    closed: ClosedMonth | None
    is_over: bool
    # An earlier month that must be closed first.
    open_before: date | None
    # Orders that were paid, and have no document yet.
    without_document: Sequence[str]
    taxes: Sequence[TaxSum]
    due: int
    # Currencies whose balances, or whose sales for the OSS, cannot be converted at the end of the month.
    without_rate: Sequence[str] = ()
    oss_rates: Mapping[str, HomeRate | None] = {}
    # What is missing in the chart of accounts, if there is one.
    has_chart: bool = True
    chart_gap: str = ""

    @property
    def warnings(self) -> list[str]:
        """What the month lacks for ever once it is closed."""
        if self.has_chart or self.closed is not None:
            return []
        without = "A month that is closed without one never has a file for DATEV"
        return [f"There is no chart of accounts. {without}: import it on Settings, Books, or go on without."]

    @property
    def refusals(self) -> list[str]:
        """Why the month cannot be closed, as sentences."""
        found = []
        if not self.is_over:
            found.append("The month can be closed one hour after its end.")
        if self.open_before is not None:
            found.append(f"Close {self.open_before:%Y-%m} first: it is open, and something is booked in it.")
        if self.without_document:
            more = ", and others" if len(self.without_document) > SHOWN else ""
            found.append(f"Paid orders have no document yet: {', '.join(self.without_document[:SHOWN])}{more}.")
        found += [tax.difference for tax in self.taxes if not tax.is_equal]
        if self.due:
            found.append(f"{self.due} changes are not booked yet: a worker books them within seconds.")
        if self.without_rate:
            found.append(
                f"There is no exchange rate of the last days of the month for {', '.join(self.without_rate)}: import "
                "it on Settings, Books."
            )
        if self.chart_gap and self.closed is None:
            found.append(f"{self.chart_gap} Import a complete one: a closed month keeps its chart.")
        return found


async def check_month(connection: Connection, period: Period, now: datetime) -> MonthCheck:
    month, chart_gap = period.start.date(), ""
    try:
        has_chart = await find_numbers(connection, period, since=BEGINNING, also=[(TRANSIT, "")]) is not None
    except ChartIncomplete as error:
        has_chart, chart_gap = True, str(error)
    oss_rates = await find_oss_rates_any_account(connection, period.mode, period.end.date())
    without_rate = missing_rates(await find_revaluations(connection, period))
    return MonthCheck(
        period=period,
        closed=await find_closed(connection, period.mode, month),
        is_over=now >= period.end + SETTLING,
        open_before=await find_open_before(connection, period.mode, month),
        without_document=await list_without_document_any_account(connection, period),
        taxes=await sum_taxes_any_account(connection, period),
        due=await count_due(connection),
        without_rate=sorted({*without_rate, *(each for each, rate in oss_rates.items() if rate is None)}),
        oss_rates=oss_rates,
        has_chart=has_chart,
        chart_gap=chart_gap,
    )


# An order that a captured payment paid for alone, and that was not billed. One that was cancelled before needs none.
LIST_WITHOUT_DOCUMENT = """
SELECT charge.order_id FROM charges charge
JOIN orders ON orders.account_id = charge.account_id AND orders.id = charge.order_id
WHERE charge.mode = $1 AND charge.settled_at >= $2 AND charge.settled_at < $3
  AND charge.status IN ('captured', 'refunded') AND NOT charge.is_surplus
  AND orders.status NOT IN ('cancelled', 'failed')
  AND NOT EXISTS (SELECT FROM invoice_orders billed
                  WHERE billed.account_id = charge.account_id AND billed.order_id = charge.order_id)
ORDER BY charge.settled_at LIMIT 100
"""


async def list_without_document_any_account(connection: Connection, period: Period) -> list[str]:
    rows = await connection.fetch(LIST_WITHOUT_DOCUMENT, period.mode, period.start, period.end)
    return [row["order_id"] for row in rows]


SUM_TAXES = f"""
SELECT currency, tax_code, coalesce(sum(documents_minor), 0)::bigint AS documents_minor,
       coalesce(sum(booked_minor), 0)::bigint AS booked_minor
FROM (SELECT document.currency::text AS currency, line.code AS tax_code,
             CASE document.kind WHEN 'credit_note' THEN -line.minor ELSE line.minor END AS documents_minor,
             0 AS booked_minor
      FROM tax_documents document
      CROSS JOIN LATERAL {taxes_of("document")} AS line
      WHERE document.mode = $1 AND document.issued_on >= $2 AND document.issued_on < $3
      UNION ALL
      SELECT currency, tax_code, 0, credit_minor - debit_minor FROM ledger_totals
      WHERE mode = $1 AND month >= $2 AND month < $3
        AND account IN ('{LedgerAccount.TAX}', '{LedgerAccount.TAX_NOT_DUE}')) AS tax
GROUP BY currency, tax_code HAVING sum(documents_minor) <> 0 OR sum(booked_minor) <> 0
ORDER BY currency, tax_code COLLATE "C"
"""  # noqa: S608 - our own constants


async def sum_taxes_any_account(connection: Connection, period: Period) -> list[TaxSum]:
    """By currency and code. Tax that is moved between the two accounts does not count."""
    rows = await connection.fetch(SUM_TAXES, period.mode, *period.days)
    return [TaxSum(**row) for row in rows]
