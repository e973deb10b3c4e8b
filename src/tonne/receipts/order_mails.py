"""Mails about the money of an order: a receipt, a refund, a cancellation after the payment.

All are enqueued in the transaction that moves the money or the order, so each is sent once. Call them before events
are appended: nothing may be locked after the event stream.
"""

from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage

from tonne.base.mass import format_tonnes
from tonne.base.money import format_money
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.base.tax import format_rate
from tonne.db.pool import Connection
from tonne.gateways.mail import TEST_SUBJECT, compose_mail
from tonne.gateways.mail_layout import fact_lines, one_line
from tonne.orders.model import Order, OrderStatus
from tonne.receipts.expected_completion import expected_completion
from tonne.receipts.order_links import order_urls
from tonne.receipts.recipients import Parties, enqueue_order_mail, payer_of, read_parties

_MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
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
        message = compose_receipt(
            settings, order, parties[order.id], url=urls[order.id], expected=expected.sentence, now=now
        )
        await enqueue_order_mail(tx, order, parties[order.id], message)


async def enqueue_refund_mail(
    tx: Connection,
    order: Order,
    amount_minor: int,
    *,
    settings: Settings,
    now: datetime,
    reason: str | None = None,
    returned_to: str = "the card or bank account that you paid with",
) -> None:
    """For a refund that was made. `refunds/mail_refunds.py` calls it."""
    parties = (await read_parties(tx, [order]))[order.id]
    urls = await order_urls(tx, [order], settings=settings, now=now)
    message = compose_refund(
        settings, order, parties, amount_minor=amount_minor, url=urls[order.id], reason=reason, returned_to=returned_to
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
    settings: Settings, order: Order, parties: Parties, *, url: str | None, expected: str, now: datetime
) -> EmailMessage:
    paid = _money(order.amount_due_minor or 0, order)
    facts = [*_price_facts(order), ("Paid", paid), ("Order", order.id), ("Date", in_words(now))]
    facts += [("In the name of", order.beneficiary), *_party_facts(settings, parties)]
    certificate = (
        "We then mail you the certificate."
        if order.is_paid_at_checkout
        else "The certificate is then on the page of the order."
    )
    text = (
        f"Thank you. We have received your payment of {paid}.\n\n"
        f"{fact_lines(facts)}\n"
        f"Next, the credits are retired at the registry. {certificate} {expected}\n\n"
        f"{_link('See your order and its certificate', url)}"
    )
    subject = f"Your receipt: {paid} for {format_tonnes(_quantity_grams(order))} t of carbon credits"
    return _compose(settings, order, parties, subject=subject, text=text)


def compose_refund(
    settings: Settings,
    order: Order,
    parties: Parties,
    *,
    amount_minor: int,
    url: str | None,
    reason: str | None,
    returned_to: str,
) -> EmailMessage:
    amount = _money(amount_minor, order)
    facts = [("Refund", amount)]
    if order.refunded_minor > amount_minor:
        facts.append(("Refunded in total", _money(order.refunded_minor, order)))
    facts += [("Paid", _money(order.amount_due_minor or 0, order)), ("Order", order.id)]
    facts += [("Reason", reason)] if reason else []
    goes_on = (
        "Your order was cancelled. No credits are retired for it."
        if order.status is OrderStatus.CANCELLED
        else "This does not change your order: the quantity and the certificate stay the same."
    )
    text = (
        f"We have refunded {amount} to {returned_to}. It can take some days until your bank shows it.\n\n"
        f"{fact_lines([*facts, *_party_facts(settings, parties)])}\n"
        f"{goes_on}\n\n"
        f"{_link('See your order', url)}"
    )
    return _compose(settings, order, parties, subject=f"Your refund of {amount}", text=text)


def compose_cancelled(
    settings: Settings, order: Order, parties: Parties, *, url: str | None, reason: str | None
) -> EmailMessage:
    paid = _money(order.amount_due_minor or 0, order)
    facts = [("Order", order.id), ("Paid", paid), *([("Reason", reason)] if reason else [])]
    text = (
        "Your order was cancelled after it was paid. No credits are retired for it. You will get another mail when "
        "your money is refunded.\n\n"
        f"{fact_lines([*facts, *_party_facts(settings, parties)])}\n"
        f"{_link('See your order', url)}"
    )
    return _compose(settings, order, parties, subject=f"Your order for {paid} was cancelled", text=text)


def in_words(moment: datetime) -> str:
    """`31 March 2026`, which is unambiguous in every country."""
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}"


def _price_facts(order: Order) -> list[tuple[str, str]]:
    """Bundles, fee and tax. Their amounts sum to what was paid."""
    priced = order.priced
    if priced is None:
        return []
    facts = [
        (one_line(line.bundle_name), f"{format_tonnes(line.quantity_grams)} t, {_money(line.offset_cost_minor, order)}")
        for line in priced.lines
    ]
    if priced.commission_minor:
        facts.append(("Service fee", _money(priced.commission_minor, order)))
    if order.tax.tax_minor is not None and order.tax.treatment != "none":
        facts.append((_tax_name(order), _money(order.tax.tax_minor, order)))
    return facts


def _tax_name(order: Order) -> str:
    names = {"reverse_charge": "Tax (reverse charge)", "exempt": "Tax (exempt)", "outside_scope": "Tax (outside scope)"}
    return names.get(order.tax.treatment, f"Tax ({format_rate(order.tax.rate)} %)")


def _party_facts(settings: Settings, parties: Parties) -> list[tuple[str, str]]:
    address = ", ".join(part.strip() for part in settings.seller_address.replace("\n", ";").split(";") if part.strip())
    seller = ", ".join(part for part in (one_line(settings.seller_name), address) if part)
    return [("Merchant", parties.merchant), ("Sold by", seller)]


def _link(label: str, url: str | None) -> str:
    return "" if url is None else f"{label}:\n{url}\n"


def _compose(settings: Settings, order: Order, parties: Parties, *, subject: str, text: str) -> EmailMessage:
    is_test = order.scope.mode is Mode.TEST
    questions = f"Questions? Write to {settings.seller_email}\n" if settings.seller_email else ""
    recipients = [parties.payer] if parties.payer is not None else parties.admins
    return compose_mail(
        settings,
        recipients,
        f"{TEST_SUBJECT if is_test else ''}{subject}",
        text,
        notice="This is a test. No money was moved and no credits are retired." if is_test else None,
        closing=f"{one_line(settings.seller_name)}\n{questions}",
    )


def _money(amount_minor: int, order: Order) -> str:
    return f"{format_money(amount_minor, order.currency)} {order.currency}"


def _quantity_grams(order: Order) -> int:
    return 0 if order.priced is None else order.priced.quantity_grams
