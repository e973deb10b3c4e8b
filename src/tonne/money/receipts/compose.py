"""The mails about the money of an order, and who gets them: a receipt, a refund, a cancellation after the payment."""

from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage

from msgspec import Struct

from tonne.money.invoices.credit_notes.credit_note import CreditCause
from tonne.money.invoices.documents.seller_details import printed_tax_id, vat_id_of
from tonne.money.receipts.expected_completion import Expectation
from tonne.money.receipts.order_documents import OrderDocument, invoice_of
from tonne.money.refunds.model import Refund, RefundMethod, RefundPurpose
from tonne.platform.db.database import Connection, columns
from tonne.platform.documents.mail.layout import button_lines, fact_lines, join_blocks, one_line, sum_lines
from tonne.platform.documents.mail.send_mail import compose_mail, is_mail_address
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode
from tonne.platform.values.language import N_
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.orders.model import Order, OrderStatus

READ_PARTIES = """
SELECT orders.id, CASE WHEN accounts.kind = 'client_account' THEN accounts.name ELSE organisations.name END AS merchant,
       ARRAY (SELECT admin.email FROM organisation_admins admin
              WHERE admin.organisation_id = orders.organisation_id ORDER BY admin.email) AS admins
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
JOIN accounts ON accounts.id = orders.account_id
JOIN organisations ON organisations.id = orders.organisation_id
"""


class Parties(Struct, frozen=True):
    """The merchant of an order, and the addresses of its payer.

    `payer` typed the address at a checkout, or the account has an address for receipts. `admins` are the merchant's.
    """

    merchant: str
    payer: str | None
    admins: list[str]

    @property
    def recipients(self) -> list[str]:
        return [self.payer] if self.payer is not None else self.admins


async def read_parties(connection: Connection, orders: Sequence[Order]) -> dict[str, Parties]:
    """By order id."""
    rows = await connection.fetch(READ_PARTIES, *columns(orders, "scope.account_id, id"))
    payers = {order.id: payer_of(order) for order in orders}
    return {
        row["id"]: Parties(
            row["merchant"],
            payers[row["id"]],
            [email for email in row["admins"] if is_mail_address(email)],
        )
        for row in rows
    }


def payer_of(order: Order) -> str | None:
    """The address of the payer, if there is a usable one."""
    email = order.payer_email
    return email if email is not None and is_mail_address(email) else None


_RETURNED = {
    RefundMethod.CARD: N_(
        "We have refunded %(amount)s to the card that you paid with. It can take some days until your bank shows it."
    ),
    RefundMethod.BANK: N_(
        "We have refunded %(amount)s to the bank account that you paid from. It can take some days until your bank"
        " shows it."
    ),
}
# Nobody asked for the other refunds: their reason is a technical one, and not for the payer.
_ASKED_FOR = {RefundPurpose.CANCELLATION, RefundPurpose.REDUCTION, RefundPurpose.GOODWILL}


def compose_receipt(
    settings: Settings,
    order: Order,
    parties: Parties,
    *,
    url: str | None,
    expected: Expectation,
    paid_at: datetime,
    documents: Sequence[OrderDocument] = (),
) -> EmailMessage:
    wording, invoice = wording_in(order.language), invoice_of(documents)
    _, paid = wording.translate, wording.money(order.amount_due_minor or 0, order.currency)
    facts = [
        (_("Order"), order.id),
        *([(invoice.name(wording), invoice.reference)] if invoice else []),
        (_("Date"), wording.day(paid_at)),
        (_("Name on the certificate"), order.beneficiary),
        *_party_facts(settings, parties, wording),
    ]
    if order.is_paid_at_checkout:
        next_step = _("Next, the credits are retired at the registry. We then mail you the certificate.")
    else:
        next_step = _(
            "Next, the credits are retired at the registry. The certificate is then on the page of the order."
        )
    blocks = [
        _("Thank you. We have received your payment of %(amount)s.", amount=paid),
        sum_lines(price_rows(order, wording), [(_("Paid"), paid)]),
        f"{next_step} {expected.describe(wording)}",
        button_lines(_("See your order and its certificate"), url),
        _("Keep this mail: its link always leads back to your order, your receipt and your certificate.")
        if url
        else "",
        fact_lines(facts),
        _button(invoice, url, wording) or button_lines(_("Receipt to print or save"), url and f"{url}/receipt"),
    ]
    subject = _(
        "Your receipt: %(amount)s for %(mass)s of carbon credits",
        amount=paid,
        mass=wording.mass(_quantity_grams(order)),
    )
    return _compose(settings, order, parties, subject=subject, blocks=blocks)


def compose_refund(
    settings: Settings,
    order: Order,
    parties: Parties,
    *,
    url: str | None,
    refund: Refund,
    documents: Sequence[OrderDocument] = (),
) -> EmailMessage:
    wording = wording_in(order.language)
    _, amount = wording.translate, wording.money(refund.amount_minor, order.currency)
    reason = refund.reason if refund.purpose in _ASKED_FOR else None
    sums = [(_("Refund"), amount)]
    if order.refunded_minor > refund.amount_minor:
        sums.append((_("Refunded in total"), wording.money(order.refunded_minor, order.currency)))
    notes = [each for each in documents if _credits(each, refund)]
    facts = [
        (_("Order"), order.id),
        *((each.name(wording), each.reference) for each in notes),
        *([(_("Reason"), reason)] if reason else []),
    ]
    now, paid = wording.money(order.amount_due_minor or 0, order.currency), []
    if refund.purpose is RefundPurpose.REDUCTION:
        outcome = _(
            "Your order was reduced to %(mass)s. It now costs %(amount)s.",
            mass=wording.mass(_quantity_grams(order)),
            amount=now,
        )
    elif order.status is OrderStatus.CANCELLED:
        outcome, paid = _("Your order was cancelled. No credits are retired for it."), [(_("Paid"), now)]
    else:
        paid = [(_("Paid"), now)]
        outcome = _("This does not change your order: the quantity and the certificate stay the same.")
    blocks = [
        _(_RETURNED[refund.method], amount=amount),
        sum_lines(paid, sums),
        outcome,
        button_lines(_("See your order"), url),
        fact_lines([*facts, *_party_facts(settings, parties, wording)]),
        *(_button(each, url, wording) for each in notes),
    ]
    subject = _("Your refund of %(amount)s", amount=amount)
    return _compose(settings, order, parties, subject=subject, blocks=blocks)


