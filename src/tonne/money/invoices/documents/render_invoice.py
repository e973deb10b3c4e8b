"""Renders and signs invoices and credit notes."""

import asyncio
from datetime import UTC, date, datetime, time

from msgspec import Struct

from tonne.money.invoices.documents.annex import Annex
from tonne.money.invoices.documents.credit_note_record import CreditNoteRecord
from tonne.money.invoices.documents.pdf import credit_note_pdf, invoice_pdf
from tonne.money.invoices.documents.record import Closing, InvoiceRecord, Remaining
from tonne.platform.keys.signing.sign_documents import SignDocuments


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
        pdf = await asyncio.to_thread(invoice_pdf, record, closing, annex=annex, remaining=remaining)
        # A closed invoice says on which day it was closed.
        return await self.signing.sign(pdf, _midnight(record.issued_on if closing is None else closing.on))

    async def credit_note(self, record: CreditNoteRecord) -> bytes:
        """The signed PDF, see `credit_note_pdf`. Raises SigningUnavailable."""
        return await self.signing.sign(await asyncio.to_thread(credit_note_pdf, record), _midnight(record.issued_on))


def _midnight(day: str) -> datetime:
    return datetime.combine(date.fromisoformat(day), time(), UTC)
