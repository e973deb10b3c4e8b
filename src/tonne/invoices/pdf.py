"""Render an invoice as a PDF."""

from datetime import UTC, date, datetime, time
from pathlib import Path

import msgspec

from tonne.gateways.pdf import render_pdf
from tonne.invoices.credit_note_record import CreditNoteRecord
from tonne.invoices.record import Closing, InvoiceRecord

_TEMPLATES = Path(__file__).parent / "templates"
TEMPLATE = _TEMPLATES / "invoice.typ"
CREDIT_NOTE = _TEMPLATES / "credit_note.typ"


def invoice_pdf(record: InvoiceRecord, closing: Closing | None = None) -> bytes:
    """The same record and closing give the same bytes. A closed invoice does not ask for money.

    CPU-bound: call it through `asyncio.to_thread`.
    """
    issued_at = datetime.combine(date.fromisoformat(record.issued_on), time(), UTC)
    printed = msgspec.to_builtins(record) | {"closing": msgspec.to_builtins(closing)}
    return render_pdf(TEMPLATE, printed, issued_at=issued_at)


def credit_note_pdf(record: CreditNoteRecord) -> bytes:
    """The same record gives the same bytes. CPU-bound: call it through `asyncio.to_thread`."""
    issued_at = datetime.combine(date.fromisoformat(record.issued_on), time(), UTC)
    return render_pdf(CREDIT_NOTE, msgspec.to_builtins(record), issued_at=issued_at)
