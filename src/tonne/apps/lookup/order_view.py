"""Everything that the page of one order shows, for members of the organisation and for the operator.

The life of the order is collected from the packages that did something to it. `tonne order show` prints it and the
facts of the order, too.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from msgspec import Struct

from tonne.apps.lookup.actor_text import name_actors
from tonne.apps.lookup.order_text import happened, kind_label, without_commands
from tonne.channels.checkout.timeline import checkout_timeline
from tonne.channels.webhooks.timeline import EventDelivery, list_deliveries, webhook_timeline
from tonne.money.cards.stored_cards.card_problem_store import list_declined, list_to_confirm
from tonne.money.cards.timeline import charge_timeline
from tonne.money.invoices import timeline
from tonne.money.invoices.issuing.billing_store import find_waiting
from tonne.money.invoices.issuing.collect_orders import is_above_credit_limit
from tonne.money.invoices.issuing.issue_each import find_held_back
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import find_invoice
from tonne.money.receipts.expected_completion import Expectation, expected_completion
from tonne.money.refunds.order_money import OrderMoney, read_money
from tonne.money.refunds.request_refund import allows_refunds
from tonne.money.refunds.timeline import dispute_timeline, refund_timeline
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.timeline import mail_timeline
from tonne.platform.events.timeline import event_timeline
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Scope, utc_now
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.accounts.directory import Names, find_names
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.accounts.timeline import audit_timeline
from tonne.selling.estimates.model import Estimate
from tonne.selling.estimates.store import find_estimate
from tonne.selling.orders import store
from tonne.selling.orders.model import HoldReason, Order, OrderStatus
from tonne.selling.orders.store import find_key_of_order
from tonne.selling.orders.timeline import order_timeline
from tonne.supply.certificates.store import StoredCertificate, list_of_order
from tonne.supply.registries.timeline import registry_timeline
from tonne.supply.retirements.timeline import (
    HeldParcel,
    certificate_timeline,
    list_held_parcels,
    lot_case_timeline,
    retirement_timeline,
)

_CHARGE = "the charge of the card"
_WORK_LIST = "(`tonne retirement list --mode {}`)"
SERVICE, OPERATOR, CUSTOMER, CLIENT = "the service", "the operator", "the customer", "the client"


class ShownOrder(Struct, frozen=True):
    """`invoice_state` says what is with the invoice, `next_by` who has the next step."""

    order: Order
    invoice: Invoice | None
    invoice_state: str
    waits_for: str | None
    next_by: str | None
    placed_by: str | None
    names: Names

    @property
    def total_cost_minor(self) -> int | None:
        return None if self.order.priced is None else self.order.priced.total_cost_minor

    @property
    def quantity_grams(self) -> int | None:
        return None if self.order.priced is None else self.order.priced.quantity_grams


async def describe_order(tx: Connection, order: Order, settings: Settings, now: datetime) -> ShownOrder:
    scope = order.scope
    key_id = await find_key_of_order(tx, scope, order.id)
    invoice = await find_invoice(tx, scope, order.id)
    state = "-" if invoice is None else f"{invoice.reference}, {invoice.status}"
    waits_for, next_by = _next_step(order, invoice, now)
    is_collected = invoice is None and order.id in await find_waiting(tx, [order.key])
    if invoice is None and (lacks := await find_held_back(tx, order, settings, now)):
        state = f"waits, because {lacks.reason}"
        needs_buyer = lacks.hold_reason is HoldReason.BUYER_DETAILS_MISSING
        waits_for, next_by = "its invoice", CLIENT if needs_buyer else OPERATOR
    elif order.status is OrderStatus.PLACED and is_collected:
        state = "not issued yet: the order is billed together with others"
        waits_for, next_by = "its consolidated invoice, at the end of the month or at the threshold", SERVICE
    if order.status is OrderStatus.PLACED and await is_above_credit_limit(tx, order):
        waits_for = f"{waits_for}; the credit limit of its account is reached (`tonne invoice ageing`)"
    if order.hold_reason is HoldReason.COLLECTION_PENDING:
        waits_for = f"{waits_for}; earlier small orders of the card or the organisation are paid first"
    if order.auto_advance and _is_charged(order) and not is_collected:
        waits_for, next_by = await _card_step(tx, order, invoice)
    names = await find_names(tx, scope.organisation_id, [scope.account_id])
    return ShownOrder(order, invoice, state, waits_for, next_by, key_id or order.offset_link_id, names)


def _minute(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def _is_charged(order: Order) -> bool:
    is_by_card = order.payment_method is PaymentMethod.CARD and not order.is_paid_at_checkout
    return is_by_card and order.status is OrderStatus.PLACED


async def _card_step(tx: Connection, order: Order, invoice: Invoice | None) -> tuple[str, str]:
    number = None if invoice is None else invoice.reference
    for each in await list_to_confirm(tx, order.scope, utc_now()):
        if (each.invoice == number if each.invoice else each.id == order.id) and each.until is not None:
            return f"the payer's confirmation of the payment at the bank, until {_minute(each.until)}", CLIENT
    for each in await list_declined(tx, order.scope):
        if (each.invoice == number if each.invoice else each.id == order.id) and each.until is not None:
            link = f"`tonne card link {order.scope.account_id}`"
            return f"another card ({link}), or the next charge at {_minute(each.until)}. {each.reason}", CLIENT
    return (_CHARGE if number is None else f"the charge of the account's card for invoice {number}"), SERVICE


def _next_step(order: Order, invoice: Invoice | None, now: datetime) -> tuple[str | None, str | None]:  # noqa: PLR0911 - by status
    """What must happen before the order changes its status, and who does it."""
    for_helper = {OrderStatus.PAID, OrderStatus.RETIRING}
    if not order.is_paid_at_checkout:
        for_helper.add(OrderStatus.PLACED)
    if not order.auto_advance and order.status in for_helper:
        return "a test helper, because orders of this account do not advance automatically", CLIENT
    match order.status:
        case OrderStatus.RECEIVED:
            return "a price: an exchange rate, and bundles on sale (`tonne catalogue import`)", OPERATOR
        case OrderStatus.PLACED:
            return _payment_needed(order, invoice)
        case OrderStatus.PAID if order.is_in_window(now):
            return f"its release, or {_minute(order.fulfil_after or now)}: until then it can be cancelled", CLIENT
        case OrderStatus.PAID if order.is_short_by_simulation:
            return "supply: the account simulates less (`PUT /v1/test-helpers/supply`)", CLIENT
        case OrderStatus.PAID:
            return "supply: credits of the projects in its bundles (`tonne catalogue import-lots`)", OPERATOR
        case OrderStatus.COMPLETE if order.certificate_due_on is not None:
            return f"other retirements, and a new certificate {_WORK_LIST.format(order.scope.mode)}", OPERATOR
        case OrderStatus.RETIRING if order.scope.mode is Mode.TEST:
            return "the answer of the simulated registry (`tonne registry requests`)", SERVICE
        case OrderStatus.RETIRING:
            return f"its retirements {_WORK_LIST.format(order.scope.mode)}", OPERATOR
        case _:
            return None, None


def _payment_needed(order: Order, invoice: Invoice | None) -> tuple[str, str]:
    if order.is_paid_at_checkout:
        return "the payment of the customer at checkout", CUSTOMER
    if order.payment_method is PaymentMethod.CARD:
        return _CHARGE, SERVICE
    return ("its invoice", SERVICE) if invoice is None else (f"the payment of invoice {invoice.reference}", CLIENT)


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
        registry_timeline,
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


# What also happened to other orders, and texts for an auditor: they would bury what happened to the order.
DETAILS = {"unit", "consent"}


class Moment(Struct, frozen=True):
    """An entry of the timeline, in words. `tone` is a class of the style sheet. `is_detail`: folded away."""

    at: datetime
    label: str
    text: str
    by: str | None
    is_planned: bool
    tone: str
    is_detail: bool


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
    facts = await describe_order(connection, order, settings, now)
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
            is_detail=entry.kind in DETAILS,
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
