"""Render an invoice as a PDF."""

from datetime import UTC, date, datetime, time
from pathlib import Path

import msgspec

from tonne.gateways.pdf import render_pdf
from tonne.invoices.record import Closing, InvoiceRecord

TEMPLATE = Path(__file__).parent / "templates" / "invoice.typ"


def invoice_pdf(record: InvoiceRecord, closing: Closing | None = None) -> bytes:
    """The same record and closing give the same bytes. A closed invoice does not ask for money.

    CPU-bound: call it through `asyncio.to_thread`.
    """
    issued_at = datetime.combine(date.fromisoformat(record.issued_on), time(), UTC)
    printed = msgspec.to_builtins(record) | {"closing": msgspec.to_builtins(closing)}
    return render_pdf(TEMPLATE, printed, issued_at=issued_at)
