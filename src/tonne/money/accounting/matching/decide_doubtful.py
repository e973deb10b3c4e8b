"""A person decides whether a doubtful line of a statement is a transfer that was imported before."""

from datetime import datetime

from tonne.money.accounting.matching.import_statement import book_new_lines, settled_invoices
from tonne.money.bank import doubtful_store, transfer_store
from tonne.money.bank.formats.identity import Identified, Verdict
from tonne.money.bank.transfer_model import Transfer
from tonne.money.invoices.errors import DoubtfulLineNotFound
from tonne.money.invoices.settle_invoice import pay_orders_any_account
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, new_id


async def decide_doubtful(tx: Connection, line_id: str, *, is_same: bool, actor: Actor, now: datetime) -> Transfer:
    """The transfer that the line is, or the new one. Call it last in the transaction."""
    await transfer_store.lock_imports(tx)
    found = await doubtful_store.lock_doubtful_any_account(tx, line_id)
    if found is None:
        raise DoubtfulLineNotFound
    await doubtful_store.mark_decided_any_account(tx, found.id, is_same=is_same, actor=actor, now=now)
    details = {"line_id": found.id, "amount": found.line.amount, "same": is_same}
    subject_id, action = found.transfer_id, "transfer.doubt_decided"
    entry = audit.Entry(action=action, subject_id=subject_id, mode=found.mode, details=details)
    await audit.record_all(tx, [entry], actor=actor, at=now)
    transfer_id, matches = found.transfer_id, {}
    if is_same:
        same = Identified(found.line, Verdict.KNOWN, found.transfer_id)
        await transfer_store.complete_transfers_any_account(tx, found.format, [same])
    else:
        transfer_id = new_id("trf")
        new = Identified(found.line, Verdict.NEW, transfer_id)
        matches = await book_new_lines(tx, found.mode, found.format, [new], actor=actor, now=now)
    [transfer] = await transfer_store.find_transfers_any_account(tx, [transfer_id])
    await pay_orders_any_account(tx, settled_invoices(matches), now)
    return transfer
