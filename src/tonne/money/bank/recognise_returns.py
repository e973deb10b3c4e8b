"""Lines of a statement that show returns which Tonne exported: going out, or coming back."""

import re
from collections.abc import Sequence
from datetime import datetime

from tonne.money.bank.formats.identity import Identified
from tonne.money.bank.formats.statement import StatementLine
from tonne.money.bank.return_store import BookedReturn, find_returns_any_account, list_open_returns_any_account
from tonne.money.bank.return_transfer import close_return
from tonne.money.bank.transfer_model import BankReturn, ReturnStatus
from tonne.money.bank.transfer_store import lock_transfers_any_account
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, Mode

# `payment_id` of a return. Matches may overlap.
_PAYMENT_ID = re.compile(r"(?=RET([0-9A-Z]{26}))")


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
            note, status = f"bank statement of {line.line.booked_on}", ReturnStatus.RETURNED
            shown = BookedReturn(line.line.booked_on, outgoing_id=line.transfer_id)
            await close_return(tx, found, status, note=note, actor=actor, now=now, line=shown)


async def find_came_back(tx: Connection, incoming: Sequence[Identified]) -> dict[str, BankReturn]:
    """The returns that incoming lines name, by transfer: the bank could not deliver them.

    Such a line may also name the invoice that was paid too much, but it is no payment of it.
    """
    named = {line.transfer_id: _named_ids(line.line) for line in incoming}
    found = await find_returns_any_account(tx, sorted({id_ for ids in named.values() for id_ in ids}))
    sent = {each.id: each for each in found if each.status not in {ReturnStatus.PLANNED, ReturnStatus.CANCELLED}}
    return {transfer_id: sent[id_] for transfer_id, ids in named.items() for id_ in ids if id_ in sent}


def _named_ids(line: StatementLine) -> list[str]:
    """The ids of returns that the text may contain."""
    return [f"ret_{found[1].lower()}" for found in _PAYMENT_ID.finditer(_letters_of(line))]


def _letters_of(line: StatementLine) -> str:
    """Banks break texts, so ids are looked for in the letters and digits alone."""
    return "".join(filter(str.isalnum, f"{line.end_to_end_id} {line.reference}")).upper()


def _shows(line: StatementLine, found: BankReturn) -> bool:
    if (-line.amount_minor, line.currency) != (found.amount_minor, found.currency):
        return False
    return found.payment_id in _letters_of(line)
