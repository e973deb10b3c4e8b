"""Take back a credit note whose refund failed after it had succeeded: an invoice over the same amount."""

from typing import Any

import msgspec

from tonne.money.invoices.credit_notes.credit_note import CreditNote
from tonne.money.invoices.credit_notes.store import mark_taken_back
from tonne.money.invoices.documents.record import CorrectedInvoice, InvoiceFee, InvoiceRecord
from tonne.money.invoices.model import NO_BANK, Invoice
from tonne.money.invoices.store import reduce_credit
from tonne.money.invoices.tax_documents import (
    DocumentKind,
    TaxDocument,
    insert_documents,
    reference_in,
    take_issue_numbers,
)
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, new_id, same_named
from tonne.platform.web.translate import translator


async def take_back(tx: Connection, invoice: Invoice, note: CreditNote, *, by: By) -> TaxDocument:
    """Issue the invoice, and count the credit note no longer on its locked invoice.

    It is a simplified one if the credit note corrects one: neither states the address of the buyer. The row of the
    series is locked from here to the commit.
    """
    credited = note.read_record()
    kind = invoice.kind if credited.invoice_number == invoice.reference else DocumentKind.INVOICE
    number, issued_on = await take_issue_numbers(tx, kind, note.mode, 1, by.at)
    _ = translator(credited.language)
    label = _("Takes back credit note %(number)s", number=note.reference)
    taxes = credited.taxes
    fees = [InvoiceFee(label, each.net, each.treatment, each.rate) for each in taxes]
    record = same_named(
        InvoiceRecord,
        credited,
        number=reference_in(kind, note.mode, number),
        issued_on=issued_on.isoformat(),
        due_on=issued_on.isoformat(),
        order_id=credited.lines[0].order_id if credited.order_count == 1 else "",
        lines=[],
        fee=fees[0],
        more_fees=fees[1:],
        taxes=[each for each in taxes if each.treatment != "none"],
        bank=NO_BANK,
        reference=reference_in(kind, note.mode, number),
        document=kind.value,
        corrects=CorrectedInvoice(note.reference, note.issued_on.isoformat()),
        paid_on=issued_on.isoformat(),
        order_count=1,
        supplied_on=None,
        supply=None,
        period=None,
        account=None,
        order_reference=None,
    )
    document = same_named(
        TaxDocument,
        note,
        id=new_id("inv"),
        kind=kind,
        number=number,
        reference=record.number,
        issued_on=issued_on,
        corrects=note.id,
        record=msgspec.json.encode(record),
    )
    await insert_documents(tx, [document], by.at)
    await mark_taken_back(tx, invoice, note, document.id, by.at)
    await reduce_credit(tx, invoice, note.total_minor)
    details: dict[str, Any] = {"reference": document.reference, "credit_note": note.reference, "total": note.total}
    await audit.record(tx, invoice, "credit_note.taken_back", by=by, subject_id=note.id, **details)
    return document
