"""The content of a credit note, frozen when it is issued."""

from typing import Literal

import msgspec

from tonne.money.invoices.documents.record import InvoiceBuyer, InvoiceSeller, InvoiceTax
from tonne.platform.values.language import DEFAULT_LANGUAGE


class CreditNoteLine(msgspec.Struct, frozen=True):
    """An order, or all credited orders of an account if there are many. `reference` is the client's own."""

    order_id: str
    reference: str
    amount: str


class CreditNoteRecord(msgspec.Struct, frozen=True):
    """Dates as `YYYY-MM-DD`. The amounts of the lines sum to the total, which contains the tax."""

    number: str
    mode: Literal["live", "test"]
    issued_on: str
    invoice_number: str
    invoice_issued_on: str
    # Whether nothing of the invoice is left.
    cancels_invoice: bool
    seller: InvoiceSeller
    buyer: InvoiceBuyer
    currency: str
    lines: list[CreditNoteLine]
    order_count: int
    tax: str | None
    total: str
    reason: str | None
    note: str | None
    # Whether the invoice was paid when the note was issued. Then money goes back.
    invoice_paid: bool = False
    # Whether a card pays what is left of it, so that the buyer has nothing to do.
    paid_by_card: bool = False
    # What the cancelled invoice had received, which goes back.
    returned: str | None = None
    # What is credited, by the only treatment and rate of the invoice. None if it has several.
    credited_tax: InvoiceTax | None = None
    # That of the invoice.
    language: str = DEFAULT_LANGUAGE
