"""Invoices and credit notes of a month with their tax, one row per document, treatment and rate, for a tax return."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import date, datetime
from typing import NamedTuple

import msgspec

from tonne.money.invoices.documents.record import CreditNoteRecord, HomeTax, InvoiceBuyer, InvoiceRecord, InvoiceTax
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.csv_text import csv_text
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode
from tonne.platform.values.tax_codes import NO_TAX_CODE
from tonne_verify.formulas import escape_formula

# Documents per round trip: bounds the memory of an export.
BATCH = 500
SALES_HEAD = (
    *("document", "number", "issued_on", "tax_point", "supplied_on", "organisation_id"),
    *("buyer", "buyer_country", "buyer_tax_id"),
    *("consultation_number", "vat_id_checked_on"),
    *("tax_code", "treatment", "rate_percent", "currency", "net", "tax", "total"),
    *("home_currency", "home_net", "home_tax"),
    *("corrects", "booked_tax"),
)
# The first column of the last lines.
TOTAL = "total"


class SalesDocument(msgspec.Struct, frozen=True):
    kind: str
    number: str
    issued_on: date
    organisation_id: str
    currency: str
    total_minor: int
    tax_minor: int | None
    record: bytes
    # When its tax became due, or the last part of it. None if it did not by the end of the month.
    tax_point: date | None = None
    # Of the orders of an invoice, once all of them are complete.
    supplied_from: date | None = None
    supplied_to: date | None = None
    # The number of the document that this one takes back, or a part of it.
    corrected: str | None = None

    @property
    def supplied_on(self) -> str:
        """A day, or the first and the last one as ISO 8601 writes an interval."""
        days = dict.fromkeys(day.isoformat() for day in (self.supplied_from, self.supplied_to) if day is not None)
        return "/".join(days)


# What happened to an order from $4 on does not count, so that the list of a closed month does not change.
LIST_SALES = """
SELECT document.kind, document.reference AS number, document.issued_on, document.organisation_id,
       document.currency::text AS currency, document.total_minor, document.tax_minor, document.record,
       supply.supplied_from, supply.supplied_to, corrected.reference AS corrected,
       CASE document.tax_point WHEN 'invoice' THEN document.issued_on
            ELSE greatest(due.on_day, CASE WHEN due.on_day IS NOT NULL AND document.corrects IS NOT NULL
                                           THEN document.issued_on END) END AS tax_point
