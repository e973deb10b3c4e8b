"""Mails about invoices to the admins of an organisation."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from email.message import EmailMessage

from msgspec import Struct

from tonne.money.invoices.documents.record import Closing, CreditNoteRecord, InvoiceRecord, Remaining
from tonne.money.invoices.documents.state_sheet import InvoiceState
from tonne.money.invoices.issuing.billed_order_store import list_unfulfilled_orders
from tonne.money.invoices.model import FollowUpSchedule, Invoice, InvoiceBilling, find_remaining
from tonne.money.invoices.originals.invoice_state import invoice_state_pdf, payable_record, read_state
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.store import find_billed_organisation
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import fact_lines, join_blocks, one_line
from tonne.platform.documents.mail.send_mail import Attachment, compose_mail, is_mail_address
from tonne.platform.documents.mail.stored_files import StoredFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import replace
from tonne.platform.web.wording import ENGLISH, LocalWording, wording_in


class InvoiceMail(Struct, frozen=True):
    """What the mails about an invoice are made of.

    `is_fulfilled`: all its orders were fulfilled on credit, so none of them waits for the payment or is cancelled.
    """

    invoice: Invoice
    record: InvoiceRecord
    recipients: list[str]
    state: InvoiceState
    remaining: Remaining | None
    is_fulfilled: bool


async def read_invoice_mail(connection: Connection, invoice: Invoice, settings: Settings, now: datetime) -> InvoiceMail:
    return InvoiceMail(
        invoice,
        await payable_record(connection, invoice, settings),
        await find_recipients(connection, invoice.organisation_id),
        await read_state(connection, invoice, now),
        await find_remaining(connection, invoice),
        not await list_unfulfilled_orders(connection, invoice),
    )


async def find_recipients(connection: Connection, organisation_id: str) -> list[str]:
    organisation = await find_billed_organisation(connection, organisation_id)
    return [address for address in organisation.admins if is_mail_address(address)]


class InvoiceLetter(Struct, frozen=True):
    """A mail with documents attached. `cancel_on`: when its orders are cancelled if it stays unpaid."""

    settings: Settings
    recipients: list[str]
    record: InvoiceRecord
    attached: Sequence[Attachment | StoredFile]
    cancel_on: date | None = None
    remaining: Remaining | None = None
    # It bills small orders, which may be fulfilled already, and waits until a card can be charged.
    is_collected: bool = False

    def compose(self, subject: str, blocks: list[str]) -> EmailMessage:
        return compose_with_documents(
            self.settings, self.recipients, self.record, subject=subject, blocks=blocks, attached=self.attached
        )


ComposeMail = Callable[[InvoiceLetter], EmailMessage]


async def write_mail(
    compose: ComposeMail, settings: Settings, mail: InvoiceMail, now: datetime, originals: Originals
) -> EmailMessage:
    """Compose a mail with the original of the invoice, as it was issued.

    A sheet beside it says what is left to pay, unless it is all of it and not late. The mail of a closed invoice says
    so, and asks for nothing. Renders what is not stored: do not hold a lock meanwhile.
    """
    invoice, record = mail.invoice, mail.record
    attached: list[Attachment | StoredFile] = [*await originals.attachments(invoice)]
    is_reminder = compose is compose_reminder and invoice.closing is None
    if is_reminder or mail.remaining is not None or invoice.closing is not None:
        sheet = await invoice_state_pdf(record, mail.state, is_reminder=is_reminder)
        attached.append(Attachment(f"{record.number}-{'reminder' if is_reminder else mail.state.kind}.pdf", sheet))
    is_collected = invoice.billing is InvoiceBilling.COLLECTED
    letter = InvoiceLetter(
        settings, mail.recipients, record, attached, remaining=mail.remaining, is_collected=is_collected
    )
    if invoice.closing is not None:
        return _compose_closed_mail(letter, invoice.closing)
    if mail.is_fulfilled:
        return compose(letter)
    cancel_on = FollowUpSchedule.from_settings(settings).cancel_on(invoice, now.astimezone(UTC).date())
    return compose(replace(letter, cancel_on=cancel_on))


def _compose_closed_mail(letter: InvoiceLetter, closing: Closing) -> EmailMessage:
    record = letter.record
    wording = wording_in(record.language)
    _, values = wording.translate, {"reference": record.reference, "day": wording.day(closing.on)}
    if closing.status == "paid":
        subject = _("Invoice %(reference)s: paid on %(day)s, nothing is due", **values)
        outcome = _("It was paid on %(day)s. Nothing is due.", **values)
    elif closing.status == "credited":
        subject = _("Invoice %(reference)s: credited on %(day)s, nothing is due", **values)
        outcome = _("It was credited in full on %(day)s. Nothing is due.", **values)
    else:
        subject = _("Invoice %(reference)s: cancelled on %(day)s, do not pay", **values)
        outcome = _(
            "It was cancelled on %(day)s. Please do not pay it. If you have already paid it, contact us and we will"
            " refund you.",
            **values,
        )
    blocks = [_attached(record, wording), outcome]
    return letter.compose(subject, blocks)


def compose_invoice_mail(letter: InvoiceLetter) -> EmailMessage:
    record, remaining = letter.record, letter.remaining
    if record.paid_by_card:
        return _compose_card_invoice_mail(letter)
    wording = wording_in(record.language)
    _, day = wording.translate, wording.day(record.due_on)
    blocks = [
        _attached(record, wording),
        _reduced(record, remaining, wording),
        *_how_to_pay(record, remaining, wording, by=day),
        _what_follows(record, letter.cancel_on, wording),
    ]
    subject = _(
        "Invoice %(reference)s: %(amount)s, due %(day)s",
        reference=record.reference,
        amount=_due(record, remaining, wording),
        day=day,
    )
    return letter.compose(subject, blocks)


def _compose_card_invoice_mail(letter: InvoiceLetter) -> EmailMessage:
    record, remaining = letter.record, letter.remaining
    wording = wording_in(record.language)
    _, due = wording.translate, _due(record, remaining, wording)
    credited = _credited(record, remaining, wording)
    charged = _(
        "We charge %(amount)s to the card that is stored for your account. You have nothing to do: please do not"
        " transfer money. You get a receipt when the card was charged.",
        amount=due,
    )
    if letter.is_collected:
        then = _("If that is less than a card can be charged, we charge it together with the next invoices.")
    else:
        then = _("We then retire the carbon credits on your behalf.")
    blocks = [_attached(record, wording), " ".join(filter(None, (credited, charged))), then]
    subject = _("Invoice %(reference)s: %(amount)s, charged to your card", reference=record.reference, amount=due)
    return letter.compose(subject, blocks)


def compose_reminder(letter: InvoiceLetter) -> EmailMessage:
    """Says what has arrived and what is missing: asking for the whole sum again would be wrong."""
    record, remaining, cancel_on = letter.record, letter.remaining, letter.cancel_on
    wording = wording_in(record.language)
    _, received = wording.translate, None if remaining is None else remaining.received
    values = {
        "reference": record.reference,
        "total": wording.amount(record.total, record.currency),
        "due": _due(record, remaining, wording),
        "day": wording.day(record.due_on),
        "paid": "" if received is None else wording.amount(received, record.currency),
        "last_day": "" if cancel_on is None else wording.day(cancel_on),
    }
    if received is None:
        subject = _("Reminder: invoice %(reference)s, %(due)s, was due %(day)s", **values)
        state = _(
            "Invoice %(reference)s for %(total)s was due on %(day)s, and we have not received your payment yet.",
            **values,
        )
        warning = _("If we have not received your payment before %(last_day)s, we will cancel the order.", **values)
    else:
        subject = _("Reminder: invoice %(reference)s, %(due)s missing, was due %(day)s", **values)
        state = _(
            "Invoice %(reference)s for %(total)s was due on %(day)s, and %(due)s of it is still missing.", **values
        )
        warning = _(
            "If we have not received the rest before %(last_day)s, we will cancel the order and return the %(paid)s to"
            " the account it came from.",
            **values,
        )
    again = _(
        "The invoice is attached again, with a sheet about what is to be paid now. If you have paid in the last few"
        " days, please ignore this reminder."
    )
    blocks = [
        f"{state} {again}",
        _reduced(record, remaining, wording),
        *_how_to_pay(record, remaining, wording, by=None),
        "" if cancel_on is None else warning,
    ]
    return letter.compose(subject, blocks)


def day_text(day: date | str) -> str:
    """`31 March 2026`, which is unambiguous in every country."""
    return ENGLISH.day(day)


def compose_with_documents(
    settings: Settings,
    recipients: list[str],
    record: InvoiceRecord | CreditNoteRecord,
    *,
    subject: str,
    blocks: list[str],
    attached: Sequence[Attachment | StoredFile],
) -> EmailMessage:
    is_test, seller, wording = record.mode == "test", record.seller, wording_in(record.language)
    _ = wording.translate
    contact = _("Questions? Write to %(email)s", email=one_line(seller.email)) if seller.email else ""
    return compose_mail(
        settings,
        recipients,
        subject,
        join_blocks([_("Hello %(name)s,", name=one_line(record.buyer.name)), *blocks]),
        wording=wording,
        is_test=is_test,
        notice=_("This is a test. Nothing is owed. Do not send money.") if is_test else None,
        closing=f"{one_line(seller.name)}\n{contact}",
        attachments=attached,
    )


def _attached(record: InvoiceRecord, wording: LocalWording) -> str:
    _ = wording.translate
    values = {
        "reference": record.reference,
        "total": wording.amount(record.total, record.currency),
        "order": record.order_id,
        "n": wording.count(record.order_count),
    }
    if record.order_count == 1:
        return _("Please find attached invoice %(reference)s for %(total)s for order %(order)s.", **values)
    if record.period is None:
        return _("Please find attached invoice %(reference)s for %(total)s for %(n)s orders.", **values)
    first, last = wording.day(record.period.first_day), wording.day(record.period.last_day)
    if first == last:
        return _(
            "Please find attached invoice %(reference)s for %(total)s for %(n)s orders of %(day)s.", **values, day=first
        )
    return _(
        "Please find attached invoice %(reference)s for %(total)s for %(n)s orders from %(first)s to %(last)s.",
        **values,
        first=first,
        last=last,
    )


def _reduced(record: InvoiceRecord, remaining: Remaining | None, wording: LocalWording) -> str:
    if remaining is None:
        return ""
    _, received = wording.translate, ""
    if remaining.received:
        received = _("We have received %(amount)s.", amount=wording.amount(remaining.received, record.currency))
    missing = _("%(amount)s is missing.", amount=_due(record, remaining, wording))
    return " ".join(filter(None, (received, _credited(record, remaining, wording), missing)))


def _credited(record: InvoiceRecord, remaining: Remaining | None, wording: LocalWording) -> str:
    if remaining is None or not remaining.credited:
        return ""
    _ = wording.translate
    return _("%(amount)s was credited.", amount=wording.amount(remaining.credited, record.currency))


def _how_to_pay(
    record: InvoiceRecord, remaining: Remaining | None, wording: LocalWording, *, by: str | None
) -> list[str]:
    """Without `by`, a day, the payment is due now."""
    _, bank = wording.translate, record.bank
    values = {
        "amount": _due(record, remaining, wording),
        "reference": record.reference,
        "day": by or "",
        "seller": one_line(record.seller.name),
    }
    facts = [
        (_("Account holder"), bank.account_holder),
        (_("IBAN"), bank.iban),
        (_("BIC"), bank.bic),
        (_("Bank"), bank.bank_name),
    ]
    if bank.iban is None:
        facts = []
    facts += [(_("Amount"), values["amount"]), (_("Reference"), record.reference)]
    return [
        _("Please pay now by bank transfer:") if by is None else _("Please pay by %(day)s by bank transfer:", **values),
        fact_lines([(name, value) for name, value in facts if value]),
        _("Ask %(seller)s for the bank details.", **values) if bank.iban is None else "",
        _("Quote the reference %(reference)s so that we can match your payment to this invoice.", **values),
    ]


def _what_follows(record: InvoiceRecord, cancel_on: date | None, wording: LocalWording) -> str:
    if cancel_on is None:
        return ""
    _ = wording.translate
    day = wording.day(cancel_on)
    retired = _("Once we have received your payment, we retire the carbon credits on your behalf.")
    if record.order_count == 1:
        cancelled = _("If we have not received your payment before %(day)s, we will cancel the order.", day=day)
    else:
        cancelled = _(
            "If we have not received your payment before %(day)s, we will cancel those orders that are not fulfilled"
            " yet.",
            day=day,
        )
    return f"{retired} {cancelled}"


def _due(record: InvoiceRecord, remaining: Remaining | None, wording: LocalWording) -> str:
    return wording.amount(record.total if remaining is None else remaining.due, record.currency)
