"""Mails about invoices to the admins of an organisation."""

import asyncio
from datetime import UTC, date, datetime
from email.message import EmailMessage
from typing import Protocol

from tonne.base.settings import Settings
from tonne.db.pool import Connection
from tonne.gateways.mail import TEST_SUBJECT, Attachment, compose_mail, is_mail_address
from tonne.gateways.mail_layout import fact_lines, one_line
from tonne.invoices.annex import Annex
from tonne.invoices.credit_note_record import CreditNoteRecord
from tonne.invoices.model import FollowUpSchedule, Invoice
from tonne.invoices.pdf import invoice_pdf
from tonne.invoices.record import Closing, InvoiceRecord, Remaining
from tonne.invoices.store import find_billed_organisation


class ComposeMail(Protocol):
    def __call__(
        self,
        settings: Settings,
        recipients: list[str],
        record: InvoiceRecord,
        *,
        pdf: bytes,
        cancel_on: date | None,
        remaining: Remaining | None,
    ) -> EmailMessage: ...


async def find_recipients(connection: Connection, organisation_id: str) -> list[str]:
    organisation = await find_billed_organisation(connection, organisation_id)
    return [address for address in organisation.admins if is_mail_address(address)]


async def write_mail(
    compose: ComposeMail,
    settings: Settings,
    recipients: list[str],
    invoice: Invoice,
    now: datetime,
    *,
    remaining: Remaining | None,
    annex: Annex,
    is_fulfilled: bool,
) -> EmailMessage:
    """Compose a mail with the invoice attached. Renders the PDF in a thread: do not hold a lock meanwhile.

    `is_fulfilled`: all its orders were fulfilled on credit, so none of them waits for the payment or is cancelled.
    """
    record = invoice.read_record()
    pdf = await asyncio.to_thread(invoice_pdf, record, annex=annex, remaining=remaining)
    cancel_on = FollowUpSchedule.from_settings(settings).cancel_on(invoice, now.astimezone(UTC).date())
    return compose(
        settings, recipients, record, pdf=pdf, cancel_on=None if is_fulfilled else cancel_on, remaining=remaining
    )


async def write_closed_mail(
    settings: Settings, recipients: list[str], invoice: Invoice, closing: Closing, *, annex: Annex
) -> EmailMessage:
    """Compose a mail with a paid or cancelled invoice attached. It renders the PDF, as `write_mail` does."""
    record = invoice.read_record()
    pdf = await asyncio.to_thread(invoice_pdf, record, closing, annex=annex)
    day = in_words(closing.on)
    if closing.status == "paid":
        subject = f"Invoice {record.reference}: paid on {day}, nothing is due"
        outcome = f"It was paid on {day}. Nothing is due."
    elif closing.status == "credited":
        subject = f"Invoice {record.reference}: credited on {day}, nothing is due"
        outcome = f"It was credited in full on {day}. Nothing is due."
    else:
        subject = f"Invoice {record.reference}: cancelled on {day}, do not pay"
        outcome = (
            f"It was cancelled on {day}. Please do not pay it. If you have already paid it, contact us and we will "
            "refund you."
        )
    text = f"Please find attached invoice {record.reference} for {_total(record)} for {_orders(record)}.\n\n{outcome}\n"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def compose_invoice_mail(
    settings: Settings,
    recipients: list[str],
    record: InvoiceRecord,
    *,
    pdf: bytes,
    cancel_on: date | None,
    remaining: Remaining | None,
) -> EmailMessage:
    if record.paid_by_card:
        return _compose_card_invoice_mail(settings, recipients, record, pdf=pdf, remaining=remaining)
    text = (
        f"Please find attached invoice {record.reference} for {_total(record)} for {_orders(record)}.\n\n"
        f"{_reduced(record, remaining)}{_how_to_pay(record, f'by {in_words(record.due_on)}', remaining)}\n"
        f"{_what_follows(record, cancel_on)}"
    )
    subject = f"Invoice {record.reference}: {_due(record, remaining)}, due {in_words(record.due_on)}"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def _compose_card_invoice_mail(
    settings: Settings, recipients: list[str], record: InvoiceRecord, *, pdf: bytes, remaining: Remaining | None
) -> EmailMessage:
    due = _due(record, remaining)
    credited = (
        "" if remaining is None or not remaining.credited else f"{remaining.credited} {record.currency} was credited. "
    )
    text = (
        f"Please find attached invoice {record.reference} for {_total(record)} for {_orders(record)}.\n\n"
        f"{credited}We charge {due} to the card that is stored for your account. You have nothing to do: please do not "
        "transfer money. You get a receipt when the card was charged.\n\n"
        "We then retire the carbon credits on your behalf.\n"
    )
    subject = f"Invoice {record.reference}: {due}, charged to your card"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def compose_reminder(
    settings: Settings,
    recipients: list[str],
    record: InvoiceRecord,
    *,
    pdf: bytes,
    cancel_on: date | None,
    remaining: Remaining | None,
) -> EmailMessage:
    """Says what has arrived and what is missing: asking for the whole sum again would be wrong."""
    due, received = _due(record, remaining), None if remaining is None else remaining.received
    if received is None:
        what, state, subject = "your payment", "we have not received your payment yet", f"{due}, was due"
        consequence = "we will cancel the order."
    else:
        what, state, subject = "the rest", f"{due} of it is still missing", f"{due} missing, was due"
        paid = f"{received} {record.currency}"
        consequence = f"we will cancel the order and return the {paid} to the account it came from."
    text = (
        f"Invoice {record.reference} for {_total(record)} for {_orders(record)} was due on"
        f" {in_words(record.due_on)}, and {state}. The invoice is attached again. If you"
        " have paid in the last few days, please ignore this reminder.\n\n"
        f"{_reduced(record, remaining)}{_how_to_pay(record, 'now', remaining)}"
    )
    if cancel_on is not None:
        text += f"\nIf we have not received {what} before {in_words(cancel_on)}, {consequence}\n"
    subject = f"Reminder: invoice {record.reference}, {subject} {in_words(record.due_on)}"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def compose_credit_mail(
    settings: Settings, recipients: list[str], record: CreditNoteRecord, *, pdf: bytes, left: str
) -> EmailMessage:
    """For a credit note, which is attached. `left` is what is left to pay of the invoice, without a currency."""
    invoice, total = record.invoice_number, f"{record.total} {record.currency}"
    orders = f"Order {record.lines[0].order_id}" if record.order_count == 1 else f"{record.order_count:,} orders"
    paid = "If you have already paid it, contact us and we will refund you."
    if record.paid_by_card:
        paid = "Nothing was charged to your card for it."
    if record.returned is not None:
        received = f"{record.returned} {record.currency}"
        paid = f"We have received {received} for it, and will return it to the account it came from."
    if record.cancels_invoice and not record.invoice_paid:
        verb = "has" if record.order_count == 1 else "have"
        subject = f"Invoice {invoice} has been cancelled"
        text = (
            f"{orders} {verb} been cancelled, and with {'it' if record.order_count == 1 else 'them'} invoice {invoice}."
            f" Please find attached credit note {record.number} for {total}.\n\n"
            f"{_reason(record)}\n\n"
            f"Please do not pay this invoice. {paid}\n"
        )
    else:
        subject = f"Credit note {record.number}: {total} on invoice {invoice}"
        text = (
            f"Please find attached credit note {record.number} for {total}. It reduces invoice {invoice} by this"
            f" amount ({orders[0].lower()}{orders[1:]}).\n\n{_reason(record)}\n\n"
            f"{_after_credit(record, left)}\n"
        )
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def _after_credit(record: CreditNoteRecord, left: str) -> str:
    if record.invoice_paid:
        return "The invoice was paid, so we return this amount to you."
    if not left.strip("0."):
        return "Nothing is left to pay of the invoice."
    if record.paid_by_card:
        return f"We charge what is left of the invoice, {left} {record.currency}, to your card. You have nothing to do."
    return (
        f"{left} {record.currency} is left to pay of the invoice. If you have not paid it yet, please do so with the "
        f"reference {record.invoice_number}."
    )


