"""Match a payout of the card gateway with the line of a bank statement that shows it."""

from datetime import datetime

from tonne.money.accounting.journal import payout_store
from tonne.money.accounting.journal.errors import PayoutNotFound, PayoutNotMatched
from tonne.money.accounting.journal.payout_store import ListedPayout
from tonne.money.bank.resolve_transfer import reopen_transfer, resolve_transfer
from tonne.money.bank.transfer_model import Transfer
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Actor


async def match_payout(tx: Connection, name: str, transfer_id: str, *, actor: Actor, now: datetime) -> ListedPayout:
    """`name` is our id of the payout, or the gateway's. The transfer then no longer waits for a decision."""
    note = f"Payout {name} of the card gateway"
    transfer = await resolve_transfer(tx, transfer_id, note, actor=actor, now=now, is_payout=True)
    # Several payouts can share the gateway's id, in different currencies.
    found = [each for each in await payout_store.lock_payouts(tx, name) if each.currency == transfer.currency]
    if not found:
        raise PayoutNotFound
    [payout] = found
    if payout.transfer_id is not None:
        raise PayoutNotMatched(f"The payout {payout.payout_id} is already matched with transfer {payout.transfer_id}.")
    if payout.amount_minor != transfer.rest_minor:
        amount = f"{format_money(payout.amount_minor, payout.currency)} {payout.currency}"
        raise PayoutNotMatched(
            f"The payout {payout.payout_id} is {amount}, transfer {transfer.id} has {transfer.rest} left."
        )
    await payout_store.set_transfer(tx, payout.id, transfer.id)
    details = {"payout": payout.payout_id, "transfer_id": transfer.id}
    entry = audit.Entry(action="payout.matched", subject_id=payout.id, mode=transfer.mode, details=details)
    await audit.record_all(tx, [entry], actor=actor, at=now)
    return payout


async def reopen_and_unmatch(tx: Connection, transfer_id: str, note: str, *, actor: Actor, now: datetime) -> Transfer:
    """Undo `resolve_transfer` and `match_payout`."""
    transfer = await reopen_transfer(tx, transfer_id, note, actor=actor, now=now)
    await payout_store.clear_transfer(tx, transfer.id)
    return transfer
