"""Record what was done about a bank transfer that did not settle an invoice, for an operator."""

from datetime import datetime

from tonne.accounts import audit
from tonne.base.actor import Actor
from tonne.db.pool import Connection
from tonne.invoices.errors import TransferNotUnresolved
from tonne.invoices.transfer_store import UnresolvedTransfer, lock_unresolved_any_account, mark_resolved_any_account


async def resolve_transfer(
    tx: Connection, transfer_id: str, note: str, *, actor: Actor, now: datetime
) -> UnresolvedTransfer:
    """Moves no money: the operator has returned it, or settled an invoice by hand."""
    found = await lock_unresolved_any_account(tx, transfer_id)
    if found is None:
        raise TransferNotUnresolved
    await mark_resolved_any_account(tx, transfer_id, now, note)
    await audit.record(
        tx,
        found.organisation_id,
        "transfer.resolved",
        actor=actor,
        at=now,
        subject_id=transfer_id,
        mode=found.mode,
        amount=found.amount,
        outcome=found.outcome,
        note=note,
    )
    return found
