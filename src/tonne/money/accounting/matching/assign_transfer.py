"""Decisions about transfers: assigning one to an invoice, undoing that, and whether a doubtful line is a new one."""

from collections.abc import Sequence
from typing import Any

from tonne.money.accounting.matching.import_statement import book_new_lines, settled_invoices
from tonne.money.accounting.matching.match_line import NamedInvoice
from tonne.money.bank import assignment_store, doubtful_store, transfer_store
from tonne.money.bank.formats.identity import Identified, Verdict
from tonne.money.bank.return_store import list_returns_of_transfer_any_account
from tonne.money.bank.transfer_model import Assignment, ReturnStatus, Transfer
from tonne.money.invoices.errors import AssignmentInvalid, DoubtfulLineNotFound
from tonne.money.invoices.model import DifferenceKind, Invoice, InvoiceStatus
from tonne.money.invoices.settle_difference import settle_with_difference
from tonne.money.invoices.settle_invoice import lock_with_orders_any_account, mark_invoice_paid, pay_orders_any_account
from tonne.money.invoices.store import find_invoices_any_account, mark_settled_by_hand
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, new_id
from tonne.selling.accounts.model import PaymentMethod


async def assign_transfer(
    tx: Connection,
    transfer_id: str,
    invoices: Sequence[Invoice],
    amount_minor: int | None,
    *,
    note: str,
    by: By,
) -> tuple[Transfer, list[Invoice]]:
    """Assign an amount, or to each invoice in turn as much as it can take. Settles those that it pays. Call it last.

    Returns all as they are then. An amount is for one invoice. Raises AssignmentInvalid.
    """
    ids = list(dict.fromkeys(each.id for each in invoices))
    if amount_minor is not None and len(ids) > 1:
        raise AssignmentInvalid("An amount is for one invoice: name one, or no amount.")
    locked = {each.id: each for each in await lock_with_orders_any_account(tx, ids)}
    received = await assignment_store.sum_received_any_account(tx, ids)
    transfer = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    changed, settled = [], []
    for id_ in ids:
        named = NamedInvoice(locked[id_], received.get(id_, 0))
        if await _assign(tx, transfer, named, amount_minor, note=note, by=by):
            settled.append(id_)
            named.mark_paid()
        await transfer_store.refresh_states_any_account(tx, [transfer.id])
        [transfer] = await transfer_store.lock_transfers_any_account(tx, [transfer.id])
        changed.append(named.invoice)
    await pay_orders_any_account(tx, settled, by.at)
    return transfer, changed


# What becomes of the rest if a transfer is less than its invoice: a credit note gives it up. Without one, it is owed.
GIVEN_UP = "credit_note"
DIFFERENCES = (*DifferenceKind, GIVEN_UP)


async def assign_short_transfer(
    tx: Connection, transfer_id: str, invoice: Invoice, difference: str, *, settings: Settings, by: By
) -> tuple[Transfer, list[Invoice]]:
    """Assign all of a transfer to an invoice, and settle that: the rest is booked as one of the differences.

    Call it last in the transaction. Raises AssignmentInvalid, DifferenceInvalid, CreditTooHigh.
    """
    note = f"less arrived: {difference.replace('_', ' ')}"
    transfer, _ = await assign_transfer(tx, transfer_id, [invoice], None, note=note, by=by)
    kind = None if difference == GIVEN_UP else DifferenceKind(difference)
    await settle_with_difference(tx, invoice, kind, None, note=note, settings=settings, by=by)
    return transfer, await find_invoices_any_account(tx, [invoice.id])


async def _assign(
    tx: Connection, transfer: Transfer, named: NamedInvoice, amount_minor: int | None, *, note: str, by: By
) -> bool:
    """Whether that settles the invoice."""
    invoice = named.invoice
    amount_minor = min(transfer.rest_minor, named.missing_minor) if amount_minor is None else amount_minor
    _check(transfer, named, amount_minor)
    new = assignment_store.NewAssignment(transfer.id, invoice, amount_minor)
    await assignment_store.insert_assignments(tx, [new], by_operator=True, note=note, by=by)
    details: dict[str, Any] = {"invoice": invoice.reference, "amount": transfer.money(amount_minor), "note": note}
    entries = [audit.entry_in(invoice, "transfer.assigned", transfer.id, **details)]
    settles = invoice.status is InvoiceStatus.OPEN and amount_minor == named.missing_minor
    if settles:
        reason = f"transfer {transfer.id} of {transfer.booked_on}"
        entries.append(await mark_invoice_paid(tx, invoice, by_hand=False, by=by, note=reason))
    await audit.record_all(tx, entries, by=by)
    return settles


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


async def decide_doubtful(tx: Connection, line_id: str, *, is_same: bool, settings: Settings, by: By) -> Transfer:
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
        matches = await book_new_lines(tx, found.mode, found.format, [new], settings=settings, by=by)
    [transfer] = await transfer_store.find_transfers_any_account(tx, [transfer_id])
    await pay_orders_any_account(tx, settled_invoices(matches), by.at)
    return transfer
