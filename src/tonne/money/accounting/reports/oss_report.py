"""Sales of a quarter with the tax of other countries (OSS), by country and rate.

Amounts are converted by the rate of the quarter's last day (Art. 369h of Directive 2006/112/EC).
"""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from tonne.money.accounting.journal.sales import taxes_of as sql_of_taxes
from tonne.money.accounting.reports.sales_list import SalesDocument, read_sales_any_account, taxes_of
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.prices.reference_rates import HomeRate, find_home_rates

EURO = "EUR"
HEAD = ("country", "rate_percent", "currency", "net", "tax", "rate_of", "net_eur", "tax_eur")
_ENDING = "-OSS"


class _OssLine(NamedTuple):
    country: str
    rate: str
    currency: str


class OssSums:
    """In minor units. Credit notes count against the quarter in which they were issued."""

    def __init__(self) -> None:
        self.net: Counter[_OssLine] = Counter()
        self.tax: Counter[_OssLine] = Counter()

    def add(self, document: SalesDocument) -> None:
        sign = -1 if document.kind == "credit_note" else 1
        for each in taxes_of(document):
            if each.code.endswith(_ENDING):
                line = _OssLine(each.code.partition("-")[0], each.rate or "", document.currency)
                self.net[line] += sign * int(each.net.replace(".", ""))
                self.tax[line] += sign * int(each.tax.replace(".", ""))

    def rows(self, rates: Mapping[str, HomeRate | None]) -> list[tuple[str, ...]]:
        """Without a rate, the amounts in euros are empty."""
        found = []
        for line in sorted(self.net):
            parts = [self.net[line], self.tax[line]]
            amounts = [format_money(minor, line.currency) for minor in parts]
            rate = rates.get(line.currency)
            if line.currency == EURO:
                euros = amounts
            else:
                euros = [
                    "" if rate is None else format_money(rate.convert(minor, line.currency), EURO) for minor in parts
                ]
            found.append((*line, *amounts, "" if rate is None else rate.day.isoformat(), *euros))
        return found


def _quarter_start(end: date) -> date | None:
    """Of the quarter that ends before this first day of a month. None in the middle of a quarter."""
    return date(end.year - (end.month == 1), (end.month + 8) % 12 + 1, 1) if end.month % 3 == 1 else None


LIST_CURRENCIES = f"""
SELECT DISTINCT document.currency::text AS currency
FROM tax_documents document CROSS JOIN LATERAL {sql_of_taxes("document")} AS line
WHERE document.mode = $1 AND document.issued_on >= $2 AND document.issued_on < $3 AND line.code LIKE '%{_ENDING}'
  AND document.currency <> '{EURO}'
"""  # noqa: S608 - our own constants


async def find_oss_rates_any_account(connection: Connection, mode: Mode, end: date) -> dict[str, HomeRate | None]:
    """Each foreign currency in the report of the quarter that ends here, with the rate of its last day."""
    start = _quarter_start(end)
    if start is None:
        return {}
    currencies = {row["currency"] for row in await connection.fetch(LIST_CURRENCIES, mode, start, end)}
    rates = await find_home_rates(connection, currencies, EURO, end - timedelta(days=1))
    return {currency: rates.get(currency) for currency in sorted(currencies)}


async def oss_csv(tx: Connection, mode: Mode, end: date, rates: Mapping[str, HomeRate | None]) -> AsyncIterator[str]:
    """Of the quarter that ends with the month before `end`; only the head in other months."""
    yield csv_text([HEAD])
    start = _quarter_start(end)
    if start is None:
        return
    sums = OssSums()
    async for batch in read_sales_any_account(tx, mode, start, end, None):
        for document in batch:
            sums.add(document)
    yield csv_text(sums.rows(rates))
