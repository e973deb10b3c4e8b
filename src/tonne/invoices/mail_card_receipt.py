"""The receipt for an invoice that a stored card has paid: one mail for all its orders."""

from datetime import UTC, datetime

from tonne.accounts.customer_mail import enqueue_customer_mail
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.cards.mail_card_problems import read_payer
from tonne.cards.model import ChargeAttempt
from tonne.cards.stored_card_store import find_card
from tonne.db.pool import Connection
from tonne.gateways.card import StoredCard
from tonne.gateways.mail import TEST_SUBJECT, compose_mail
from tonne.gateways.mail_layout import fact_lines, one_line
from tonne.gateways.outbox import enqueue
from tonne.invoices.mail import in_words
from tonne.invoices.model import Invoice
from tonne.invoices.store import find_receipt_email


async def enqueue_card_receipt(
    tx: Connection, invoice: Invoice, attempt: ChargeAttempt, *, settings: Settings, now: datetime
) -> None:
    """To the account's address for receipts, else to the admins of the organisation. Nobody is mailed without one.

    Call it before events are appended: nothing may be locked after the event stream.
    """
    scope = Scope(attempt.organisation_id, attempt.request.account_id, attempt.request.mode)
    receipt_email, payer = await find_receipt_email(tx, scope), await read_payer(tx, scope.account_id)
    recipients = [receipt_email] if receipt_email else payer.admins
    if not recipients:
        return
    paid, record = invoice.money(attempt.request.amount_minor), invoice.read_record()
    what = f"{invoice.order_count:,} orders" if invoice.order_count > 1 else "one order"
    facts = [
        ("Paid", paid),
        ("Invoice", invoice.reference),
        *([("Tax included", invoice.money(invoice.tax_minor))] if invoice.tax_minor else []),
        ("Orders", f"{invoice.order_count:,}"),
        *(
            [("From", in_words(record.period.first_day)), ("To", in_words(record.period.last_day))]
            if record.period
            else []
        ),
        ("Card", await _describe_card(tx, scope, attempt)),
        ("Date", in_words(now.astimezone(UTC).date())),
        ("Account", payer.account_name),
    ]
    text = (
        f"We have charged your card {paid} for invoice {invoice.reference}, which bills {what}. Nothing else is due."
        "\n\n"
        f"{fact_lines(facts)}\n"
        "Next, the credits are retired at the registry. The certificate of each order is then on the page of the "
        "order.\n"
    )
    is_test = scope.mode is Mode.TEST
    questions = f"Questions? Write to {settings.seller_email}\n" if settings.seller_email else ""
    message = compose_mail(
        settings,
        recipients,
        f"{TEST_SUBJECT if is_test else ''}Your receipt: {paid} for invoice {invoice.reference}",
        text,
        notice="This is a test. No money is charged." if is_test else None,
        closing=f"{one_line(settings.seller_name)}\n{questions}",
    )
    if receipt_email:
        await enqueue_customer_mail(tx, scope, receipt_email, message, subject_id=invoice.id)
    else:
        await enqueue(tx, scope.organisation_id, recipients, message, subject_id=invoice.id)


async def _describe_card(tx: Connection, scope: Scope, attempt: ChargeAttempt) -> str:
    """The card that was charged; the account may have another one since."""
    stored, charged = await find_card(tx, scope), attempt.request.source
    if stored is None or not isinstance(charged, StoredCard) or stored.method != charged.method:
        return "the card that was stored when it was charged"
    return f"{stored.brand.capitalize()} ending in {stored.last_four}"
