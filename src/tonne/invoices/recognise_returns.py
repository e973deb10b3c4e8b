"""Outgoing lines of a statement that are returns which Tonne exported."""

from collections.abc import Sequence
from datetime import datetime

from tonne.banking.identity import Identified
from tonne.banking.statement import StatementLine
from tonne.base.actor import Actor
from tonne.base.scope import Mode
from tonne.db.pool import Connection
from tonne.invoices.return_store import find_returns_any_account, list_open_returns_any_account
from tonne.invoices.return_transfer import close_return
from tonne.invoices.transfer_model import BankReturn, ReturnStatus
from tonne.invoices.transfer_store import lock_transfers_any_account


async def recognise_returns(
    tx: Connection, mode: Mode, outgoing: Sequence[Identified], *, actor: Actor, now: datetime
) -> None:
    """Mark returns as returned whose id and amount an outgoing line states. The lines are stored already."""
    if not outgoing:
        return
    waiting = await list_open_returns_any_account(tx, mode)
    pairs: list[tuple[BankReturn, Identified]] = []
    for line in outgoing:
        match = next((each for each in waiting if _shows(line.line, each)), None)
        if match is not None:
            waiting.remove(match)
            pairs.append((match, line))
    if not pairs:
        return
    await lock_transfers_any_account(tx, sorted(found.transfer_id for found, _ in pairs))
    # Read again: a command may have cancelled a return before its transfer was locked.
    current = {each.id: each for each in await find_returns_any_account(tx, [found.id for found, _ in pairs])}
    for found, line in pairs:
        if current[found.id].status in {ReturnStatus.PLANNED, ReturnStatus.EXPORTED}:
            note, outgoing_id = f"bank statement of {line.line.booked_on}", line.transfer_id
            status = ReturnStatus.RETURNED
            await close_return(tx, found, status, note=note, actor=actor, now=now, outgoing_id=outgoing_id)


def _shows(line: StatementLine, found: BankReturn) -> bool:
    """Banks break texts, so the id is looked for in the letters alone."""
    if (-line.amount_minor, line.currency) != (found.amount_minor, found.currency):
        return False
    text = f"{line.end_to_end_id} {line.reference}"
    return found.payment_id in "".join(filter(str.isalnum, text)).upper()
