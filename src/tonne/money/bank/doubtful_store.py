"""Lines of a statement that are no new payments: returns which Tonne exported, and transfers in another format.

SQL of `doubtful_lines`: lines that may be transfers which were imported in another format.
"""

import re
from collections.abc import Sequence
from datetime import datetime

import asyncpg
import msgspec

from tonne.money.bank.formats.identity import Identified
from tonne.money.bank.formats.statement import StatementFormat, StatementLine
from tonne.money.bank.return_store import BookedReturn, find_returns_any_account, list_open_returns_any_account
from tonne.money.bank.return_transfer import close_return
from tonne.money.bank.transfer_model import BankReturn, ReturnStatus
from tonne.money.bank.transfer_store import lock_transfers_any_account
from tonne.platform.db.database import Connection, optional, value_of
from tonne.platform.values.context import By, Mode, new_id


class DoubtfulLine(msgspec.Struct, frozen=True):
    """`transfer_id` is the transfer that it resembles."""

    id: str
    transfer_id: str
    mode: Mode
    format: StatementFormat
    line: StatementLine
    imported_at: datetime


def _doubtful(row: asyncpg.Record) -> DoubtfulLine:
    line = msgspec.json.decode(row["line"], type=StatementLine)
    return value_of(DoubtfulLine, row, line=line)


FIND_COUNTED = "SELECT fingerprint FROM doubtful_lines WHERE fingerprint = ANY ($1::bytea[]) AND is_same IS NOT false"


async def find_doubted_any_account(tx: Connection, fingerprints: Sequence[bytes]) -> set[bytes]:
    """Those of the fingerprints that wait for a decision, or were decided to be another transfer's line."""
    return {row["fingerprint"] for row in await tx.fetch(FIND_COUNTED, fingerprints)}


INSERT_DOUBTFUL = """
INSERT INTO doubtful_lines (id, transfer_id, fingerprint, mode, format, line, imported_at, imported_by)
VALUES ($1, $2, $3, $4, $5, $6::jsonb, $7, $8) ON CONFLICT (fingerprint) DO NOTHING
"""


async def insert_doubtful(
    tx: Connection,
    found: Sequence[tuple[Identified, bytes]],
    mode: Mode,
    format_: StatementFormat,
    *,
    by: By,
) -> None:
    for each, fingerprint in found:
        line = msgspec.json.encode(each.line).decode()
        values = (new_id("dbt"), each.transfer_id, fingerprint, mode, format_, line, by.at, str(by.actor))
        await tx.execute(INSERT_DOUBTFUL, *values)


_LINE = """
id, transfer_id, mode, format, line::text AS line, imported_at FROM doubtful_lines WHERE is_same IS NULL
"""
LIST_DOUBTFUL = f"SELECT {_LINE} AND ($1::text IS NULL OR mode = $1) ORDER BY imported_at, id"


async def list_doubtful_any_account(connection: Connection, mode: Mode | None) -> list[DoubtfulLine]:
    """Those that wait for a decision, oldest first."""
    return [_doubtful(row) for row in await connection.fetch(LIST_DOUBTFUL, mode)]


LOCK_DOUBTFUL = f"SELECT {_LINE} AND id = $1 FOR NO KEY UPDATE"


async def lock_doubtful_any_account(tx: Connection, line_id: str) -> DoubtfulLine | None:
    return optional(_doubtful, await tx.fetchrow(LOCK_DOUBTFUL, line_id))


DECIDE = "UPDATE doubtful_lines SET is_same = $2, decided_at = $3, decided_by = $4 WHERE id = $1"


async def mark_decided_any_account(tx: Connection, line_id: str, *, is_same: bool, by: By) -> None:
    await tx.execute(DECIDE, line_id, is_same, by.at, str(by.actor))


# `payment_id` of a return. Matches may overlap.
_PAYMENT_ID = re.compile(r"(?=RET([0-9A-Z]{26}))")


async def recognise_returns(tx: Connection, mode: Mode, outgoing: Sequence[Identified], *, by: By) -> None:
    """Mark returns as returned whose id and amount an outgoing line states. The lines are stored already."""
    if not outgoing:
        return
    waiting: dict[str, list[BankReturn]] = {}
    for each in await list_open_returns_any_account(tx, mode):
        waiting.setdefault(each.payment_id, []).append(each)
    pairs: list[tuple[list[BankReturn], Identified]] = []
    for line in outgoing:
        match = next((id_ for id_, payment in waiting.items() if _shows(line.line, payment)), None)
        if match is not None:
            pairs.append((waiting.pop(match), line))
    if not pairs:
        return
    await lock_transfers_any_account(tx, sorted(each.transfer_id for payment, _ in pairs for each in payment))
    # Read again: a command may have cancelled a return before its transfer was locked.
    ids = [each.id for payment, _ in pairs for each in payment]
    current = {each.id: each for each in await find_returns_any_account(tx, ids)}
    for payment, line in pairs:
        for found in payment:
            if current[found.id].status in {ReturnStatus.PLANNED, ReturnStatus.EXPORTED}:
                note, status = f"bank statement of {line.line.booked_on}", ReturnStatus.RETURNED
                shown = BookedReturn(line.line.booked_on, outgoing_id=line.transfer_id)
                await close_return(tx, found, status, note=note, by=by, line=shown)


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


def _shows(line: StatementLine, payment: Sequence[BankReturn]) -> bool:
    found, amount_minor = payment[0], sum(each.amount_minor for each in payment)
    if (-line.amount_minor, line.currency) != (amount_minor, found.currency):
        return False
    return found.payment_id in _letters_of(line)
