"""Mails about credit notes, and about invoices that replace others."""

from collections.abc import Sequence
from email.message import EmailMessage

from tonne.money.invoices.documents.record import CreditNoteRecord, InvoiceRecord
from tonne.money.invoices.mail import compose_with_documents
from tonne.platform.documents.mail.layout import one_line
from tonne.platform.documents.mail.stored_files import StoredFile
from tonne.platform.settings.settings import Settings
from tonne.platform.web.wording import LocalWording, wording_in


def compose_credit_mail(
    settings: Settings,
    recipients: list[str],
    record: CreditNoteRecord,
    *,
    originals: Sequence[StoredFile],
    left: str,
    is_charged: bool,
) -> EmailMessage:
    """For a credit note, which is attached. `left` to pay of the invoice, without a currency; by card: `is_charged`."""
    wording = wording_in(record.language)
    _ = wording.translate
    values = {
        "number": record.number,
        "invoice": record.invoice_number,
        "total": wording.amount(record.total, record.currency),
        "order": record.lines[0].order_id,
        "n": wording.count(record.order_count),
    }
    reason = _("Reason: %(reason)s", reason=one_line(record.reason)) if record.reason else _("No reason was given.")
    if record.cancels_invoice and not record.invoice_paid:
        subject = _("Invoice %(invoice)s has been cancelled", **values)
        cancelled = _.plural(
            "Order %(order)s has been cancelled, and with it invoice %(invoice)s.",
            "%(n)s orders have been cancelled, and with them invoice %(invoice)s.",
            record.order_count,
            **values,
        )
        attached = _("Please find attached credit note %(number)s for %(total)s.", **values)
        stop = _("Please do not pay this invoice.")
        blocks = [f"{cancelled} {attached}", reason, f"{stop} {_if_paid(record, wording)}"]
    else:
        subject = _("Credit note %(number)s: %(total)s on invoice %(invoice)s", **values)
        attached = _.plural(
            "Please find attached credit note %(number)s for %(total)s. It reduces invoice %(invoice)s by this amount"
            " (order %(order)s).",
            "Please find attached credit note %(number)s for %(total)s. It reduces invoice %(invoice)s by this amount"
            " (%(n)s orders).",
            record.order_count,
            **values,
        )
        blocks = [attached, reason, _after_credit(record, left, wording, is_charged=is_charged)]
    return compose_with_documents(settings, recipients, record, subject=subject, blocks=blocks, attached=originals)


def compose_replacement_mail(
    settings: Settings,
    recipients: list[str],
    note: CreditNoteRecord,
    invoice: InvoiceRecord,
    *,
    originals: Sequence[StoredFile],
) -> EmailMessage:
    """For an invoice that replaces another one, and the credit note that cancels that. Both are attached."""
    wording = wording_in(invoice.language)
    _ = wording.translate
    values = {
        "number": invoice.number,
        "replaced": note.invoice_number,
        "note": note.number,
        "total": wording.amount(invoice.total, invoice.currency),
    }
    attached = _(
        "The reference or the address on invoice %(replaced)s was changed. Please find attached invoice %(number)s for"
        " %(total)s, which replaces it, and credit note %(note)s, which cancels it.",
        **values,
    )
    if invoice.paid_on is not None:
        rest = _("What was paid counts for the new invoice. Nothing is due.")
    elif invoice.paid_by_card:
        rest = _("The card is charged as before. You have nothing to do.")
    else:
        due = wording.amount(invoice.due, invoice.currency)
        rest = _(
            "%(due)s is to be paid by %(day)s, once. If you have paid with the reference of the replaced invoice, that"
            " counts, and you have nothing to do. Otherwise, use the reference %(number)s.",
            **values,
            due=due,
            day=wording.day(invoice.due_on),
        )
    subject = _("Invoice %(number)s replaces %(replaced)s", **values)
    return compose_with_documents(
        settings, recipients, invoice, subject=subject, blocks=[attached, rest], attached=originals
    )


def compose_taken_back_mail(
    settings: Settings,
    recipients: list[str],
    note: CreditNoteRecord,
    invoice: InvoiceRecord,
    *,
    originals: Sequence[StoredFile],
) -> EmailMessage:
    """For an invoice that takes back the credit note of a refund that failed. Both are attached."""
    wording = wording_in(invoice.language)
    _ = wording.translate
    values = {"number": invoice.number, "note": note.number, "total": wording.amount(invoice.total, invoice.currency)}
    attached = _(
        "The refund of credit note %(note)s did not arrive: the money came back to us. Please find attached invoice"
        " %(number)s for %(total)s, which takes the credit note back.",
        **values,
    )
    blocks = [attached, _("You have nothing to pay. If you still expect the refund, contact us.")]
    subject = _("Invoice %(number)s takes back credit note %(note)s", **values)
    return compose_with_documents(settings, recipients, invoice, subject=subject, blocks=blocks, attached=originals)


def _if_paid(record: CreditNoteRecord, wording: LocalWording) -> str:
    _ = wording.translate
    if record.returned is not None:
        return _(
            "We have received %(amount)s for it, and will return it to the account it came from.",
            amount=wording.amount(record.returned, record.currency),
        )
    if record.paid_by_card:
        return _("Nothing was charged to your card for it.")
    return _("If you have already paid it, contact us and we will refund you.")


def _after_credit(record: CreditNoteRecord, left: str, wording: LocalWording, *, is_charged: bool) -> str:
    _ = wording.translate
    if record.invoice_paid:
        return _("The invoice was paid, so we return this amount to you.")
    if not left.strip("0."):
        return _("Nothing is left to pay of the invoice.")
    amount = wording.amount(left, record.currency)
    if is_charged:
        return _(
            "We charge what is left of the invoice, %(amount)s, to your card. You have nothing to do.", amount=amount
        )
    return _(
        "%(amount)s is left to pay of the invoice. If you have not paid it yet, please do so with the reference"
        " %(reference)s.",
        amount=amount,
        reference=record.invoice_number,
    )
