"""Credit refunds on the documents of their orders: when they have succeeded, and not while they may still fail.

What is credited follows from the refunds: calling it again changes nothing.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditedOrder, credit_in_part, without
from tonne.money.invoices.credit_notes.issue_credit_note import credit_order, issue_credit_note
from tonne.money.invoices.credit_notes.take_back import take_back
from tonne.money.invoices.issuing.billed_order_store import find_billed_order, find_order_keys_any_account
from tonne.money.invoices.issuing.due_document_store import lock_due_document
from tonne.money.invoices.issuing.issue_documents import ACTOR
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.store import find_invoice, lock_invoices_any_account
from tonne.money.refunds.model import Refund, RefundPurpose, RefundState
from tonne.money.refunds.store import list_of_order
from tonne.platform.db.database import Connection
from tonne.platform.values.context import By
from tonne.selling.orders.model import Order, OrderStatus

# The document of a cancelled order is credited with the cancellation, whatever becomes of its refund.
_CREDITED = {RefundPurpose.GOODWILL, RefundPurpose.GATEWAY}
_OVER = {OrderStatus.CANCELLED, OrderStatus.FAILED}
RefundedOrder = tuple[Order, Sequence[Refund]]


async def correct_documents(tx: Connection, orders: Sequence[RefundedOrder], *, by: By) -> None:
    """Issue credit notes for what was refunded of these locked orders, and take back those that failed since.

    An order without a document is left out: the worker that issues it credits its refunds. Call it before events are
    appended.
    """
    refunded = [each for each in orders if any(_was_made(refund) for refund in each[1])]
    documented = [each for each in refunded if not await lock_due_document(tx, each[0].key)]
    # A charge may have paid several invoices.
    while documented:
        first = documented[0][0]
        found = await find_invoice(tx, first.scope, first.id)
        keys = {first.key}
        if found is not None:
            keys |= {each.key for each in await find_order_keys_any_account(tx, [found.id])}
            await _correct(tx, found.id, [each for each in documented if each[0].key in keys], by=by)
        documented = [each for each in documented if each[0].key not in keys]


async def _correct(tx: Connection, invoice_id: str, orders: Sequence[RefundedOrder], *, by: By) -> None:
    [invoice] = await lock_invoices_any_account(tx, [invoice_id])
    await _take_back(tx, invoice, orders, by=by)
    [invoice] = await lock_invoices_any_account(tx, [invoice_id])
    await _credit(tx, invoice, orders, by=by)


def _was_made(refund: Refund) -> bool:
    return refund.purpose in _CREDITED and refund.state in {RefundState.SUCCEEDED, RefundState.FAILED}


def _refunded_minor(refunds: Sequence[Refund]) -> int:
    made = [each for each in refunds if each.purpose in _CREDITED and each.state is RefundState.SUCCEEDED]
    return sum(each.amount_minor for each in made)


async def _take_back(tx: Connection, invoice: Invoice, orders: Sequence[RefundedOrder], *, by: By) -> None:
    for order, refunds in orders:
        notes = await credit_note_store.list_refund_notes(tx, order.scope, order.id)
        failed = {each.id for each in refunds if each.state is RefundState.FAILED}
        # Those of refunds that failed come first, then the newest.
        notes.sort(key=lambda note: (note.refund_id in failed, note.number), reverse=True)
        credited = (await credit_note_store.sum_refund_credits(tx, invoice)).get(order.id, 0)
        while notes and order.status not in _OVER and credited > _refunded_minor(refunds):
            await take_back(tx, invoice, notes.pop(0), by=by)
            credited = (await credit_note_store.sum_refund_credits(tx, invoice)).get(order.id, 0)


async def _credit(tx: Connection, invoice: Invoice, orders: Sequence[RefundedOrder], *, by: By) -> None:
    credited = await credit_note_store.sum_refund_credits(tx, invoice)
    earlier = await credit_note_store.sum_credited(tx, invoice)
    parts: list[CreditedOrder] = []
    newest: list[Refund] = []
    for order, refunds in orders:
        missing = _refunded_minor(refunds) - credited.get(order.id, 0)
        billed = await find_billed_order(tx, invoice, order.key) if missing > 0 else None
        if billed is None:
            continue
        left = without(billed, earlier.get(order.id))
        if left.total_minor > 0:
            parts.append(credit_in_part(left, min(missing, left.total_minor)))
            made = [each for each in refunds if each.purpose in _CREDITED and each.state is RefundState.SUCCEEDED]
            newest.append(max(made, key=lambda each: (each.settled_at or each.created_at, each.id)))
    if parts:
        cause, refund = CreditCause.REFUND, newest[0]
        reason = "Refunded at the card gateway" if refund.purpose is RefundPurpose.GATEWAY else refund.reason
        await issue_credit_note(tx, invoice, parts, cause=cause, reason=reason, by=by, refund_id=refund.id)


async def correct_new_documents(
    tx: Connection, orders: Sequence[Order], discounts: Mapping[str, int], now: datetime
) -> None:
    """For the worker that has just issued the documents of these orders."""
    by = ACTOR.at(now)
    for order in orders:
        if order.id in discounts:
            reason, cause = "Another amount was accepted", CreditCause.CORRECTION
            await credit_order(tx, order, discounts[order.id], cause=cause, reason=reason, by=by)
        await correct_documents(tx, [(order, await list_of_order(tx, order))], by=by)
