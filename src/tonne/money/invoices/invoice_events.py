"""Events of invoices: issued, overdue, paid, credited and cancelled."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.platform.db.database import Connection
from tonne.platform.events.notification import Stream
from tonne.platform.events.optional_events import OptionalEvent, find_recording, record_optional
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope, same_named
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.catalogue.schemas import CurrencyCode, Money

ISSUED = "invoice.issued"
# With the reminder, a few days after the due date.
OVERDUE = "invoice.overdue"
PAID = "invoice.paid"
CREDITED = "invoice.credited"
CANCELLED = "invoice.cancelled"

_DATE = {"format": "date"}


class InvoiceOut(msgspec.Struct):
    id: Annotated[str, Meta(description="The id of the invoice.", examples=["inv_06gtv1alff3htg9thvlvj59t20"])]
    number: Annotated[str, Meta(description="The number on the invoice.", examples=["2026-000042"])]
    status: Annotated[InvoiceStatus, Meta(description="`open`, `paid` or `cancelled`.", examples=["open"])]
    payment_method: Annotated[
        PaymentMethod, Meta(description="`invoice`: by bank transfer. `card`: a card is charged.", examples=["invoice"])
    ]
    currency: CurrencyCode
    total: Annotated[Money, Meta(description="The total on the invoice, with tax.", examples=["27.78"])]
    amount_due: Annotated[Money, Meta(description="The total less its credit notes.", examples=["27.78"])]
    issued_on: Annotated[str, Meta(description="The date of issue.", examples=["2026-11-15"], extra_json_schema=_DATE)]
    due_on: Annotated[
        str, Meta(description="Until when it is to be paid.", examples=["2026-12-15"], extra_json_schema=_DATE)
    ]
    order_ids: Annotated[
        list[str],
        Meta(
            description="The orders of the event's account that it bills. An invoice for several accounts is reported "
            "by one event for each.",
            examples=[["ord_06gtv1alff3htg9thvlvj59t20"]],
        ),
    ]
    order_count: Annotated[int, Meta(description="How many orders it bills in all accounts.", examples=[1])]


async def record_invoices(tx: Connection, invoices: Sequence[Invoice], event_type: str, now: datetime) -> bool:
    """Record the same event of several invoices, each as it is afterwards. Returns whether there are events."""
    scopes = {invoice.id: Scope(invoice.organisation_id, "", invoice.mode) for invoice in invoices}
    recording = await find_recording(tx, scopes.values(), [event_type])
    requested = [each for each in invoices if Stream(each.organisation_id, each.mode) in recording]
    if not requested:
        return False
    ids = [invoice.id for invoice in requested]
    orders: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for invoice_id, key in await find_order_keys_any_account(tx, ids, with_cancelled=True):
        orders[invoice_id][key.account_id].append(key.id)
    events = [
        (Scope(invoice.organisation_id, account_id, invoice.mode), _event(event_type, invoice, order_ids))
        for invoice in requested
        for account_id, order_ids in orders[invoice.id].items()
    ]
    return await record_optional(tx, events, now)


def _event(event_type: str, invoice: Invoice, order_ids: list[str]) -> OptionalEvent:
    order_id = order_ids[0] if invoice.order_count == 1 else None
    document = same_named(
        InvoiceOut,
        invoice,
        number=invoice.in_force.reference,
        total=format_money(invoice.total_minor, invoice.currency),
        amount_due=format_money(invoice.due_minor, invoice.currency),
        issued_on=invoice.in_force.issued_on.isoformat(),
        due_on=invoice.due_on.isoformat(),
        order_ids=order_ids,
    )
    return OptionalEvent(event_type, order_id or invoice.id, msgspec.json.encode(document), order_id)
