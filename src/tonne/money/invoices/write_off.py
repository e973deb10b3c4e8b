"""Write off an invoice whose orders were fulfilled on credit and that nobody is expected to pay, and undo that.

The customer still owes the money: the invoice stays open, and what arrives later pays it. Only a credit note reduces
what is owed.
"""

from datetime import datetime
from typing import Any

from tonne.money.bank.assignment_store import sum_received_any_account
from tonne.money.bank.errors import SecondPersonNeeded
from tonne.money.invoices import write_off_store
from tonne.money.invoices.errors import InvoiceNotOpen, WriteOffInvalid
from tonne.money.invoices.issuing.billed_order_store import list_unfulfilled_orders
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account
from tonne.money.invoices.write_off_store import WriteOff, WriteOffState
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, new_id, person_of
from tonne.selling.accounts.model import PaymentMethod


async def write_off_invoice(
    tx: Connection,
    invoice: Invoice,
    *,
    reason: str,
    releases_credit: bool,
    settings: Settings,
    actor: Actor,
    now: datetime,
) -> WriteOff:
    """Write off what is left of an open invoice. Above `refund_approval_above` it waits for a second person.

    Raises InvoiceNotOpen, WriteOffInvalid.
    """
    locked, left_minor = await _lock(tx, invoice)
    await _check(tx, locked, left_minor)
    if (known := await write_off_store.find_write_off_any_account(tx, locked)) is not None:
        is_waiting = known.state is WriteOffState.APPROVAL
        state = "waits to be written off: `tonne invoice approve-write-off`" if is_waiting else "is already written off"
        raise WriteOffInvalid(f"Invoice {locked.reference} {state}.")
    limit = limit_minor(settings.refund_approval_above, locked.currency)
    write_off_id = new_id("wof")
    await write_off_store.insert_write_off_any_account(
        tx, write_off_id, locked, left_minor, reason=reason, releases_credit=releases_credit, actor=actor, now=now
    )
    waits = limit is not None and left_minor > limit
    if not waits:
        await write_off_store.book_write_off_any_account(tx, write_off_id, left_minor, approved_by=None, now=now)
    action = "invoice.write_off_requested" if waits else "invoice.written_off"
    await _record(tx, locked, action, left_minor, reason=reason, actor=actor, now=now)
    return await _find(tx, locked)


async def approve_write_off(tx: Connection, invoice: Invoice, *, actor: Actor, now: datetime) -> WriteOff:
    """Book a write-off that waits for a second person, with what is left then. Raises SecondPersonNeeded."""
    locked, left_minor = await _lock(tx, invoice)
    waiting = await _find(tx, locked)
    if waiting.state is not WriteOffState.APPROVAL:
        raise WriteOffInvalid(f"Invoice {locked.reference} is already written off.")
    person = person_of(str(actor))
    if person is None or person == person_of(waiting.requested_by):
        raise SecondPersonNeeded(
            f"{waiting.requested_by} wrote off invoice {locked.reference}: another person must approve it."
        )
    await _check(tx, locked, left_minor)
    await write_off_store.book_write_off_any_account(tx, waiting.id, left_minor, approved_by=actor, now=now)
    await _record(tx, locked, "invoice.written_off", left_minor, reason=waiting.reason, actor=actor, now=now)
    return await _find(tx, locked)


async def reinstate_invoice(tx: Connection, invoice: Invoice, *, reason: str, actor: Actor, now: datetime) -> WriteOff:
    """Undo the write-off of an open invoice, or withdraw one that waits for approval. Returns it as it was."""
    locked, left_minor = await _lock(tx, invoice)
    found = await _find(tx, locked)
    if found.state is WriteOffState.BOOKED:
        _require_debt(locked, left_minor)
    await write_off_store.undo_write_off_any_account(tx, found.id, left_minor, reason=reason, actor=actor, now=now)
    await _record(tx, locked, "invoice.reinstated", left_minor, reason=reason, actor=actor, now=now)
    return found


async def _lock(tx: Connection, invoice: Invoice) -> tuple[Invoice, int]:
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


async def _record(
    tx: Connection, invoice: Invoice, action: str, amount_minor: int, *, reason: str, actor: Actor, now: datetime
) -> None:
    amount = invoice.money(amount_minor)
    details: dict[str, Any] = {"reference": invoice.reference, "amount": amount, "reason": reason}
    first = invoice.first_order_id
    await audit.record(tx, invoice, action, actor=actor, at=now, subject_id=invoice.id, **details, first_order_id=first)
