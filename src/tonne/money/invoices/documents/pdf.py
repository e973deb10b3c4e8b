"""Invoices, with the annex of their orders, and credit notes as PDFs, not signed yet. They are rendered once."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec

from tonne.money.invoices.documents.electronic_credit_note import electronic_record
from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.documents.factur_x import factur_x_xml
from tonne.money.invoices.documents.labels import credit_note_labels, invoice_labels, sum_label
from tonne.money.invoices.documents.pdf_a3 import mark_as_factur_x
from tonne.money.invoices.documents.record import CreditNoteRecord, DocumentRecord, InvoiceRecord
from tonne.money.invoices.tax_documents import TaxDocument
from tonne.platform.db.database import Connection
from tonne.platform.documents.pdf import PdfFailed, label_inputs, render_pdf
from tonne.platform.values.amounts import format_money, format_tonnes
from tonne.platform.web.translate import Translator, translator


class AnnexOrder(msgspec.Struct, frozen=True):
    """`reference` is the client's own. `amount` is the share of the order: with the fee, without tax."""

    order_id: str
    placed_on: str
    reference: str
    quantity: str
    amount: str


class AnnexAccount(msgspec.Struct, frozen=True):
    name: str
    orders: list[AnnexOrder]
    amount: str


class AnnexSums(msgspec.Struct, frozen=True):
    """What the orders cost as they were placed, what billing them together takes off, and what is billed."""

    placed: str
    rounding: str
    billed: str


Annex = list[AnnexAccount]

LIST_ANNEX = """
SELECT billed.account_id, accounts.name, billed.order_id, billed.placed_at, billed.reference, billed.quantity_grams,
       billed.offset_minor + billed.fee_minor AS net_minor
FROM invoice_orders billed JOIN accounts ON accounts.id = billed.account_id
WHERE billed.invoice_id = coalesce((SELECT note.invoice_id FROM credit_notes note WHERE note.id = $2), $1)
ORDER BY accounts.name, billed.account_id, billed.placed_at, billed.order_id
"""


async def load_annex(connection: Connection, invoice: TaxDocument) -> Annex:
    """Empty unless it is an invoice of several orders. What was billed never changes, so neither does the annex."""
    record = invoice.read_content()
    if isinstance(record, CreditNoteRecord) or record.order_count == 1:
        return []
    accounts: dict[str, tuple[str, list[AnnexOrder], list[int]]] = {}
    for row in await connection.fetch(LIST_ANNEX, invoice.id, invoice.corrects):
        _, orders, amounts = accounts.setdefault(row["account_id"], (row["name"], [], []))
        amounts.append(row["net_minor"])
        orders.append(
            AnnexOrder(
                order_id=row["order_id"],
                placed_on=row["placed_at"].astimezone(UTC).date().isoformat(),
                reference=row["reference"],
                quantity=format_tonnes(row["quantity_grams"]),
                amount=format_money(row["net_minor"], invoice.currency),
            )
        )
    return [
        AnnexAccount(name, orders, format_money(sum(amounts), invoice.currency))
        for name, orders, amounts in accounts.values()
    ]


TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = TEMPLATES / "invoice.typ"
CREDIT_NOTE = TEMPLATES / "credit_note.typ"


def invoice_pdf(record: InvoiceRecord, *, annex: Annex | None = None) -> bytes:
    """The same arguments give the same bytes. What is known after the issue is on a sheet of its own: `state_pdf`.

    With what Factur-X needs, the file is a PDF/A-3 with the XML embedded. CPU-bound: call it through
    `asyncio.to_thread`.
    """
    issued_at = _midnight(record.issued_on)
    _ = translator(record.language)
    record = _translated(record, _)
    printed = _printed(record) | {
        "annex": [msgspec.to_builtins(each) | {"sum_label": sum_label(len(each.orders), _)} for each in annex or []],
        "annex_sums": msgspec.to_builtins(_annex_sums(record)) if annex else None,
    }
    inputs = label_inputs(_, invoice_labels(_))
    if (code := epc_qr_svg(record)) is not None:
        inputs["qr"] = code
    return _document_pdf(TEMPLATE, record, printed, issued_at, inputs)


def _annex_sums(record: InvoiceRecord) -> AnnexSums | None:
    """None if rounding made no difference."""
    if record.placed_total is None:
        return None
    placed, billed = Decimal(record.placed_total), Decimal(record.total) - sum(Decimal(tax.tax) for tax in record.taxes)
    return None if placed == billed else AnnexSums(f"{placed:f}", f"{placed - billed:f}", f"{billed:f}")


def credit_note_pdf(record: CreditNoteRecord) -> bytes:
    """The same record gives the same bytes. With what Factur-X needs, the XML is embedded, as in an invoice.

    CPU-bound: call it through `asyncio.to_thread`.
    """
    issued_at = _midnight(record.issued_on)
    _ = translator(record.language)
    if record.note is not None:
        record = msgspec.structs.replace(record, note=_.text(record.note))
    inputs = label_inputs(_, credit_note_labels(record, _))
    return _document_pdf(CREDIT_NOTE, record, _printed(record), issued_at, inputs)


def _printed(record: DocumentRecord) -> dict[str, Any]:
    printed: dict[str, Any] = msgspec.to_builtins(record)
    printed["buyer"]["vat_id"] = record.buyer.vat_id
    if isinstance(record, InvoiceRecord):
        printed["due"] = record.due
    return printed


def _translated(record: InvoiceRecord, _: Translator) -> InvoiceRecord:
    """Records contain our own texts in English. Other labels and notes have no translation and stay as they are."""
    fee, *more = [msgspec.structs.replace(each, label=_.text(each.label)) for each in (record.fee, *record.more_fees)]
    allowances = [msgspec.structs.replace(each, label=_.text(each.label)) for each in record.allowances]
    note = None if record.note is None else _.text(record.note)
    return msgspec.structs.replace(record, fee=fee, more_fees=more, allowances=allowances, note=note)


def _document_pdf(
    template: Path,
    record: InvoiceRecord | CreditNoteRecord,
    printed: dict[str, Any],
    issued_at: datetime,
    inputs: dict[str, str],
) -> bytes:
    electronic = electronic_record(record)
    if electronic is None:
        return render_pdf(template, printed, issued_at=issued_at, inputs=inputs)
    inputs |= {"xml": factur_x_xml(electronic).decode()}
    try:
        pdf = render_pdf(template, printed, issued_at=issued_at, inputs=inputs, standard="a-3b")
    except PdfFailed:
        # PDF/A forbids characters that no font has, such as emoji in a name. The XML is embedded all the same.
        pdf = render_pdf(template, printed, issued_at=issued_at, inputs=inputs)
    return mark_as_factur_x(pdf)


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)
