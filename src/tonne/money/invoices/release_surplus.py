"""What an invoice received beyond what it asks for, because a credit note reduced it, waits for a decision again."""

from tonne.money.bank import assignment_store
from tonne.money.bank.transfer_store import lock_transfers_any_account, refresh_states_any_account
from tonne.money.invoices.model import Invoice
from tonne.platform.db.database import Connection
from tonne.platform.values.context import By


async def release_surplus(tx: Connection, invoice: Invoice, due_minor: int, *, by: By) -> int:
    """Take what a locked invoice received beyond `due_minor` off its newest assignments. Returns the surplus."""
    received = await assignment_store.list_received_any_account(tx, invoice.id)
    released_minor = surplus_minor = max(sum(each.amount_minor for each in received) - due_minor, 0)
    if not released_minor:
        return 0
    transfer_ids = sorted({each.transfer_id for each in received})
    await lock_transfers_any_account(tx, transfer_ids)
    note = f"Invoice {invoice.reference} asks for less since."
    for each in reversed(received):
        if surplus_minor <= 0:
            break
        if each.undone:
            continue
        await assignment_store.undo_assignments_any_account(tx, invoice, [each], note=note, by=by)
        kept = each.amount_minor - min(each.amount_minor, surplus_minor)
        surplus_minor -= each.amount_minor - kept
        if kept:
            part = assignment_store.NewAssignment(each.transfer_id, invoice, kept)
            by_operator = each.by_operator
            await assignment_store.insert_assignments(tx, [part], by_operator=by_operator, note=note, by=by)
    await refresh_states_any_account(tx, transfer_ids)
    return released_minor