FROM tax_documents document
LEFT JOIN credit_notes note ON note.id IN (document.id, document.corrects)
LEFT JOIN tax_documents corrected ON corrected.id = document.corrects
CROSS JOIN LATERAL (
    SELECT max(entry.event_at AT TIME ZONE 'UTC')::date AS on_day FROM ledger_entries entry
    WHERE entry.kind = 'tax_due' AND entry.booked_on < $3
      AND entry.source_id = coalesce(note.invoice_id, document.id)
) AS due
LEFT JOIN LATERAL (
    SELECT min(orders.supplied_on) AS supplied_from, max(orders.supplied_on) AS supplied_to
    FROM invoice_orders billed
    JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
    WHERE billed.invoice_id = CASE WHEN note.cause = 'replacement' AND note.id = document.corrects
                                   THEN note.invoice_id ELSE document.id END
      AND NOT (orders.status IN ('cancelled', 'failed')
               AND orders.status_changed_at < coalesce($4::timestamptz, 'infinity'))
    HAVING bool_and(orders.supplied_on IS NOT NULL
                    AND orders.status_changed_at < coalesce($4::timestamptz, 'infinity'))
) AS supply ON true
WHERE document.mode = $1 AND document.issued_on >= $2 AND document.issued_on < $3
ORDER BY document.issued_on, document.series DESC, document.number
"""


async def read_sales_any_account(
    tx: Connection, mode: Mode, first_day: date, end: date, known_until: datetime | None
) -> AsyncIterator[Sequence[SalesDocument]]:
    """The documents issued from `first_day` until before `end`, in batches. Call it in a transaction."""
    cursor = await tx.cursor(LIST_SALES, mode, first_day, end, known_until)
    while rows := await cursor.fetch(BATCH):
        yield [SalesDocument(**row) for row in rows]


class _Part(NamedTuple):
    """Of a document, or of all documents of a month: that of one tax code. A credit note's is negative."""

    code: str
    treatment: str
    rate: str
    currency: str
    net_minor: int
    tax_minor: int
    home_currency: str = ""
    home_net_minor: int | None = None
    home_tax_minor: int | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Of a document with several rates, the total is that of the rate."""
        minor = (self.net_minor, self.tax_minor, self.net_minor + self.tax_minor)
        home = (self.home_net_minor, self.home_tax_minor)
        return (
            *(self.code, self.treatment, self.rate, self.currency),
            *(format_money(each, self.currency) for each in minor),
            self.home_currency,
            *("" if each is None else format_money(each, self.home_currency) for each in home),
        )


class SalesText:
    """The list as CSV: `rows` of each document, then `totals`."""

    def __init__(self) -> None:
        self._minor: Counter[tuple[str, str, str]] = Counter()
        self._home: dict[tuple[str, str], str] = {}

    def rows(self, document: SalesDocument) -> str:
        """Amounts of credit notes are negative. A document without known parts has one row without a treatment."""
        buyer, taxes, home = _read(document)
        parts = _parts(document, taxes, home)
        for part in parts:
            self._add(part)
        checked = buyer.vat_check
        country = "" if buyer.postal is None else buyer.postal.country
        before = (
            *(document.kind, document.number, document.issued_on.isoformat()),
            *("" if document.tax_point is None else document.tax_point.isoformat(), document.supplied_on),
            document.organisation_id,
            *(escape_formula(buyer.name), country, escape_formula(buyer.tax_id or "")),
            *(("", "") if checked is None else (escape_formula(checked.consultation_number or ""), checked.checked_on)),
        )
        return csv_text([(*before, *part.cells, document.corrected or "", "") for part in parts])

    def _add(self, part: _Part) -> None:
        key = part.currency, part.code
        self._minor[*key, "net"] += part.net_minor
        self._minor[*key, "tax"] += part.tax_minor
        if part.home_currency:
            self._home[key] = part.home_currency
            self._minor[*key, "home_net"] += part.home_net_minor or 0
            self._minor[*key, "home_tax"] += part.home_tax_minor or 0

    def totals(self, booked: Mapping[tuple[str, str], int]) -> str:
        """One row per currency and tax code. `booked` is what the period adds to the tax accounts in the books."""
        found = []
        for currency, code in sorted({key[:2] for key in self._minor} | booked.keys()):
            net, tax, home_net, home_tax = (
                self._minor[currency, code, each] for each in ("net", "tax", "home_net", "home_tax")
            )
            part = _Part(code, "", "", currency, net, tax)
            if home := self._home.get((currency, code)):
                part = part._replace(home_currency=home, home_net_minor=home_net, home_tax_minor=home_tax)
            before = (TOTAL, *[""] * (SALES_HEAD.index("tax_code") - 1))
            found.append((*before, *part.cells, "", format_money(booked.get((currency, code), 0), currency)))
        return csv_text(found)


def sales_head() -> str:
    return csv_text([SALES_HEAD])


class _TaxesOfRecord(msgspec.Struct, frozen=True):
    taxes: list[InvoiceTax] = []


def taxes_of(document: SalesDocument) -> Sequence[InvoiceTax]:
    return msgspec.json.decode(document.record, type=_TaxesOfRecord).taxes


def _read(document: SalesDocument) -> tuple[InvoiceBuyer, Sequence[InvoiceTax], HomeTax | None]:
    if document.kind != "credit_note":
        invoice = msgspec.json.decode(document.record, type=InvoiceRecord)
        return invoice.buyer, invoice.taxes, invoice.home
    note = msgspec.json.decode(document.record, type=CreditNoteRecord)
    return note.buyer, note.taxes, note.home


def _parts(document: SalesDocument, taxes: Sequence[InvoiceTax], home: HomeTax | None) -> list[_Part]:
    sign = -1 if document.kind == "credit_note" else 1
    if not taxes:
        tax_minor = document.tax_minor or 0
        code, net_minor = "" if tax_minor else NO_TAX_CODE, document.total_minor - tax_minor
        return [_Part(code, "", "", document.currency, sign * net_minor, sign * tax_minor)]
    found = []
    for tax in taxes:
        minor = sign * _minor(tax.net), sign * _minor(tax.tax)
        part = _Part(tax.code, tax.treatment, tax.rate or "", document.currency, *minor)
        if home is not None and tax.home_net and tax.home_tax:
            amounts = sign * _minor(tax.home_net), sign * _minor(tax.home_tax)
            part = part._replace(home_currency=home.currency, home_net_minor=amounts[0], home_tax_minor=amounts[1])
        found.append(part)
    return found


def _minor(amount: str) -> int:
    """Of an amount with all decimals of its currency."""
    return int(amount.replace(".", ""))
