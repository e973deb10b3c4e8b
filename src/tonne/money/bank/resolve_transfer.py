"""Record what was done about a bank transfer in another way than to assign or return it, and undo that."""

from datetime import datetime
from typing import Any

from tonne.money.bank import transfer_store
from tonne.money.bank.errors import TransferNotUnresolved
from tonne.money.bank.return_store import find_return_by_incoming_any_account
from tonne.money.bank.transfer_model import Transfer, TransferState
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor


async def resolve_transfer(
    tx: Connection, transfer_id: str, note: str, *, actor: Actor, now: datetime, is_payout: bool = False
) -> Transfer:
    """Moves no money: what is left of the transfer is for none of the invoices, such as interest."""
    found = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    if found.state not in {TransferState.UNMATCHED, TransferState.OVERPAID} or found.rest_minor <= 0:
        raise TransferNotUnresolved
    await transfer_store.add_resolution_any_account(tx, found, is_payout=is_payout, note=note, actor=actor, now=now)
    await transfer_store.refresh_states_any_account(tx, [found.id])
    await _record(tx, found, "transfer.resolved", actor=actor, now=now, note=note)
    return found


async def reopen_transfer(tx: Connection, transfer_id: str, note: str, *, actor: Actor, now: datetime) -> Transfer:
    """Record the opposite of `resolve_transfer`: what was resolved waits for a decision again."""
    found = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    if found.resolved_minor == 0:
        raise TransferNotUnresolved(f"Transfer {found.id} was not resolved.")
    if (return_id := await find_return_by_incoming_any_account(tx, found.id)) is not None:
        raise TransferNotUnresolved(f"Transfer {found.id} brought return {return_id} back: there is nothing to decide.")
    await transfer_store.undo_resolutions_any_account(tx, found, note=note, actor=actor, now=now)
    await transfer_store.refresh_states_any_account(tx, [found.id])
    await _record(tx, found, "transfer.reopened", actor=actor, now=now, note=note)
    return found


async def _record(tx: Connection, found: Transfer, action: str, *, actor: Actor, now: datetime, note: str) -> None:
    details: dict[str, Any] = {"amount": found.amount, "state": found.state, "note": note}
    await audit.record(tx, found, action, actor=actor, at=now, subject_id=found.id, **details)
