"""What an organisation's admins read about their invoices."""

from collections.abc import Sequence
from datetime import date
from email.message import EmailMessage

from tonne.base.settings import Settings
from tonne.gateways.mail import Attachment, compose_mail, is_mail_address
from tonne.invoices.record import InvoiceRecord


def usable(addresses: Sequence[str]) -> list[str]:
    return [address for address in addresses if is_mail_address(address)]


def compose_invoice_mail(
    settings: Settings, recipients: list[str], record: InvoiceRecord, *, pdf: bytes, cancel_on: date
) -> EmailMessage:
    text = (
        f"{_greeting(record)}"
        f"Attached is invoice {record.reference} over {_total(record)} for order {record.order_id}.\n\n"
        f"{_how_to_pay(record, f'by {in_words(record.due_on)}')}\n"
        "As soon as the money has arrived, the order goes on, and the carbon credits are retired on your behalf.\n"
        f"If it has not arrived before {in_words(cancel_on)}, the order is cancelled on that day.\n"
        f"{_questions(record)}"
    )
    subject = f"Invoice {record.reference}: {_total(record)}, due {in_words(record.due_on)}"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def compose_reminder(
    settings: Settings, recipients: list[str], record: InvoiceRecord, *, pdf: bytes, cancel_on: date
) -> EmailMessage:
    text = (
        f"{_greeting(record)}"
        f"Invoice {record.reference} over {_total(record)} for order {record.order_id} was due on"
        f" {in_words(record.due_on)}, and the money has not arrived yet. The invoice is attached once more. If you have"
        " paid in the last days, there is nothing to do.\n\n"
        f"{_how_to_pay(record, 'now')}\n"
        f"If the money has not arrived before {in_words(cancel_on)}, the order is cancelled on that day.\n"
        f"{_questions(record)}"
    )
    subject = f"Reminder: invoice {record.reference}, {_total(record)}, was due {in_words(record.due_on)}"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=pdf)


def compose_cancellation(
    settings: Settings, recipients: list[str], record: InvoiceRecord, reason: str | None
) -> EmailMessage:
    text = (
        f"{_greeting(record)}"
        f"Order {record.order_id} is cancelled, and invoice {record.reference} over {_total(record)} with it.\n\n"
        f"{f'Reason: {_one_line(reason)}' if reason else 'No reason was given.'}\n\n"
        "Please do not pay the invoice any more. If a payment is on its way, tell us, and you get it back.\n"
        f"{_questions(record)}"
    )
    subject = f"Invoice {record.reference} is cancelled"
    return _compose(settings, recipients, record, subject=subject, text=text, pdf=None)


def in_words(day: date | str) -> str:
    """`31 March 2026`: no country reads it differently."""
    day = date.fromisoformat(day) if isinstance(day, str) else day
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


def _compose(
    settings: Settings, recipients: list[str], record: InvoiceRecord, *, subject: str, text: str, pdf: bytes | None
) -> EmailMessage:
    attachment = None if pdf is None else Attachment(f"{record.reference}.pdf", pdf)
    subject = f"[TEST] {subject}" if record.mode == "test" else subject
    return compose_mail(settings, recipients, subject, text, attachment=attachment)


def _greeting(record: InvoiceRecord) -> str:
    test = "This is a test. Nothing is owed, and no money should be sent.\n\n" if record.mode == "test" else ""
    return f"{test}To {_one_line(record.buyer.name)}\n\n"


def _how_to_pay(record: InvoiceRecord, when: str) -> str:
    bank = record.bank
    if bank.iban is None and not bank.lines:
        return (
            f"Please pay {_total(record)} {when} by bank transfer, with the reference {record.reference}. Ask"
            f" {_one_line(record.seller.name)} for the account to pay to.\n"
        )
    facts = [
        ("Account holder", bank.account_holder),
        ("IBAN", bank.iban),
        ("BIC", bank.bic),
        ("Bank", bank.bank_name),
        *(("", line) for line in bank.lines),
        ("Amount", _total(record)),
        ("Reference", record.reference),
    ]
    rows = "".join(f"  {name:<16}{_one_line(value)}\n" for name, value in facts if value)
    return (
        f"Please pay {when} by bank transfer:\n\n{rows}\n"
        f"Write the reference {record.reference} on the transfer: it tells us what you have paid.\n"
    )


def _questions(record: InvoiceRecord) -> str:
    email = record.seller.email
    return f"\n{_one_line(record.seller.name)}\n" + (f"Questions: {_one_line(email)}\n" if email else "")


def _total(record: InvoiceRecord) -> str:
    return f"{record.total} {record.currency}"


def _one_line(text: str) -> str:
    """Names come from strangers: none may look like a paragraph of ours."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
