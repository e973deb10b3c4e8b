"""The receipt for invoices that a stored card has paid: one mail for all their orders.

It has those invoices attached that were not mailed before.
"""

from datetime import datetime
from email.message import EmailMessage

from msgspec import Struct

from tonne.money.cards.invoice_charge_store import ChargedCard, find_charged_card, list_invoices_of_charge
from tonne.money.cards.stored_cards.mail_card_problems import Payer, read_payer
from tonne.money.invoices.model import Invoice, InvoiceBilling
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.store import find_invoices_any_account, find_receipt_email
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.layout import fact_lines, join_blocks
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope
from tonne.platform.web.wording import LocalWording, wording_in


class CardReceipt(Struct, frozen=True):
    """What the mail says. `paid_at`: when the card was charged."""

    scope: Scope
    # By number.
    invoices: list[Invoice]
    receipt_email: str | None
    payer: Payer
    charged: ChargedCard
    paid_minor: int
    paid_at: datetime

    @property
    def not_mailed(self) -> list[Invoice]:
        return [invoice for invoice in self.invoices if invoice.mailed_at is None]

    @property
    def recipients(self) -> list[str]:
        """The account's address for receipts, else the admins of the organisation. Nobody is mailed without one."""
        return [self.receipt_email] if self.receipt_email else self.payer.admins


async def read_card_receipt(
    connection: Connection, scope: Scope, charge_id: str, *, paid_minor: int, paid_at: datetime
) -> CardReceipt:
    charged = await find_charged_card(connection, scope, charge_id)
    ids = await list_invoices_of_charge(connection, scope, charge_id)
    invoices = sorted(await find_invoices_any_account(connection, ids), key=lambda invoice: invoice.number)
    receipt_email, payer = await find_receipt_email(connection, scope), await read_payer(connection, scope.account_id)
    return CardReceipt(scope, invoices, receipt_email, payer, charged, paid_minor, paid_at)


async def compose_card_receipt(settings: Settings, receipt: CardReceipt, originals: Originals) -> EmailMessage:
    """Renders what is not stored: do not hold a lock meanwhile."""
    attached = [file for invoice in receipt.not_mailed for file in await originals.attachments(invoice)]
    invoices, payer, currency = receipt.invoices, receipt.payer, receipt.invoices[0].currency
    reference, order_count = (
        ", ".join(each.in_force.reference for each in invoices),
        sum(each.order_count for each in invoices),
    )
    tax_minor = sum(each.tax_minor or 0 for each in invoices)
    records = [each.read_record() for each in invoices]
    periods = [record.period for record in records if record.period]
    wording, is_test = wording_in(records[0].language), receipt.scope.mode is Mode.TEST
    _, paid = wording.translate, wording.money(receipt.paid_minor, currency)
    facts = [
        (_("Invoice"), reference),
        *([(_("Tax included"), wording.money(tax_minor, currency))] if tax_minor else []),
        (_("Orders"), wording.count(order_count)),
        *([(_("From"), wording.day(min(each.first_day for each in periods)))] if periods else []),
        *([(_("To"), wording.day(max(each.last_day for each in periods)))] if periods else []),
        (_("Card"), _describe_card(receipt.charged, wording)),
        (_("Date"), wording.day(receipt.paid_at)),
        (_("Account"), payer.account_name),
    ]
    blocks = [
        _.plural(
            "We have charged your card %(paid)s for invoice %(reference)s, which bills one order. Nothing else is due.",
            "We have charged your card %(paid)s for invoice %(reference)s, which bills %(n)s orders. Nothing else is"
            " due.",
            order_count,
            n=wording.count(order_count),
            paid=paid,
            reference=reference,
        ),
        fact_lines([(_("Paid"), paid), *facts]),
    ]
    if attached:
        references = ", ".join(each.in_force.reference for each in receipt.not_mailed)
        blocks.append(_("Please find attached: %(references)s.", references=references))
    if not any(each.billing is InvoiceBilling.COLLECTED for each in invoices):
        blocks.append(
            _(
                "Next, the credits are retired at the registry. The certificate of each order is then on the page of"
                " the order."
            )
        )
    return compose_mail(
        settings,
        receipt.recipients,
        _("Your receipt: %(amount)s for invoice %(reference)s", amount=paid, reference=reference),
        join_blocks(blocks),
        wording=wording,
        merchant=payer.merchant,
        is_test=is_test,
        notice=_("This is a test. No money is charged.") if is_test else None,
        attachments=attached,
    )


def _describe_card(card: ChargedCard, wording: LocalWording) -> str:
    _ = wording.translate
    if card.brand is None:
        return _("the card that was stored when it was charged")
    return _("%(brand)s ending in %(digits)s", brand=card.brand.capitalize(), digits=card.last_four)
