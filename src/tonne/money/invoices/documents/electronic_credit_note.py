"""A credit note as the record that its XML is made of."""

from tonne.money.invoices.documents.record import (
    BankAccount,
    CorrectedInvoice,
    CreditNoteRecord,
    InvoiceFee,
    InvoiceLine,
    InvoiceRecord,
    InvoiceTax,
)
from tonne.platform.values.amounts import format_money
from tonne.platform.values.tax_codes import NO_TAX_CODE


def credited_tax(issued: InvoiceRecord, total_minor: int, tax_minor: int) -> InvoiceTax | None:
    """The tax of what is credited, which contains it. None if the invoice has several rates: parts are not known."""
    if len(issued.taxes) > 1:
        return None
    net, tax = format_money(total_minor - tax_minor, issued.currency), format_money(tax_minor, issued.currency)
    if not issued.taxes:
        return InvoiceTax(NO_TAX_CODE, "none", None, net, tax)
    [billed] = issued.taxes
    return InvoiceTax(billed.code, billed.treatment, billed.rate, net, tax, billed.note)


def electronic_credit_note(record: CreditNoteRecord) -> InvoiceRecord | None:
    """The record for the XML. None if the tax of its parts is not known."""
    tax = record.credited_tax
    if tax is None:
        return None
    return InvoiceRecord(
        number=record.number,
        mode=record.mode,
        issued_on=record.issued_on,
        due_on=record.issued_on,
        order_id=record.lines[0].order_id if record.order_count == 1 else "",
        seller=record.seller,
        buyer=record.buyer,
        currency=record.currency,
        lines=[
            InvoiceLine(
                description=f"Credit for {line.order_id} of invoice {record.invoice_number}",
                quantity="1",
                unit_price=line.net,
                amount=line.net,
                reference=line.reference,
                treatment=tax.treatment,
                rate=tax.rate,
                unit="piece",
            )
            for line in record.lines
        ],
        fee=InvoiceFee("", "0"),
        total=record.total,
        bank=BankAccount(record.seller.name, None, None, None),
        reference=record.number,
        note=record.note,
        document="credit_note",
        taxes=[] if tax.treatment == "none" else [tax],
        corrects=CorrectedInvoice(record.invoice_number, record.invoice_issued_on),
        home=record.home,
    )
