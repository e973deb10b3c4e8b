"""Settle an invoice: it is marked as paid, once, and so are all its orders. Or write it off, and undo that.

An invoice is written off if its orders were fulfilled on credit and nobody is expected to pay it. The customer still
owes the money: the invoice stays open, and what arrives later pays it. Only a credit note reduces what is owed.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import structs

from tonne.money.bank.assignment_store import mark_assignments_paid, sum_received_any_account
from tonne.money.bank.transfer_store import refresh_states_any_account
from tonne.money.invoices import store as invoice_store
from tonne.money.invoices import write_off_store
from tonne.money.invoices.card_payment.pay_by_card import stop_charging
from tonne.money.invoices.errors import InvoiceNotFound, InvoiceNotOpen, OrderPaidByCard, WriteOffInvalid
from tonne.money.invoices.invoice_events import PAID, record_invoices
from tonne.money.invoices.issuing.billed_order_store import find_order_keys_any_account, list_unfulfilled_orders
from tonne.money.invoices.issuing.issue_invoices import bill_alone, issue_invoices
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.write_off_store import WriteOff, WriteOffState
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import lock_streams
from tonne.platform.process.progress import progress
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Scope, new_id, replace
from tonne.selling.accounts.model import PaymentMethod
from tonne.selling.orders.load import load_orders
from tonne.selling.orders.model import Order, OrderStatus, PaymentState
from tonne.selling.orders.move_order import Transitions, move_orders, with_payment
from tonne.selling.orders.queue import lock_keys, require_locked_order
from tonne.selling.users.approvals import Approver, approve
from tonne.selling.users.guarded_settings import approved_settings

# Orders that are in memory at the same time while an invoice is settled.
CHUNK = 500
# Reached before payment only on credit.
FULFILLED = (OrderStatus.PAID, OrderStatus.RETIRING, OrderStatus.COMPLETE)


async def settle_invoice(tx: Connection, invoice: Invoice, *, by: By, note: str = "") -> None:
    """Mark an open invoice and all its orders as paid, without a transfer. Call it last in the transaction.

    A transfer that arrives later is matched to the invoice. Raises InvoiceNotOpen.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    entry = await mark_invoice_paid(tx, locked, by_hand=True, by=by, note=note)
    await audit.record_all(tx, [entry], by=by)
    await pay_orders_any_account(tx, [locked.id], by.at)


async def is_covered(connection: Connection, invoice: Invoice) -> bool:
    """Whether it settles itself in test mode, or a credit note has left no more than was already paid."""
    if await invoice_store.settles_itself(connection, invoice):
        return True
    received = await sum_received_any_account(connection, [invoice.id])
    return invoice.credited_minor > 0 and received.get(invoice.id, 0) >= invoice.due_minor


async def settle_if_covered(tx: Connection, invoice: Invoice, *, by: By) -> None:
    """Settle an invoice that needs no further money. Does nothing if that is no longer so. Call it last."""
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    # Read under the lock: a transfer may have been assigned elsewhere since the worker looked.
    if locked.status is InvoiceStatus.OPEN and await is_covered(tx, locked):
        await settle_invoice(tx, locked, by=by, note="settled automatically")


async def settle_test_invoice(tx: Connection, scope: Scope, order_id: str, *, settings: Settings, by: By) -> Order:
    """Test helper: issue the invoice of a placed order if necessary, and settle it."""
    order = await require_locked_order(tx, scope, order_id)
    if order.payment_method is not PaymentMethod.INVOICE:
        raise OrderPaidByCard
    is_on_credit = order.payment_state is PaymentState.UNPAID and order.status in FULFILLED
    if order.status is not OrderStatus.PLACED and not is_on_credit:
        raise InvoiceNotOpen(f"The order is {order.status}. Only a placed order has an open invoice.")
    if not is_on_credit:
        await issue_invoices(tx, [order], settings, by.at)
    if order.priced is not None and order.priced.total_cost_minor == 0:
        # Issuing has marked it as paid.
        return await require_locked_order(tx, scope, order_id)
    invoice = await invoice_store.find_invoice(tx, scope, order_id) or await bill_alone(tx, order, settings, by.at)
    if invoice is None:
        raise InvoiceNotFound
    await settle_invoice(tx, invoice, by=by)
    return await require_locked_order(tx, scope, order_id)


