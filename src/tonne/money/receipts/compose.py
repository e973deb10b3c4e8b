"""Mails about the money of an order: a receipt, a refund, a cancellation after the payment.

All are enqueued in the transaction that moves the money or the order, so each is sent once. Call them before events
are appended: nothing may be locked after the event stream.
"""

from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage

from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.receipts.recipients import Parties, enqueue_order_mail, payer_of, read_parties
from tonne.platform.db.pool import Connection
from tonne.platform.documents.mail.layout import button_lines, fact_lines, join_blocks, one_line, sum_lines
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.settings.settings import Settings
from tonne.platform.values.language import N_
from tonne.platform.values.scope import Mode
from tonne.platform.values.tax import TaxTreatment
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.selling.orders.model import Order, OrderStatus
from tonne.selling.orders.order_links import order_urls

# Where the money was returned to.
REFUNDED = N_(
    "We have refunded %(amount)s to the card or bank account that you paid with. It can take some days until your bank"
    " shows it."
)
REFUNDED_TO_CARD = N_(
    "We have refunded %(amount)s to the card that you paid with. It can take some days until your bank shows it."
)
REFUNDED_TO_BANK = N_(
    "We have refunded %(amount)s to the bank account that you paid from. It can take some days until your bank shows"
    " it."
)


async def enqueue_receipts(tx: Connection, orders: Sequence[Order], *, settings: Settings, now: datetime) -> None:
    """For each of these locked orders, which are being paid in this transaction, if its payer has an address."""
    wanted = [order for order in orders if payer_of(order) is not None]
    if not wanted:
        return
    parties = await read_parties(tx, wanted)
    urls = await order_urls(tx, wanted, settings=settings, now=now)
    for order in wanted:
        expected = await expected_completion(tx, order, settings=settings, now=now)
        message = compose_receipt(settings, order, parties[order.id], url=urls[order.id], expected=expected, now=now)
        await enqueue_order_mail(tx, order, parties[order.id], message)


async def enqueue_refund_mail(
    tx: Connection,
    order: Order,
    amount_minor: int,
    *,
    settings: Settings,
    now: datetime,
    reason: str | None = None,
    returned: str = REFUNDED,
) -> None:
    """For a refund that was made. `mail_refunds.py` calls it. `returned` is one of the sentences above."""
    parties = (await read_parties(tx, [order]))[order.id]
    urls = await order_urls(tx, [order], settings=settings, now=now)
    message = compose_refund(
        settings, order, parties, amount_minor=amount_minor, url=urls[order.id], reason=reason, returned=returned
    )
    await enqueue_order_mail(tx, order, parties, message)


async def enqueue_cancellation_mail(
    tx: Connection, order: Order, *, settings: Settings, now: datetime, reason: str | None = None
) -> None:
    """For a paid order that is being cancelled. Another mail follows when the refund was made."""
    parties = (await read_parties(tx, [order]))[order.id]
    urls = await order_urls(tx, [order], settings=settings, now=now)
    message = compose_cancelled(settings, order, parties, url=urls[order.id], reason=reason)
    await enqueue_order_mail(tx, order, parties, message)


def compose_receipt(
    settings: Settings, order: Order, parties: Parties, *, url: str | None, expected: Expectation, now: datetime
) -> EmailMessage:
    wording = wording_in(order.language)
    _, paid = wording.translate, wording.money(order.amount_due_minor or 0, order.currency)
    facts = [
        (_("Order"), order.id),
        (_("Date"), wording.day(now)),
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
        button_lines(_("Receipt to print or save"), url and f"{url}/receipt"),
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
    amount_minor: int,
    url: str | None,
    reason: str | None,
    returned: str,
) -> EmailMessage:
    wording = wording_in(order.language)
    _, amount = wording.translate, wording.money(amount_minor, order.currency)
    sums = [(_("Refund"), amount)]
    if order.refunded_minor > amount_minor:
        sums.append((_("Refunded in total"), wording.money(order.refunded_minor, order.currency)))
    facts = [(_("Order"), order.id), *([(_("Reason"), reason)] if reason else [])]
    if order.status is OrderStatus.CANCELLED:
        outcome = _("Your order was cancelled. No credits are retired for it.")
    else:
        outcome = _("This does not change your order: the quantity and the certificate stay the same.")
    blocks = [
        _(returned, amount=amount),
        sum_lines([(_("Paid"), wording.money(order.amount_due_minor or 0, order.currency))], sums),
        outcome,
        button_lines(_("See your order"), url),
        fact_lines([*facts, *_party_facts(settings, parties, wording)]),
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


def _party_facts(settings: Settings, parties: Parties, wording: LocalWording) -> list[tuple[str, str]]:
    _ = wording.translate
    address = ", ".join(part.strip() for part in settings.seller_address.replace("\n", ";").split(";") if part.strip())
    seller = ", ".join(part for part in (one_line(settings.seller_name), address) if part)
    tax_id = settings.seller_vat_id or settings.seller_tax_id
    return [
        (_("Merchant"), parties.merchant),
        (_("Sold by"), seller),
        *([(_("Tax ID of the seller"), tax_id)] if tax_id else []),
    ]


def _compose(settings: Settings, order: Order, parties: Parties, *, subject: str, blocks: list[str]) -> EmailMessage:
    is_test, wording = order.scope.mode is Mode.TEST, wording_in(order.language)
    _ = wording.translate
    recipients = [parties.payer] if parties.payer is not None else parties.admins
    return compose_mail(
        settings,
        recipients,
        subject,
        join_blocks(blocks),
        wording=wording,
        merchant=parties.merchant,
        is_test=is_test,
        notice=_("This is a test. No money was moved and no credits are retired.") if is_test else None,
    )


def _quantity_grams(order: Order) -> int:
    return 0 if order.priced is None else order.priced.quantity_grams
