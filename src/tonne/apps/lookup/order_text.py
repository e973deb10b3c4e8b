"""The words for orders on pages of the dashboard."""

import re
from typing import Any

from tonne.apps.lookup.find_orders import SCANNED
from tonne.platform.values.timeline import TimelineEntry
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.model import OrderStatus, PaymentState

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
