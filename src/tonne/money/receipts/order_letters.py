"""What each mail about the money of an order says, and who gets it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from email.message import EmailMessage
from typing import NamedTuple

from msgspec import Struct

from tonne.money.invoices.card_payment.mail_card_receipt import CardReceipt, compose_card_receipt, read_card_receipt
from tonne.money.invoices.documents.pdf import RenderInvoice
from tonne.money.invoices.mail import InvoiceMail, compose_invoice_mail, write_mail
from tonne.money.invoices.resend_invoice import read_invoice_again
from tonne.money.receipts.compose import compose_cancelled, compose_receipt, compose_refund
from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.receipts.recipients import Parties, read_parties
from tonne.money.refunds.model import Refund, RefundState
from tonne.money.refunds.store import list_of_order
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.replace import replace
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.mails.order_mail_store import DueOrderMail, OrderMailKind
from tonne.selling.orders.model import Order
from tonne.selling.orders.person_store import find_cancel_reason

ABOUT_INVOICES = {OrderMailKind.INVOICE_RECEIPT, OrderMailKind.INVOICE}


class OrderLetter(NamedTuple):
    """A composed mail. It goes to the payer, or to the admins of the organisation if the payer has no address."""

    message: EmailMessage
    payer: str | None
    admins: list[str]
    subject_id: str


class OrderFacts(Struct, frozen=True):
    """What a mail about one order says. Only the mail of its kind has `expected`, `refund` or `reason`."""

    due: DueOrderMail
    order: Order
    parties: Parties
    url: str | None
    expected: Expectation | None = None
    refund: Refund | None = None
    # Why a paid order was cancelled.
    reason: str | None = None


MailFacts = OrderFacts | CardReceipt | InvoiceMail


async def read_facts(
    connection: Connection,
    due: Sequence[DueOrderMail],
    urls: Mapping[str, str | None],
    *,
    settings: Settings,
    now: datetime,
) -> dict[DueOrderMail, MailFacts]:
    """Without the mails that nobody can receive, and those about refunds that failed since."""
    keys = list(dict.fromkeys(each.key for each in due if each.kind not in ABOUT_INVOICES))
    orders = {order.id: order for order in await load_orders(connection, keys)} if keys else {}
    parties = await read_parties(connection, list(orders.values())) if keys else {}
    facts: dict[DueOrderMail, MailFacts] = {}
    for each in due:
        found: MailFacts | None
        if each.kind is OrderMailKind.INVOICE_RECEIPT:
            found = await read_card_receipt(
                connection, each.scope, each.cause, paid_minor=each.amount_minor, paid_at=each.created_at
            )
        elif each.kind is OrderMailKind.INVOICE:
            found = await read_invoice_again(connection, each.cause)
        else:
            known = OrderFacts(each, orders[each.order_id], parties[each.order_id], urls[each.order_id])
            found = await _read_more(connection, known, settings=settings, now=now)
        if found is not None and _recipients(found):
            facts[each] = found
    return facts


async def _read_more(
    connection: Connection, known: OrderFacts, *, settings: Settings, now: datetime
) -> OrderFacts | None:
    order = known.order
    match known.due.kind:
        case OrderMailKind.REFUND:
            [refund] = [each for each in await list_of_order(connection, order) if each.id == known.due.cause]
            return replace(known, refund=refund) if refund.state is RefundState.SUCCEEDED else None
        case OrderMailKind.CANCELLED:
            return replace(known, reason=await find_cancel_reason(connection, order.scope, order.id))
        case _:
            return replace(known, expected=await expected_completion(connection, order, settings=settings, now=now))


def _recipients(found: MailFacts) -> list[str]:
    if not isinstance(found, OrderFacts):
        return found.recipients
    is_receipt = found.due.kind is OrderMailKind.RECEIPT
    # Nobody but the payer gets a receipt.
    return found.parties.recipients if found.parties.payer is not None or not is_receipt else []


async def compose_letter(found: MailFacts, *, settings: Settings, render: RenderInvoice, now: datetime) -> OrderLetter:
    """Takes long, above all the PDF of an invoice: call it outside of a transaction."""
    match found:
        case CardReceipt():
            message = compose_card_receipt(settings, found)
            return OrderLetter(message, found.receipt_email, found.payer.admins, found.invoice.id)
        case InvoiceMail():
            message = await write_mail(compose_invoice_mail, settings, found, now, render)
            return OrderLetter(message, None, found.recipients, found.invoice.id)
        case OrderFacts():
            message = _compose(settings, found)
            return OrderLetter(message, found.parties.payer, found.parties.admins, found.order.id)


def _compose(settings: Settings, found: OrderFacts) -> EmailMessage:
    order, parties, url = found.order, found.parties, found.url
    if found.refund is not None:
        return compose_refund(settings, order, parties, url=url, refund=found.refund)
    if found.expected is not None:
        paid_at = found.due.created_at
        return compose_receipt(settings, order, parties, url=url, expected=found.expected, paid_at=paid_at)
    return compose_cancelled(settings, order, parties, url=url, reason=found.reason)
