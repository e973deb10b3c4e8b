"""Invoices and credit notes of a month with their tax, one row per document, treatment and rate, for a tax return."""

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime

import msgspec

from tonne.money.invoices.documents.record import CreditNoteRecord, HomeTax, InvoiceBuyer, InvoiceRecord, InvoiceTax
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.formulas import escape_formula
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Mode
from tonne.platform.values.tax_codes import NO_TAX_CODE

# Documents per round trip: bounds the memory of an export.
BATCH = 500
SALES_HEAD = (
    *("document", "number", "issued_on", "tax_point", "supplied_on", "organisation_id"),
    *("buyer", "buyer_country", "buyer_tax_id"),
    *("consultation_number", "vat_id_checked_on"),
    *("tax_code", "treatment", "rate_percent", "currency", "net", "tax", "total"),
    *("home_currency", "home_net", "home_tax"),
)


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

    @property
    def supplied_on(self) -> str:
        """A day, or the first and the last one as ISO 8601 writes an interval."""
        days = dict.fromkeys(day.isoformat() for day in (self.supplied_from, self.supplied_to) if day is not None)
        return "/".join(days)


# What happened to an order from $4 on does not count, so that the list of a closed month does not change.
LIST_SALES = """
SELECT document.kind, document.reference AS number, document.issued_on, document.organisation_id,
       document.currency::text AS currency, document.total_minor, document.tax_minor, document.record,
       supply.supplied_from, supply.supplied_to,
       CASE document.tax_point WHEN 'invoice' THEN document.issued_on
            ELSE greatest(due.on_day, CASE WHEN due.on_day IS NOT NULL AND document.corrects IS NOT NULL
                                           THEN document.issued_on END) END AS tax_point
FROM tax_documents document
LEFT JOIN credit_notes note ON note.id IN (document.id, document.corrects)
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


def sales_rows(document: SalesDocument) -> str:
    """As CSV. Amounts of credit notes are negative. One without known parts has one row without a treatment."""
    sign = "-" if document.kind == "credit_note" else ""
    buyer, taxes, home = _read(document)
    checked = buyer.vat_check
    country = "" if buyer.postal is None else buyer.postal.country
    before = (
        *(document.kind, document.number, document.issued_on.isoformat()),
        *("" if document.tax_point is None else document.tax_point.isoformat(), document.supplied_on),
        document.organisation_id,
        *(escape_formula(buyer.name), country, escape_formula(buyer.tax_id or "")),
        *(("", "") if checked is None else (escape_formula(checked.consultation_number or ""), checked.checked_on)),
    )
    stream = io.StringIO()
    writer = csv.writer(stream)
    for tax in taxes:
        # On a document with several rates the total is that of the rate.
        total = _sum(tax, document.currency)
        amounts = (f"{sign}{tax.net}", f"{sign}{tax.tax}", f"{sign}{total}")
        national = [f"{sign}{amount}" if amount else "" for amount in (tax.home_net, tax.home_tax)]
        kind = (tax.code, tax.treatment, tax.rate or "", document.currency)
        writer.writerow((*before, *kind, *amounts, "" if home is None else home.currency, *national))
    if not taxes:
        tax_minor, currency = document.tax_minor or 0, document.currency
        parts = (document.total_minor - tax_minor, tax_minor, document.total_minor)
        spelled = (f"{sign}{format_money(part, currency)}" for part in parts)
        writer.writerow((*before, "" if tax_minor else NO_TAX_CODE, "", "", currency, *spelled, "", "", ""))
    return stream.getvalue()


def sales_head() -> str:
    return ",".join(SALES_HEAD) + "\r\n"


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


def _sum(tax: InvoiceTax, currency: str) -> str:
    digits = len(format_money(0, currency).partition(".")[2])
    minor = sum(int(each.replace(".", "")) for each in (tax.net, tax.tax))
    return format_money(minor, currency) if digits or minor == 0 else str(minor)
