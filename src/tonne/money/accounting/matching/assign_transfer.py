"""Decisions about transfers: assigning one to an invoice, undoing that, and whether a doubtful line is a new one."""

from typing import Any

from tonne.money.accounting.matching.import_statement import book_new_lines, settled_invoices
from tonne.money.accounting.matching.match_line import NamedInvoice
from tonne.money.bank import assignment_store, doubtful_store, transfer_store
from tonne.money.bank.formats.identity import Identified, Verdict
from tonne.money.bank.return_store import list_returns_of_transfer_any_account
from tonne.money.bank.transfer_model import Assignment, ReturnStatus, Transfer
from tonne.money.invoices.errors import AssignmentInvalid, DoubtfulLineNotFound
from tonne.money.invoices.model import Invoice, InvoiceStatus
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account, mark_invoice_paid, pay_orders_any_account
from tonne.money.invoices.store import mark_settled_by_hand
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, new_id
from tonne.selling.accounts.model import PaymentMethod


async def assign_transfer(
    tx: Connection,
    transfer_id: str,
    invoice: Invoice,
    amount_minor: int | None,
    *,
    note: str,
    by: By,
) -> tuple[Transfer, Invoice]:
    """Assign an amount, or as much as the invoice can take. Settles the invoice if that pays it. Call it last.

    Returns both as they are then. Raises AssignmentInvalid.
    """
    [locked] = await lock_with_orders_any_account(tx, [invoice.id])
    received = await assignment_store.sum_received_any_account(tx, [locked.id])
    named = NamedInvoice(locked, received.get(locked.id, 0))
    transfer = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    amount_minor = min(transfer.rest_minor, named.missing_minor) if amount_minor is None else amount_minor
    _check(transfer, named, amount_minor)
    new = assignment_store.NewAssignment(transfer.id, locked, amount_minor)
    await assignment_store.insert_assignments(tx, [new], by_operator=True, note=note, by=by)
    details: dict[str, Any] = {"invoice": locked.reference, "amount": transfer.money(amount_minor), "note": note}
    entries = [audit.entry_in(locked, "transfer.assigned", transfer.id, **details)]
    settles = locked.status is InvoiceStatus.OPEN and amount_minor == named.missing_minor
    if settles:
        reason = f"transfer {transfer.id} of {transfer.booked_on}"
        entries.append(await mark_invoice_paid(tx, locked, by_hand=False, by=by, note=reason))
    await transfer_store.refresh_states_any_account(tx, [transfer.id])
    await audit.record_all(tx, entries, by=by)
    [changed] = await transfer_store.lock_transfers_any_account(tx, [transfer.id])
    if settles:
        await pay_orders_any_account(tx, [locked.id], by.at)
        named.mark_paid()
    return changed, named.invoice


async def unassign_transfer(tx: Connection, assignment_id: str, *, note: str, by: By) -> tuple[Assignment, Transfer]:
    """Record the opposite of an assignment. An invoice that it settled stays paid, as if settled by hand."""
    found = await assignment_store.find_assignment_any_account(tx, assignment_id)
    if found is None:
        raise AssignmentInvalid("There is no such assignment. `tonne transfer show` lists those of a transfer.")
    [invoice] = await lock_with_orders_any_account(tx, [found.invoice_id])
    transfer = await transfer_store.lock_transfer_any_account(tx, found.transfer_id)
    found = await assignment_store.find_assignment_any_account(tx, assignment_id)
    if found is None or found.undone:
        raise AssignmentInvalid("The assignment is undone already.")
    refunds = await list_returns_of_transfer_any_account(tx, transfer.id)
    closed = {ReturnStatus.FAILED, ReturnStatus.CANCELLED}
    if any(each.invoice_id == invoice.id and each.status not in closed for each in refunds):
        raise AssignmentInvalid(f"A part of it is refunded for invoice {invoice.reference}, so it must stay assigned.")
    await assignment_store.undo_assignments_any_account(tx, invoice, [found], note=note, by=by)
    if invoice.status is InvoiceStatus.PAID:
        await mark_settled_by_hand(tx, invoice)
    await transfer_store.refresh_states_any_account(tx, [transfer.id])
    details: dict[str, Any] = {"invoice": invoice.reference, "amount": transfer.money(found.amount_minor), "note": note}
    await audit.record(tx, invoice, "transfer.unassigned", by=by, subject_id=transfer.id, **details)
    [changed] = await transfer_store.lock_transfers_any_account(tx, [transfer.id])
    return found, changed


def _check(transfer: Transfer, named: NamedInvoice, amount_minor: int) -> None:
    invoice = named.invoice
    if (transfer.mode, transfer.currency) != (invoice.mode, invoice.currency):
        raise AssignmentInvalid(
            f"Transfer {transfer.id} is in {transfer.mode} mode and {transfer.currency}, but invoice "
            f"{invoice.reference} is in {invoice.mode} mode and {invoice.currency}."
        )
    if transfer.amount_minor < 0 or transfer.rest_minor <= 0:
        raise AssignmentInvalid(f"Nothing is left of transfer {transfer.id} that could be assigned.")
    if named.missing_minor == 0:
        raise AssignmentInvalid(f"Invoice {invoice.reference} is {invoice.status} and needs no money.")
    is_charged = invoice.payment_method is PaymentMethod.CARD and invoice.status is InvoiceStatus.OPEN
    if is_charged and amount_minor < named.missing_minor <= transfer.rest_minor:
        raise AssignmentInvalid(f"A card pays invoice {invoice.reference}: assign all of {invoice.due}, or nothing.")
    if is_charged and transfer.rest_minor < named.missing_minor:
        raise AssignmentInvalid(
            f"A card pays invoice {invoice.reference} over {invoice.due}. A transfer can pay it only in full: return "
            "this one."
        )
    if not 0 < amount_minor <= min(transfer.rest_minor, named.missing_minor):
        raise AssignmentInvalid(
            f"Transfer {transfer.id} has {transfer.rest} left, and invoice {invoice.reference} needs "
            f"{invoice.money(named.missing_minor)}: assign at most the lower of both."
        )


async def decide_doubtful(tx: Connection, line_id: str, *, is_same: bool, by: By) -> Transfer:
    """The transfer that the line is, or the new one. Call it last in the transaction."""
    await transfer_store.lock_imports(tx)
    found = await doubtful_store.lock_doubtful_any_account(tx, line_id)
    if found is None:
        raise DoubtfulLineNotFound
    await doubtful_store.mark_decided_any_account(tx, found.id, is_same=is_same, by=by)
    details = {"line_id": found.id, "amount": found.line.amount, "same": is_same}
    subject_id, action = found.transfer_id, "transfer.doubt_decided"
    entry = audit.Entry(action=action, subject_id=subject_id, mode=found.mode, details=details)
    await audit.record_all(tx, [entry], by=by)
    transfer_id, matches = found.transfer_id, {}
    if is_same:
        same = Identified(found.line, Verdict.KNOWN, found.transfer_id)
        await transfer_store.complete_transfers_any_account(tx, found.format, [same])
    else:
        transfer_id = new_id("trf")
        new = Identified(found.line, Verdict.NEW, transfer_id)
        matches = await book_new_lines(tx, found.mode, found.format, [new], by=by)
    [transfer] = await transfer_store.find_transfers_any_account(tx, [transfer_id])
    await pay_orders_any_account(tx, settled_invoices(matches), by.at)
    return transfer