async def lock_with_orders_any_account(tx: Connection, invoice_ids: Sequence[str]) -> list[Invoice]:
    """Lock the orders of invoices, then the invoices, and return these as they are then."""
    await lock_keys(tx, [each.key for each in await find_order_keys_any_account(tx, invoice_ids)])
    return await invoice_store.lock_invoices_any_account(tx, invoice_ids)


async def mark_invoice_paid(tx: Connection, invoice: Invoice, *, by_hand: bool, by: By, note: str) -> audit.Entry:
    """Raises InvoiceNotOpen, also while a card is charged for it.

    Without its orders, which the caller has locked, and pays in the same transaction with `pay_orders_any_account`.

    Returns the entry for the audit log, so that a bank statement can write those of all its lines at once.
    """
    await stop_charging(tx, invoice)
    received_minor = (await sum_received_any_account(tx, [invoice.id])).get(invoice.id, 0)
    by_hand = by_hand and received_minor < invoice.due_minor
    if not await invoice_store.mark_paid(tx, invoice, by_hand=by_hand, by=by):
        if invoice.status is InvoiceStatus.CANCELLED:
            raise InvoiceNotOpen(f"Invoice {invoice.reference} is cancelled. Refund the payment.")
        raise InvoiceNotOpen(f"Invoice {invoice.reference} is already paid. Refund the second payment.")
    await refresh_states_any_account(tx, await mark_assignments_paid(tx, invoice))
    await record_invoices(tx, [replace(invoice, status=InvoiceStatus.PAID)], PAID, by.at)
    return audit.entry_in(
        invoice,
        "invoice.settled",
        invoice.id,
        before={"status": InvoiceStatus.OPEN},
        after={"status": InvoiceStatus.PAID},
        reference=invoice.reference,
        total=invoice.due,
        orders=invoice.order_count,
        first_order_id=invoice.first_order_id,
        note=note,
    )


async def pay_orders_any_account(tx: Connection, invoice_ids: Sequence[str], now: datetime) -> None:
    """Mark the locked orders of settled invoices as paid. Call it last in the transaction."""
    keys = [each.key for each in await find_order_keys_any_account(tx, invoice_ids)]
    if len(keys) > CHUNK:
        # Orders are sorted by account, streams by organisation: two transactions could deadlock.
        await lock_streams(tx, await invoice_store.list_streams_any_account(tx, invoice_ids))
    with progress("Marking orders as paid", len(keys)) as advance:
        for start in range(0, len(keys), CHUNK):
            orders = await load_orders(tx, keys[start : start + CHUNK])
            fulfilled = [order for order in orders if order.status is not OrderStatus.PLACED]
            moves = [
                Transitions(order, [with_payment(order, now)], order.due_at(now))
                for order in orders
                if order.status is OrderStatus.PLACED
            ]
            paid = [structs.replace(order, payment_state=PaymentState.PAID) for order in fulfilled]
            await move_orders(tx, moves, now, updated=paid)
            advance(len(orders))


async def write_off_invoice(
    tx: Connection,
    invoice: Invoice,
    *,
    reason: str,
    releases_credit: bool,
    settings: Settings,
    by: By,
) -> WriteOff:
    """Write off what is left of an open invoice. Above `refund_approval_above` it waits for a second person.

    Raises InvoiceNotOpen, WriteOffInvalid.
    """
    locked, left_minor = await _lock_invoice(tx, invoice)
    await _check(tx, locked, left_minor)
    if (known := await write_off_store.find_write_off_any_account(tx, locked)) is not None:
        is_waiting = known.state is WriteOffState.APPROVAL
        state = "waits to be written off until another person approves it" if is_waiting else "is already written off"
        raise WriteOffInvalid(f"Invoice {locked.reference} {state}.")
    limit = limit_minor((await approved_settings(tx, settings)).refund_approval_above, locked.currency)
    write_off_id = new_id("wof")
    await write_off_store.insert_write_off_any_account(
        tx, write_off_id, locked, left_minor, reason=reason, releases_credit=releases_credit, by=by
    )
    waits = limit is not None and left_minor > limit
    if not waits:
        await write_off_store.book_write_off_any_account(tx, write_off_id, left_minor, approved_by=None, now=by.at)
    action = "invoice.write_off_requested" if waits else "invoice.written_off"
    await _record(tx, locked, action, left_minor, reason=reason, by=by)
    return await _find(tx, locked)


