"""Send the mails about an order again, to a corrected address if the customer mistyped it."""

from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from tonne.channels.checkout.errors import NothingToResend
from tonne.money.invoices.follow_up_invoices import resend_invoice
from tonne.money.invoices.store import find_invoice
from tonne.money.receipts.compose import payer_of
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Scope
from tonne.selling.orders.correct_email import correct_email
from tonne.selling.orders.mails.order_mail_store import OrderMailKind, OrderMailRow, add_mails
from tonne.selling.orders.model import Order, OrderStatus, PaymentState
from tonne.selling.orders.queue import require_locked_order

# Why a receipt is mailed, if it is not a charge.
RESENT = "resent"


class OrderMail(StrEnum):
    RECEIPT = "receipt"
    CERTIFICATE = "certificate"
    INVOICE = "invoice"


LOCK_CHECKOUT_OF_ORDER = "SELECT id FROM checkouts WHERE account_id = $1 AND order_id = $2 FOR NO KEY UPDATE"


async def lock_checkout_of_order(tx: Connection, scope: Scope, order_id: str) -> None:
    """Before the order: see the lock order."""
    await tx.execute(LOCK_CHECKOUT_OF_ORDER, scope.account_id, order_id)


CORRECT_CHECKOUT = "UPDATE checkouts SET email = $3 WHERE account_id = $1 AND order_id = $2"


async def correct_checkout_email(tx: Connection, scope: Scope, order_id: str, email: str) -> None:
    await tx.execute(CORRECT_CHECKOUT, scope.account_id, order_id, email)


# The worker renders the certificate and mails it.
MAIL_CERTIFICATE_AGAIN = """
UPDATE checkouts SET next_mail_at = $3 WHERE account_id = $1 AND order_id = $2 AND status = 'ordered' RETURNING true
"""


async def mail_certificate_again(tx: Connection, scope: Scope, order_id: str, now: datetime) -> bool:
    return await tx.fetchval(MAIL_CERTIFICATE_AGAIN, scope.account_id, order_id, now) is True


async def resend_order(
    tx: Connection,
    scope: Scope,
    order_id: str,
    requested: Collection[OrderMail],
    *,
    email: str | None,
    settings: Settings,
    by: By,
) -> list[str]:
    """Returns what is sent, such as `receipt to ada@example.com`. With `email`, the order keeps the new address."""
    await lock_checkout_of_order(tx, scope, order_id)
    order = await require_locked_order(tx, scope, order_id)
    before = order.email
    if email is not None:
        if before is None:
            raise NothingToResend(
                "Only customers at checkout have an address of their own. For receipts of an account, use `tonne "
                "account update --receipt-email`; for invoices, `tonne org add-admin`."
            )
        await correct_checkout_email(tx, scope, order_id, email)
        order = await correct_email(tx, order, email)
    sent = []
    for mail in OrderMail:
        if mail in requested:
            sent += await _send(tx, order, mail, settings=settings, by=by)
    if not sent:
        raise NothingToResend
    await audit.record(
        tx,
        scope,
        "order.mails_resent",
        by=by,
        subject_id=order_id,
        # Without the addresses: entries cannot be deleted.
        before={"email": "(former address)", "resent_at": None},
        after={
            "email": "(former address)" if order.email == before else "(new address)",
            "resent_at": by.at.isoformat(),
        },
        mails=", ".join(mail.partition(" to ")[0] for mail in sent),
    )
    return sent


async def _send(
    tx: Connection,
    order: Order,
    mail: OrderMail,
    *,
    settings: Settings,
    by: By,
) -> list[str]:
    match mail:
        case OrderMail.RECEIPT if order.payment_state is not PaymentState.UNPAID and payer_of(order):
            kind, amount_minor = OrderMailKind.RECEIPT, order.amount_due_minor or 0
            await add_mails(tx, [OrderMailRow(order.scope, order.id, kind, RESENT, amount_minor)], by.at)
            return [f"receipt to {payer_of(order)}"]
        case OrderMail.CERTIFICATE if order.status is OrderStatus.COMPLETE and order.email:
            if await mail_certificate_again(tx, order.scope, order.id, by.at):
                return [f"certificate to {order.email}"]
        case OrderMail.INVOICE:
            invoice = await find_invoice(tx, order.scope, order.id)
            # It would go to the admins: the document of a sale at checkout is not theirs.
            if invoice is not None and (not invoice.is_prepaid or order.email is None):
                recipients = await resend_invoice(tx, invoice, settings=settings, by=by)
                return [f"invoice {invoice.reference} to {', '.join(recipients)}"]
        case _:
            pass
    return []
