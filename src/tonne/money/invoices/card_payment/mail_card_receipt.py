"""The receipt for an invoice that a stored card has paid: one mail for all its orders."""

from datetime import datetime

from tonne.money.cards.gateways.card import StoredCard
from tonne.money.cards.model import ChargeAttempt
from tonne.money.cards.stored_cards.mail_card_problems import read_payer
from tonne.money.cards.stored_cards.stored_card_store import find_card
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import find_receipt_email
from tonne.platform.db.pool import Connection
from tonne.platform.documents.mail.layout import fact_lines, join_blocks
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.settings.settings import Settings
from tonne.platform.values.scope import Mode, Scope
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.accounts.customer_mail import enqueue_customer_mail


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
    record, currency = invoice.read_record(), invoice.currency
    wording = wording_in(record.language)
    _, paid = wording.translate, wording.money(attempt.request.amount_minor, currency)
    facts = [
        (_("Invoice"), invoice.reference),
        *([(_("Tax included"), wording.money(invoice.tax_minor, currency))] if invoice.tax_minor else []),
        (_("Orders"), wording.count(invoice.order_count)),
        *(
            [(_("From"), wording.day(record.period.first_day)), (_("To"), wording.day(record.period.last_day))]
            if record.period
            else []
        ),
        (_("Card"), await _describe_card(tx, scope, attempt, wording)),
        (_("Date"), wording.day(now)),
        (_("Account"), payer.account_name),
    ]
    blocks = [
        _.plural(
            "We have charged your card %(paid)s for invoice %(reference)s, which bills one order. Nothing else is due.",
            "We have charged your card %(paid)s for invoice %(reference)s, which bills %(n)s orders. Nothing else is"
            " due.",
            invoice.order_count,
            n=wording.count(invoice.order_count),
            paid=paid,
            reference=invoice.reference,
        ),
        fact_lines([(_("Paid"), paid), *facts]),
        _(
            "Next, the credits are retired at the registry. The certificate of each order is then on the page of the"
            " order."
        ),
    ]
    is_test = scope.mode is Mode.TEST
    message = compose_mail(
        settings,
        recipients,
        _("Your receipt: %(amount)s for invoice %(reference)s", amount=paid, reference=invoice.reference),
        join_blocks(blocks),
        wording=wording,
        merchant=payer.merchant,
        is_test=is_test,
        notice=_("This is a test. No money is charged.") if is_test else None,
    )
    if receipt_email:
        await enqueue_customer_mail(tx, scope, receipt_email, message, subject_id=invoice.id)
    else:
        await enqueue(tx, scope.organisation_id, recipients, message, subject_id=invoice.id)


async def _describe_card(tx: Connection, scope: Scope, attempt: ChargeAttempt, wording: LocalWording) -> str:
    """The card that was charged; the account may have another one since."""
    _, stored, charged = wording.translate, await find_card(tx, scope), attempt.request.source
    if stored is None or not isinstance(charged, StoredCard) or stored.method != charged.method:
        return _("the card that was stored when it was charged")
    return _("%(brand)s ending in %(digits)s", brand=stored.brand.capitalize(), digits=stored.last_four)