def compose_cancelled(
    settings: Settings, order: Order, parties: Parties, *, url: str | None, reason: str | None
) -> EmailMessage:
    wording = wording_in(order.language)
    _, paid = wording.translate, wording.money(order.amount_due_minor or 0, order.currency)
    facts = [(_("Paid"), paid), (_("Order"), order.id), *([(_("Reason"), reason)] if reason else [])]
    blocks = [
        _(
            "Your order was cancelled after it was paid. No credits are retired for it. You will get another mail when"
            " your money is refunded."
        ),
        fact_lines([*facts, *_party_facts(settings, parties, wording)]),
        button_lines(_("See your order"), url),
    ]
    subject = _("Your order for %(amount)s was cancelled", amount=paid)
    return _compose(settings, order, parties, subject=subject, blocks=blocks)


def compose_release(
    settings: Settings, order: Order, parties: Parties, *, url: str | None, at: datetime
) -> EmailMessage:
    wording = wording_in(order.language)
    _, day = wording.translate, wording.day(at)
    facts = [
        (_("Order"), order.id),
        (_("Quantity"), wording.mass(_quantity_grams(order))),
        *_party_facts(settings, parties, wording),
    ]
    blocks = [
        _(
            "Your order waits until you release it. On %(day)s that happens by itself: its credits are then retired."
            " Until then you can still reduce or cancel it.",
            day=day,
        ),
        fact_lines(facts),
        button_lines(_("See your order"), url),
    ]
    return _compose(settings, order, parties, subject=_("Your order is released on %(day)s", day=day), blocks=blocks)


def price_rows(order: Order, wording: LocalWording) -> list[tuple[str, str]]:
    """Bundles, fee and tax. Their amounts sum to what was paid."""
    priced, _ = order.priced, wording.translate
    if priced is None:
        return []
    rows = [
        (
            f"{one_line(line.bundle_name)}, {wording.mass(line.quantity_grams)}",
            wording.money(line.offset_cost_minor, order.currency),
        )
        for line in priced.lines
    ]
    if priced.commission_minor:
        rows.append((_("Service fee"), wording.money(priced.commission_minor, order.currency)))
    name = tax_name(order, wording)
    if name is not None:
        rows.append((name, wording.money(order.tax.tax_minor or 0, order.currency)))
    return rows


def tax_name(order: Order, wording: LocalWording) -> str | None:
    """None if no tax is shown for the order."""
    _ = wording.translate
    if order.tax.tax_minor is None or order.tax.treatment is TaxTreatment.NONE:
        return None
    names = {
        TaxTreatment.REVERSE_CHARGE: _("Tax (reverse charge)"),
        TaxTreatment.EXEMPT: _("Tax (exempt)"),
        TaxTreatment.OUTSIDE_SCOPE: _("Tax (outside scope)"),
    }
    return names.get(order.tax.treatment) or _("Tax (%(rate)s)", rate=wording.percent(order.tax.rate))


def _credits(document: OrderDocument, refund: Refund) -> bool:
    """Whether it is the credit note of this refund, or of the cancellation that it follows."""
    if document.refund_id is not None:
        return document.refund_id == refund.id
    is_cancelled = refund.purpose is RefundPurpose.CANCELLATION
    return is_cancelled and document.cause is CreditCause.CANCELLATION


def _button(document: OrderDocument | None, url: str | None, wording: LocalWording) -> str:
    """Empty without a document or a page."""
    if document is None:
        return ""
    _ = wording.translate
    label = _("%(document)s to print or save", document=document.name(wording))
    return button_lines(label, url and f"{url}/documents/{document.reference}")


def _party_facts(settings: Settings, parties: Parties, wording: LocalWording) -> list[tuple[str, str]]:
    _ = wording.translate
    address = ", ".join(part.strip() for part in settings.seller_address.replace("\n", ";").split(";") if part.strip())
    seller = ", ".join(part for part in (one_line(settings.seller_name), address) if part)
    tax_id, vat_id = printed_tax_id(settings), vat_id_of(settings)
    return [
        (_("Merchant"), parties.merchant),
        (_("Sold by"), seller),
        *([(_("VAT ID of the seller"), vat_id)] if vat_id else []),
        *([(_("Tax ID of the seller"), tax_id)] if tax_id and not vat_id else []),
    ]


def _compose(settings: Settings, order: Order, parties: Parties, *, subject: str, blocks: list[str]) -> EmailMessage:
    is_test, wording = order.scope.mode is Mode.TEST, wording_in(order.language)
    _ = wording.translate
    return compose_mail(
        settings,
        parties.recipients,
        subject,
        join_blocks(blocks),
        wording=wording,
        merchant=parties.merchant,
        is_test=is_test,
        notice=_("This is a test. No money was moved and no credits are retired.") if is_test else None,
    )


def _quantity_grams(order: Order) -> int:
    return 0 if order.priced is None else order.priced.quantity_grams
