"""The life of an order, collected from the packages that did something to it.

For `tonne order show` and the dashboard.
"""

from collections.abc import Awaitable, Callable
from functools import partial

from tonne.channels.checkout.timeline import checkout_timeline
from tonne.channels.webhooks.timeline import webhook_timeline
from tonne.money.cards.timeline import charge_timeline
from tonne.money.invoices.timeline import (
    credit_note_timeline,
    invoice_timeline,
    return_timeline,
    transfer_timeline,
    write_off_timeline,
)
from tonne.money.refunds.timeline import dispute_timeline, refund_timeline
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.timeline import mail_timeline
from tonne.platform.events.timeline import event_timeline
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.accounts.timeline import audit_timeline
from tonne.selling.orders.model import Order
from tonne.selling.orders.timeline import order_timeline
from tonne.supply.retirements.timeline import certificate_timeline, lot_case_timeline, retirement_timeline

TimelineSource = Callable[[Connection, Scope, str], Awaitable[list[TimelineEntry]]]


def sources_of(order: Order, *, with_webhooks: bool) -> list[TimelineSource]:
    """Entries of the same time are in this order."""
    return [
        checkout_timeline,
        order_timeline,
        partial(event_timeline, created_at=order.created_at),
        charge_timeline,
        invoice_timeline,
        transfer_timeline,
        credit_note_timeline,
        write_off_timeline,
        refund_timeline,
        return_timeline,
        dispute_timeline,
        retirement_timeline,
        lot_case_timeline,
        certificate_timeline,
        *([partial(webhook_timeline, created_at=order.created_at)] if with_webhooks else []),
    ]


# Their mails and audit entries are not about this order.
SHARED = {"webhook", "lot"}


async def collect_timeline(connection: Connection, order: Order, *, with_webhooks: bool = True) -> list[TimelineEntry]:
    """Oldest first, and what is planned last. Deliveries to webhooks are the dearest part of it."""
    scope, sources = order.scope, sources_of(order, with_webhooks=with_webhooks)
    entries = [entry for source in sources for entry in await source(connection, scope, order.id)]
    subjects = {entry.subject_id for entry in entries if entry.kind not in SHARED and entry.subject_id}
    about = sorted({order.id, *subjects})
    entries += await mail_timeline(connection, scope, about)
    entries += await audit_timeline(connection, scope, about)
    return sorted(entries, key=lambda entry: (entry.is_planned, entry.at))
