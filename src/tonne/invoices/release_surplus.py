"""What a settled invoice received beyond its amount, because a credit note reduced it, waits for a decision again."""

from datetime import datetime

from tonne.base.actor import Actor
from tonne.db.pool import Connection
from tonne.invoices.assignment_store import (
    NewAssignment,
    insert_assignments_any_account,
    list_received_any_account,
    undo_assignments_any_account,
)
from tonne.invoices.model import Invoice


async def release_surplus(tx: Connection, invoice: Invoice, surplus_minor: int, *, actor: Actor, now: datetime) -> None:
    """Take the surplus off the newest assignments of a locked invoice. The caller refreshes the states of transfers."""
    note = f"Invoice {invoice.reference} asks for less since."
    for each in reversed(await list_received_any_account(tx, invoice.id)):
        if surplus_minor <= 0:
            return
        if each.undone:
            continue
        await undo_assignments_any_account(tx, [each], note=note, actor=actor, now=now)
        kept = each.amount_minor - min(each.amount_minor, surplus_minor)
        surplus_minor -= each.amount_minor - kept
        if kept:
            part = NewAssignment(each.transfer_id, invoice.id, kept)
            by_operator = each.by_operator
            await insert_assignments_any_account(tx, [part], by_operator=by_operator, note=note, actor=actor, now=now)
