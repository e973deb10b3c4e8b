"""A credit note as the record that its XML is made of."""

from tonne.money.invoices.documents.positions import is_electronic
from tonne.money.invoices.documents.record import (
    BankAccount,
    CorrectedInvoice,
    CreditNoteRecord,
    InvoiceFee,
    InvoiceLine,
    InvoiceRecord,
    InvoiceTax,
)
from tonne.platform.values.context import is_id, replace


def electronic_credit_note(record: CreditNoteRecord) -> InvoiceRecord:
    """The record for the XML: a position for each line or, with several rates, for each of them."""
    return InvoiceRecord(
        number=record.number,
        mode=record.mode,
        issued_on=record.issued_on,
        due_on=record.issued_on,
        order_id=record.lines[0].order_id if record.order_count == 1 else "",
        seller=record.seller,
        buyer=record.buyer,
        currency=record.currency,
        lines=_positions(record),
        fee=InvoiceFee("", "0"),
        total=record.total,
        bank=BankAccount(record.seller.name, None, None, None),
        reference=record.number,
        note=record.note,
        document="credit_note",
        taxes=[each for each in record.taxes if each.treatment != "none"],
        corrects=CorrectedInvoice(record.invoice_number, record.invoice_issued_on),
        home=record.home,
        paid_by_card=record.paid_by_card,
        order_reference=_own_reference(record),
        einvoice=record.einvoice,
    )


def _own_reference(record: CreditNoteRecord) -> str | None:
    """The client's reference of the only order, unless it gave none and Tonne made the key."""
    reference = record.lines[0].reference
    return None if record.order_count > 1 or is_id("auto", reference) else reference


def _positions(record: CreditNoteRecord) -> list[InvoiceLine]:
    [tax, *others] = record.taxes
    if others:
        text = f"Credit for invoice {record.invoice_number}"
        return [_position(text, each.net, each) for each in record.taxes]
    return [
        replace(
            _position(f"Credit for {line.order_id} of invoice {record.invoice_number}", line.net, tax),
            reference=line.reference,
        )
        for line in record.lines
    ]


def _position(description: str, net: str, tax: InvoiceTax) -> InvoiceLine:
    return InvoiceLine(
        description=description,
        quantity="1",
        unit_price=net,
        amount=net,
        treatment=tax.treatment,
        rate=tax.rate,
        unit="piece",
    )


def electronic_record(record: InvoiceRecord | CreditNoteRecord) -> InvoiceRecord | None:
    """What the XML of a document is made of; None if it has none."""
    found = electronic_credit_note(record) if isinstance(record, CreditNoteRecord) else record
    return found if is_electronic(found) else None
