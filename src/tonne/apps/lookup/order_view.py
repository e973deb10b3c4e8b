"""Everything that the page of one order shows, for members of the organisation and for the operator.

The life of the order is collected from the packages that did something to it; `tonne order show` prints it, too.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct

from tonne.apps.lookup.actor_text import name_actors
from tonne.apps.lookup.order_facts import ShownOrder, describe_order
from tonne.apps.lookup.order_text import happened, kind_label, without_commands
from tonne.channels.checkout.timeline import checkout_timeline
from tonne.channels.webhooks.timeline import EventDelivery, list_deliveries, webhook_timeline
from tonne.money.cards.timeline import charge_timeline
from tonne.money.invoices import timeline
from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.refunds.order_money import OrderMoney, read_money
from tonne.money.refunds.request_refund import allows_refunds
from tonne.money.refunds.timeline import dispute_timeline, refund_timeline
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.timeline import mail_timeline
from tonne.platform.events.timeline import event_timeline
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.accounts.timeline import audit_timeline
from tonne.selling.estimates.model import Estimate
from tonne.selling.estimates.store import find_estimate
from tonne.selling.orders import store
from tonne.selling.orders.model import Order
from tonne.selling.orders.timeline import order_timeline
from tonne.supply.certificates.store import StoredCertificate, list_of_order
from tonne.supply.retirements.timeline import (
    HeldParcel,
    certificate_timeline,
    list_held_parcels,
    lot_case_timeline,
    retirement_timeline,
)

TimelineSource = Callable[[Connection, Scope, str], Awaitable[list[TimelineEntry]]]


def sources_of(order: Order, *, with_webhooks: bool) -> list[TimelineSource]:
    """Entries of the same time are in this order."""
    return [
        checkout_timeline,
        order_timeline,
        partial(event_timeline, created_at=order.created_at),
        charge_timeline,
        timeline.invoice_timeline,
        timeline.transfer_timeline,
        timeline.credit_note_timeline,
        timeline.write_off_timeline,
        refund_timeline,
        timeline.return_timeline,
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


class Moment(Struct, frozen=True):
    """An entry of the timeline, in words. `tone` is a class of the style sheet."""

    at: datetime
    label: str
    text: str
    by: str | None
    is_planned: bool
    tone: str


class OrderView(Struct, frozen=True):
    facts: ShownOrder
    money: OrderMoney
    waits_for: str | None
    expectation: Expectation
    timeline: Sequence[Moment]
    deliveries: Sequence[EventDelivery]
    parcels: Sequence[HeldParcel]
    certificates: Sequence[StoredCertificate]
    estimate: Estimate | None
    metadata: Sequence[tuple[str, str]]
    document: str
    # Whether members of the organisation may refund.
    allows_refunds: bool

    @property
    def order(self) -> Order:
        return self.money.order


async def load_view(
    connection: Connection,
    scope: Scope,
    order_id: str,
    *,
    settings: Settings,
    now: datetime,
    for_operator: bool,
    with_life: bool,
) -> OrderView | None:
    """`with_life`: with the timeline and the deliveries of its events, which forms do not show."""
    money = await read_money(connection, scope, order_id)
    document = await store.find_by_id(connection, scope, order_id)
    if money is None or document is None:
        return None
    order = money.order
    facts = await describe_order(connection, order, settings)
    waits_for = facts.waits_for
    if waits_for is not None and not for_operator:
        waits_for = without_commands(waits_for)
    estimate_id = order.estimate_id
    return OrderView(
        facts=facts,
        money=money,
        waits_for=waits_for,
        expectation=await expected_completion(connection, order, settings=settings, now=now),
        timeline=await _timeline(connection, order, for_operator=for_operator) if with_life else (),
        deliveries=await list_deliveries(connection, scope, order_id, created_at=order.created_at) if with_life else (),
        parcels=await list_held_parcels(connection, scope, order_id),
        certificates=await list_of_order(connection, scope, order_id),
        estimate=None if estimate_id is None else await find_estimate(connection, scope, estimate_id),
        metadata=_flat(order.metadata),
        document=json.dumps(json.loads(document), indent=2, ensure_ascii=False),
        allows_refunds=await allows_refunds(connection, scope),
    )


async def _timeline(connection: Connection, order: Order, *, for_operator: bool) -> list[Moment]:
    entries = [
        entry
        for entry in await collect_timeline(connection, order, with_webhooks=False)
        if for_operator or _is_for_members(entry)
    ]
    names = await name_actors(
        connection, order.scope.organisation_id, [entry.actor for entry in entries], for_operator=for_operator
    )
    return [
        Moment(
            at=entry.at,
            label=kind_label(entry.kind),
            text=happened(entry, with_commands=for_operator),
            by=None if entry.actor is None else names[entry.actor],
            is_planned=entry.is_planned,
            tone=entry.kind.replace(" ", "-"),
        )
        for entry in entries
    ]


def _is_for_members(entry: TimelineEntry) -> bool:
    """Most audit entries repeat what another entry says. The operator sees all of them."""
    return entry.kind != "audit" or (entry.text.startswith("order.") and not entry.text.startswith("order.cancelled"))


def _flat(metadata: str) -> list[tuple[str, str]]:
    """Names and values of the client's JSON; nested values stay JSON."""
    values = json.loads(metadata)
    if not isinstance(values, dict):
        return []
    return [
        (name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]
