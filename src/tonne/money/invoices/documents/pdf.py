"""Invoices, with the annex of their orders, and credit notes as PDFs, signed before they leave the service."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from tonne.money.invoices.documents.electronic_credit_note import electronic_credit_note
from tonne.money.invoices.documents.epc_qr import epc_qr_svg
from tonne.money.invoices.documents.factur_x import factur_x_xml, is_electronic
from tonne.money.invoices.documents.labels import credit_note_labels, invoice_labels, sum_label
from tonne.money.invoices.documents.pdf_a3 import mark_as_factur_x
from tonne.money.invoices.documents.record import Closing, CreditNoteRecord, DocumentRecord, InvoiceRecord, Remaining
from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.documents.pdf import PdfFailed, label_inputs, render_pdf
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.keys.signing.keys import SignDocuments
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
WHERE billed.invoice_id = $1 ORDER BY accounts.name, billed.account_id, billed.placed_at, billed.order_id
"""


async def load_annex(connection: Connection, invoice: Invoice) -> Annex:
    """Empty for an invoice of one order. What was billed never changes, so neither does the annex."""
    if invoice.order_count == 1:
        return []
    accounts: dict[str, tuple[str, list[AnnexOrder], list[int]]] = {}
    for row in await connection.fetch(LIST_ANNEX, invoice.id):
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


_TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = _TEMPLATES / "invoice.typ"
CREDIT_NOTE = _TEMPLATES / "credit_note.typ"


def invoice_pdf(
    record: InvoiceRecord,
    closing: Closing | None = None,
    *,
    annex: Annex | None = None,
    remaining: Remaining | None = None,
) -> bytes:
    """The same arguments give the same bytes. A closed invoice does not ask for money, and a
    reduced one asks for what is `remaining`.

    With what Factur-X needs, the file is a PDF/A-3 with the XML embedded. An invoice closed without a payment has
    no XML: software could pay it. CPU-bound: call it through `asyncio.to_thread`.
    """
    issued_at = _midnight(record.issued_on)
    _ = translator(record.language)
    record = _translated(record, _)
    if closing is None and record.paid_on is not None:
        closing = Closing("paid", record.paid_on)
    printed = _printed(record) | {
        "closing": msgspec.to_builtins(closing),
        "annex": [msgspec.to_builtins(each) | {"sum_label": sum_label(len(each.orders), _)} for each in annex or []],
        "annex_sums": msgspec.to_builtins(_annex_sums(record)) if annex else None,
        "remaining": msgspec.to_builtins(remaining),
    }
    inputs = label_inputs(_, invoice_labels(_))
    if closing is None and (code := epc_qr_svg(record, remaining)) is not None:
        inputs["qr"] = code
    if not is_electronic(record) or (closing is not None and closing.status != "paid"):
        return render_pdf(TEMPLATE, printed, issued_at=issued_at, inputs=inputs)
    inputs["xml"] = factur_x_xml(record, closing, remaining).decode()
    return _electronic_pdf(TEMPLATE, printed, issued_at, inputs)


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
    printed, electronic = _printed(record), electronic_credit_note(record)
    inputs = label_inputs(_, credit_note_labels(record, _))
    if not is_electronic(electronic):
        return render_pdf(CREDIT_NOTE, printed, issued_at=issued_at, inputs=inputs)
    return _electronic_pdf(CREDIT_NOTE, printed, issued_at, inputs | {"xml": factur_x_xml(electronic).decode()})


def _printed(record: DocumentRecord) -> dict[str, Any]:
    printed: dict[str, Any] = msgspec.to_builtins(record)
    printed["buyer"]["vat_id"] = record.buyer.vat_id
    return printed


def _translated(record: InvoiceRecord, _: Translator) -> InvoiceRecord:
    """Records contain our own texts in English. Other labels and notes have no translation and stay as they are."""
    fee, *more = [msgspec.structs.replace(each, label=_.text(each.label)) for each in (record.fee, *record.more_fees)]
    allowances = [msgspec.structs.replace(each, label=_.text(each.label)) for each in record.allowances]
    note = None if record.note is None else _.text(record.note)
    return msgspec.structs.replace(record, fee=fee, more_fees=more, allowances=allowances, note=note)


def _electronic_pdf(template: Path, printed: dict[str, Any], issued_at: datetime, inputs: dict[str, str]) -> bytes:
    try:
        pdf = render_pdf(template, printed, issued_at=issued_at, inputs=inputs, standard="a-3b")
    except PdfFailed:
        # PDF/A forbids characters that no font has, such as emoji in a name. The XML is embedded all the same.
        pdf = render_pdf(template, printed, issued_at=issued_at, inputs=inputs)
    return mark_as_factur_x(pdf)


class RenderInvoice(Struct, frozen=True):
    """Every invoice and credit note that leaves the service as a PDF is rendered here."""

    signing: SignDocuments

    async def invoice(
        self,
        record: InvoiceRecord,
        closing: Closing | None = None,
        *,
        annex: Annex | None = None,
        remaining: Remaining | None = None,
    ) -> bytes:
        """The signed PDF, see `invoice_pdf`. Raises SigningUnavailable."""
        pdf = await in_turn(invoice_pdf, record, closing, annex=annex, remaining=remaining)
        # A closed invoice says on which day it was closed.
        return await self.signing.sign(pdf, _midnight(record.issued_on if closing is None else closing.on))

    async def credit_note(self, record: CreditNoteRecord) -> bytes:
        """The signed PDF, see `credit_note_pdf`. Raises SigningUnavailable."""
        return await self.signing.sign(await in_turn(credit_note_pdf, record), _midnight(record.issued_on))


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)