async def approve_write_off(tx: Connection, invoice: Invoice, *, approver: Approver, now: datetime) -> WriteOff:
    """Book a write-off with what is left then, unless another person must approve that, too.

    Raises SecondPersonNeeded.
    """
    locked, left_minor = await _lock_invoice(tx, invoice)
    waiting = await _find(tx, locked)
    if waiting.state is not WriteOffState.APPROVAL:
        raise WriteOffInvalid(f"Invoice {locked.reference} is already written off.")
    await _check(tx, locked, left_minor)
    if await approve(tx, waiting.subject, approver, now):
        return waiting
    by = approver.actor.at(now)
    await write_off_store.book_write_off_any_account(tx, waiting.id, left_minor, approved_by=by.actor, now=now)
    await _record(tx, locked, "invoice.written_off", left_minor, reason=waiting.reason, by=by)
    return await _find(tx, locked)


async def reinstate_invoice(tx: Connection, invoice: Invoice, *, reason: str, by: By) -> WriteOff:
    """Undo the write-off of an open invoice, or withdraw one that waits for approval. Returns it as it was."""
    locked, left_minor = await _lock_invoice(tx, invoice)
    found = await _find(tx, locked)
    if found.state is WriteOffState.BOOKED:
        _require_debt(locked, left_minor)
    await write_off_store.undo_write_off_any_account(tx, found.id, left_minor, reason=reason, by=by)
    await _record(tx, locked, "invoice.reinstated", left_minor, reason=reason, by=by)
    return found


async def _lock_invoice(tx: Connection, invoice: Invoice) -> tuple[Invoice, int]:
    """The locked invoice, which must be open, and what is left to pay of it."""
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    if locked.status is not InvoiceStatus.OPEN:
        raise InvoiceNotOpen(f"Invoice {locked.reference} is {locked.status}: nothing is left to write off.")
    received = await sum_received_any_account(tx, [locked.id])
    return locked, locked.due_minor - received.get(locked.id, 0)


async def _check(tx: Connection, invoice: Invoice, left_minor: int) -> None:
    if invoice.payment_method is not PaymentMethod.INVOICE:
        raise WriteOffInvalid(f"Invoice {invoice.reference} is paid by card. Only invoices paid by transfer can be.")
    unfulfilled = len(await list_unfulfilled_orders(tx, invoice))
    if unfulfilled:
        orders = "1 order" if unfulfilled == 1 else f"{unfulfilled:,} orders"
        raise WriteOffInvalid(
            f"{orders} of invoice {invoice.reference} were not fulfilled: cancel them first with `tonne order cancel`. "
            "Only what was delivered and is not paid can be written off."
        )
    _require_debt(invoice, left_minor)


def _require_debt(invoice: Invoice, left_minor: int) -> None:
    if left_minor <= 0:
        raise WriteOffInvalid(f"Nothing is left to pay of invoice {invoice.reference}: a worker is about to settle it.")


async def _find(tx: Connection, invoice: Invoice) -> WriteOff:
    found = await write_off_store.find_write_off_any_account(tx, invoice)
    if found is None:
        raise WriteOffInvalid(f"Invoice {invoice.reference} is not written off.")
    return found


async def _record(tx: Connection, invoice: Invoice, action: str, amount_minor: int, *, reason: str, by: By) -> None:
    amount = invoice.money(amount_minor)
    details: dict[str, Any] = {"reference": invoice.reference, "amount": amount, "reason": reason}
    first = invoice.first_order_id
    await audit.record(tx, invoice, action, by=by, subject_id=invoice.id, **details, first_order_id=first)
