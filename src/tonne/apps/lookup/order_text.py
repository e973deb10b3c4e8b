"""The words for orders on pages of the dashboard, and why orders wait, for a list of them."""

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

from tonne.apps.lookup.find_orders import SCANNED, FoundOrder
from tonne.platform.db.database import Connection, columns
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import HoldReason, OrderStatus, PaymentState

STATUSES = [(status, status.capitalize()) for status in OrderStatus]
PAYMENT_STATES = [(state, state.capitalize()) for state in PaymentState]
PAYMENT_METHODS = [(PaymentMethod.CARD, "Card"), (PaymentMethod.INVOICE, "Invoice")]
_KINDS = {
    "event": "Status",
    "charge": "Card",
    "transfer": "Bank transfer",
    "return": "Bank return",
    "parcel": "Retirement",
    "unit": "Shared unit",
    "audit": "Change",
    "lot": "Credits",
}
_EVENTS = {
    "order.received": "Received",
    "order.placed": "Placed: bundles assigned and priced",
    "order.paid": "Paid: waits for credits",
    "order.retiring": "Retiring: every gram is allocated to projects",
    "order.completed": "Complete: every gram is retired",
    "order.cancelled": "Cancelled",
    "order.failed": "Failed",
    "order.payment_updated": "The payment changed",
    "order.person_erased": "The data of a person was erased",
    "order.reduced": "Reduced",
    "order.released": "Released: waits no longer",
}
# What an order on hold waits for.
HOLDS = {
    HoldReason.CREDIT_LIMIT_REACHED: "the credit limit of the account is reached, until this order or others are paid",
    HoldReason.COLLECTION_PENDING: "earlier small orders are paid first",
    HoldReason.BUYER_DETAILS_MISSING: "the invoice needs the buyer's address, or what an electronic invoice states",
    HoldReason.VAT_CHECK_MISSING: "the invoice needs a check of the buyer's VAT ID",
    HoldReason.EXCHANGE_RATE_MISSING: "the invoice needs the exchange rate for its tax",
}
# Hints for operators with a shell, such as " (`tonne catalogue import`)".
_COMMAND = re.compile(r" \(`[^)]*\)")


def list_values() -> dict[str, Any]:
    """What the macros of lists need."""
    return {
        "statuses": STATUSES,
        "payment_states": PAYMENT_STATES,
        "payment_methods": PAYMENT_METHODS,
        "scanned": str(SCANNED),
    }


def kind_label(kind: str) -> str:
    """The label of an entry of the timeline."""
    return _KINDS.get(kind, kind.capitalize())


def happened(entry: TimelineEntry, *, with_commands: bool) -> str:
    """An entry of the timeline as a sentence."""
    text = _EVENTS.get(entry.text, entry.text) if entry.kind == "event" else entry.text
    if not with_commands:
        text = without_commands(text)
    # Audit entries begin with the code of an action.
    return text if entry.kind == "audit" else text[:1].upper() + text[1:]


def without_commands(text: str) -> str:
    """A text of the command line, for people in a browser."""
    return _COMMAND.sub("", text)


LIST_WAITING = """
SELECT keys.id, invoice.reference AS invoice, invoice.due_on, charge.declined, charge.next_attempt_at,
       unit.close_at, unit.to_retire, unit.invalid,
       CASE WHEN orders.fulfil_after > $3 THEN orders.fulfil_after END AS fulfil_after
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
LEFT JOIN LATERAL (
    SELECT invoices.reference, invoices.due_on FROM invoice_orders billed
    JOIN invoices ON invoices.id = billed.invoice_id
    WHERE billed.account_id = keys.account_id AND billed.order_id = keys.id AND NOT billed.cancelled LIMIT 1
) AS invoice ON true
LEFT JOIN LATERAL (
    SELECT coalesce(charges.message, charges.code) AS declined, charges.next_attempt_at FROM charges
    WHERE charges.account_id = keys.account_id AND charges.order_id = keys.id
    ORDER BY charges.attempt DESC LIMIT 1
) AS charge ON true
LEFT JOIN LATERAL (
    SELECT max(parcel.close_at) AS close_at, count(*) FILTER (WHERE parcel.status = 'to_retire') AS to_retire,
           count(*) FILTER (WHERE parcel.invalidated_at IS NOT NULL) AS invalid
    FROM shares share JOIN parcels parcel ON parcel.mode = share.mode AND parcel.id = share.parcel_id
    WHERE share.account_id = keys.account_id AND share.order_id = keys.id
) AS unit ON true
"""


class _Waiting(NamedTuple):
    id: str
    invoice: str | None
    due_on: date | None
    declined: str | None
    next_attempt_at: datetime | None
    close_at: datetime | None
    to_retire: int
    invalid: int
    fulfil_after: datetime | None


async def explain_waiting(connection: Connection, orders: Sequence[FoundOrder], now: datetime) -> dict[str, str]:
    """By id of the order. Orders that wait for nothing are missing."""
    rows = await connection.fetch(LIST_WAITING, *columns(orders, "account_id, id"), now)
    waiting = {row["id"]: _Waiting(**row) for row in rows}
    reasons = {order.id: _reason(order, waiting[order.id]) for order in orders}
    return {id_: reason for id_, reason in reasons.items() if reason is not None}


def _reason(order: FoundOrder, waiting: _Waiting) -> str | None:  # noqa: PLR0911 - one per reason
    match order.status:
        case OrderStatus.RECEIVED:
            return f"Waits for a price: no exchange rate for {order.currency}, or a bundle that is not on sale."
        case OrderStatus.PLACED if order.hold_reason is not None:
            return f"On hold: {HOLDS[HoldReason(order.hold_reason)]}."
        case OrderStatus.PLACED:
            return _payment_reason(order, waiting)
        case OrderStatus.PAID:
            return _fulfilment_reason(order, waiting)
        case OrderStatus.RETIRING if waiting.invalid:
            return "Waits for supply: some of its credits are invalid."
        case OrderStatus.RETIRING if waiting.close_at is not None:
            return f"Waits for a shared unit until {_day(waiting.close_at)} at the latest."
        case OrderStatus.RETIRING if waiting.to_retire:
            parts = "1 retirement" if waiting.to_retire == 1 else f"{waiting.to_retire} retirements"
            return f"Waits for {parts} at the registry."
        case _:
            return None


def _fulfilment_reason(order: FoundOrder, waiting: _Waiting) -> str:
    if order.payment_state == PaymentState.DISPUTED:
        return "On hold: the payer disputes the payment."
    if waiting.fulfil_after is not None:
        return f"Waits until {_day(waiting.fulfil_after)}, or until its client releases it."
    return "Waits for supply: too few credits of the projects in its bundles."


def _payment_reason(order: FoundOrder, waiting: _Waiting) -> str:
    if order.offset_link_id is not None:
        return "Waits for the payment of the customer at checkout."
    if waiting.invoice is not None and waiting.due_on is not None:
        return f"Waits for the payment of invoice {waiting.invoice}, due on {_day(waiting.due_on)}."
    if order.payment_method == PaymentMethod.INVOICE:
        return "Waits for its invoice."
    if waiting.declined:
        return f"Waits for payment: the card was declined ({waiting.declined})."
    return "Waits for payment: the charge of the card."


def _day(day: date | datetime) -> str:
    return f"{day.day} {day:%B %Y}"
