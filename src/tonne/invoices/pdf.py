"""Render an invoice as a PDF."""

from datetime import UTC, date, datetime, time
from pathlib import Path

import msgspec

from tonne.gateways.pdf import render_pdf
from tonne.invoices.record import InvoiceRecord

TEMPLATE = Path(__file__).parent / "templates" / "invoice.typ"


def invoice_pdf(record: InvoiceRecord) -> bytes:
    """The same record gives the same bytes. CPU-bound: call it through `asyncio.to_thread`."""
    issued_at = datetime.combine(date.fromisoformat(record.issued_on), time(), UTC)
    return render_pdf(TEMPLATE, msgspec.to_builtins(record), issued_at=issued_at)
