"""Everything that the page of one order shows, for members of the organisation and for the operator."""

import json
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.apps.lookup.actor_text import name_actors
from tonne.apps.lookup.order_facts import ShownOrder, describe_order
from tonne.apps.lookup.order_text import happened, kind_label, without_commands
from tonne.apps.lookup.order_timeline import collect_timeline
from tonne.channels.webhooks.timeline import EventDelivery, list_deliveries
from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.refunds.order_money import OrderMoney, read_money
from tonne.money.refunds.permission import allows_refunds
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.estimates.model import Estimate
from tonne.selling.estimates.store import find_estimate
from tonne.selling.orders import store
from tonne.selling.orders.model import Order
from tonne.supply.certificates.store import StoredCertificate, list_of_order
from tonne.supply.retirements.timeline import HeldParcel, list_held_parcels


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