def _reason(record: CreditNoteRecord) -> str:
    return f"Reason: {one_line(record.reason)}" if record.reason else "No reason was given."


def in_words(day: date | str) -> str:
    """`31 March 2026`, which is unambiguous in every country."""
    day = date.fromisoformat(day) if isinstance(day, str) else day
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _compose(
    settings: Settings,
    recipients: list[str],
    record: InvoiceRecord | CreditNoteRecord,
    *,
    subject: str,
    text: str,
    pdf: bytes,
) -> EmailMessage:
    attachment = Attachment(f"{record.number}.pdf", pdf)
    is_test = record.mode == "test"
    seller = record.seller
    contact = f"Questions? Contact {one_line(seller.email)}.\n" if seller.email else ""
    return compose_mail(
        settings,
        recipients,
        f"{TEST_SUBJECT if is_test else ''}{subject}",
        f"Hello {one_line(record.buyer.name)},\n\n{text}",
        notice="This is a test. Nothing is owed. Do not send money." if is_test else None,
        closing=f"{one_line(seller.name)}\n{contact}",
        attachment=attachment,
    )


def _reduced(record: InvoiceRecord, remaining: Remaining | None) -> str:
    if remaining is None:
        return ""
    received = f"We have received {remaining.received} {record.currency}. " if remaining.received else ""
    credited = f"{remaining.credited} {record.currency} was credited. " if remaining.credited else ""
    return f"{received}{credited}{_due(record, remaining)} is missing.\n\n"


def _how_to_pay(record: InvoiceRecord, when: str, remaining: Remaining | None) -> str:
    bank, amount = record.bank, _due(record, remaining)
    if bank.iban is None:
        return (
            f"Please pay {amount} {when} by bank transfer with the reference {record.reference}. Ask"
            f" {one_line(record.seller.name)} for the bank details.\n"
        )
    facts = [
        ("Account holder", bank.account_holder),
        ("IBAN", bank.iban),
        ("BIC", bank.bic),
        ("Bank", bank.bank_name),
        ("Amount", amount),
        ("Reference", record.reference),
    ]
    rows = fact_lines([(name, value) for name, value in facts if value])
    return (
        f"Please pay {when} by bank transfer:\n\n{rows}\n"
        f"Quote the reference {record.reference} so that we can match your payment to this invoice.\n"
    )


def _what_follows(record: InvoiceRecord, cancel_on: date | None) -> str:
    if cancel_on is None:
        return ""
    what = "the order" if record.order_count == 1 else "those orders that are not fulfilled yet"
    retired = "Once we have received your payment, we retire the carbon credits on your behalf.\n"
    return f"{retired}If we have not received your payment before {in_words(cancel_on)}, we will cancel {what}.\n"


def _orders(record: InvoiceRecord) -> str:
    if record.order_count == 1:
        return f"order {record.order_id}"
    if record.period is None:
        return f"{record.order_count:,} orders"
    first, last = in_words(record.period.first_day), in_words(record.period.last_day)
    return f"{record.order_count:,} orders " + (f"of {first}" if first == last else f"from {first} to {last}")


def _due(record: InvoiceRecord, remaining: Remaining | None) -> str:
    return _total(record) if remaining is None else f"{remaining.due} {record.currency}"


def _total(record: InvoiceRecord) -> str:
    return f"{record.total} {record.currency}"
