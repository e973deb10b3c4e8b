"""The content of a credit note, frozen when it is issued."""

import msgspec

from tonne.money.invoices.documents.record import DocumentRecord, InvoiceTax


class CreditNoteLine(msgspec.Struct, frozen=True):
    """An order, or all credited orders of an account if there are many. `reference` is the client's own."""

    order_id: str
    reference: str
    amount: str


class CreditNoteRecord(DocumentRecord, frozen=True, kw_only=True):
    """The amounts of the lines sum to the total, which contains the tax."""

    invoice_number: str
    invoice_issued_on: str
    # Whether nothing of the invoice is left.
    cancels_invoice: bool
    lines: list[CreditNoteLine]
    order_count: int
    tax: str | None
    reason: str | None
    # Whether the invoice was paid when the note was issued. Then money goes back.
    invoice_paid: bool = False
    # What the cancelled invoice had received, which goes back.
    returned: str | None = None
    # What is credited, by the only treatment and rate of the invoice. None if it has several.
    credited_tax: InvoiceTax | None = None
