"""SQL of `transfer_returns` and `return_batches`: money that goes back to payers. Also what else was done about a
transfer.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from typing import Any, NamedTuple

import asyncpg

from tonne.money.bank import transfer_store
from tonne.money.bank.errors import TransferNotUnresolved
from tonne.money.bank.transfer_model import BankReturn, ReturnStatus, Transfer, TransferState
from tonne.platform.db.database import Connection, columns, optional, parameters_of, value_of
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, By, Mode
from tonne.selling.users.approvals import Approval

_RETURN = """
sent.id, sent.transfer_id, sent.invoice_id, transfer.mode, transfer.organisation_id, transfer.own_account,
       transfer.currency, sent.amount_minor, sent.to_iban, sent.to_bic, sent.to_name, sent.reason, sent.status,
       sent.to_other_account,
       ARRAY(SELECT ROW(subject_id, digest, approved_by) FROM approvals
             WHERE kind = 'return' AND subject_id = sent.id ORDER BY at) AS approvals,
       sent.batch_id, sent.paid_with, sent.outgoing_id, transfer.reference AS payer_reference, sent.note,
       sent.created_at, sent.created_by
FROM transfer_returns sent JOIN bank_transfers transfer ON transfer.id = sent.transfer_id
"""


class BookedReturn(NamedTuple):
    """The line of a statement that shows a return: going out, or coming back."""

    booked_on: date | None = None
    outgoing_id: str | None = None
    incoming_id: str | None = None


NOT_BOOKED = BookedReturn()


def _return(row: asyncpg.Record) -> BankReturn:
    return value_of(BankReturn, row, approvals=[Approval(*each) for each in row["approvals"]])


INSERT_RETURN = """
INSERT INTO transfer_returns (id, transfer_id, invoice_id, amount_minor, to_iban, to_bic, to_name, reason, status,
                              to_other_account, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
"""
_INSERTED = (
    "id, transfer_id, invoice_id, amount_minor, to_iban, to_bic, to_name, reason, status, to_other_account, "
    "created_at, created_by"
)


async def insert_return(tx: Connection, new: BankReturn) -> None:
    """Then refresh the state of the transfer."""
    await tx.execute(INSERT_RETURN, *parameters_of(new, _INSERTED))


FIND_RETURNS = f"SELECT {_RETURN} WHERE sent.id = ANY ($1::text[]) ORDER BY sent.id"


async def find_returns_any_account(connection: Connection, return_ids: Sequence[str]) -> list[BankReturn]:
    return [_return(row) for row in await connection.fetch(FIND_RETURNS, return_ids)]


LIST_OF_PAYMENT = f"""
SELECT {_RETURN}
JOIN (SELECT coalesce(paid_with, id) AS id FROM transfer_returns WHERE id = $1) payment
  ON sent.id = payment.id OR sent.paid_with = payment.id
ORDER BY sent.id
"""  # noqa: S608 - a constant


async def list_returns_of_payment_any_account(connection: Connection, return_id: str) -> list[BankReturn]:
    """This return and all others of the same payment."""
    return [_return(row) for row in await connection.fetch(LIST_OF_PAYMENT, return_id)]


LIST_OF_TRANSFER = f"SELECT {_RETURN} WHERE sent.transfer_id = $1 ORDER BY sent.created_at, sent.id"


async def list_returns_of_transfer_any_account(connection: Connection, transfer_id: str) -> list[BankReturn]:
    return [_return(row) for row in await connection.fetch(LIST_OF_TRANSFER, transfer_id)]


LIST_OPEN = f"""
SELECT {_RETURN} WHERE sent.status IN ('planned', 'exported') AND ($1::text IS NULL OR transfer.mode = $1)
ORDER BY sent.created_at, sent.id
"""


async def list_open_returns_any_account(connection: Connection, mode: Mode | None) -> list[BankReturn]:
    """Planned and exported, oldest first."""
    return [_return(row) for row in await connection.fetch(LIST_OPEN, mode)]


# The transfer is locked before, so two commands cannot change one return at the same time. Money that came back has
# left before, even if no statement showed that.
SET_STATUS = """
UPDATE transfer_returns
SET status = $2, note = $3, closed_at = $4, outgoing_id = coalesce($5, outgoing_id), incoming_id = $6,
    returned_at = CASE WHEN $2 = 'returned' OR $6::text IS NOT NULL
                       THEN coalesce(returned_at, $7::timestamptz, $4::timestamptz) ELSE returned_at END
WHERE id = $1
"""


async def set_status_any_account(
    tx: Connection,
    return_id: str,
    status: ReturnStatus,
    *,
    note: str,
    closed_at: datetime | None,
    line: BookedReturn = NOT_BOOKED,
) -> None:
    """Then refresh the state of the transfer."""
    booked_at = None if line.booked_on is None else datetime.combine(line.booked_on, time(), UTC)
    new = (return_id, status, note, closed_at, line.outgoing_id, line.incoming_id, booked_at)
    await tx.execute(SET_STATUS, *new)


FIND_BY_INCOMING = "SELECT id FROM transfer_returns WHERE incoming_id = $1 AND paid_with IS NULL"


async def find_return_by_incoming_any_account(connection: Connection, transfer_id: str) -> str | None:
    """The id of the return whose money this transfer brought back."""
    return optional(str, await connection.fetchval(FIND_BY_INCOMING, transfer_id))


# Approved anew: approvals are for another account.
REDIRECT = """
UPDATE transfer_returns SET to_iban = $2, to_name = $3, to_bic = '', to_other_account = $4, created_by = $5
WHERE id = $1
"""


async def redirect_any_account(
    tx: Connection, return_id: str, iban: str, name: str, *, to_other_account: bool, actor: Actor
) -> None:
    """`actor` is then the person who planned it: another one must approve it."""
    await tx.execute(REDIRECT, return_id, iban, name, to_other_account, str(actor))


INSERT_BATCH = """
INSERT INTO return_batches (id, mode, currency, own_iban, format, content, created_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""


async def insert_batch(
    tx: Connection,
    batch_id: str,
    mode: Mode,
    content: bytes,
    *,
    currency: str,
    own_iban: str,
    format_: str,
    by: By,
) -> None:
    await tx.execute(INSERT_BATCH, batch_id, mode, currency, own_iban, format_, content, by.at, str(by.actor))


MARK_EXPORTED = """
UPDATE transfer_returns SET status = 'exported', batch_id = $1, paid_with = paid.paid_with
FROM unnest($2::text[], $3::text[]) AS paid (id, paid_with) WHERE transfer_returns.id = paid.id
"""


async def mark_exported_any_account(tx: Connection, returns: Sequence[BankReturn], batch_id: str) -> None:
    await tx.execute(MARK_EXPORTED, batch_id, *columns(returns, "id, paid_with"))


FIND_BATCH = "SELECT content FROM return_batches WHERE id = $1"


async def find_batch(connection: Connection, batch_id: str) -> bytes | None:
    return optional(bytes, await connection.fetchval(FIND_BATCH, batch_id))


class ReturnBatch(NamedTuple):
    """A file for the bank, as it was exported."""

    id: str
    currency: str
    format: str
    content: bytes
    created_at: datetime
    created_by: str


FIND_BATCH_OF_MODE = """
SELECT id, currency, format, content, created_at, created_by FROM return_batches WHERE id = $2 AND mode = $1
"""


async def find_batch_of_mode(connection: Connection, mode: Mode, batch_id: str) -> ReturnBatch | None:
    row = await connection.fetchrow(FIND_BATCH_OF_MODE, mode, batch_id)
    return None if row is None else ReturnBatch(**row)


class ListedBatch(NamedTuple):
    id: str
    currency: str
    format: str
    created_at: datetime
    created_by: str
    payments: int
    total_minor: int


LIST_BATCHES = """
SELECT batch.id, batch.currency, batch.format, batch.created_at, batch.created_by, count(sent.id)::integer AS payments,
       coalesce(sum(sent.amount_minor), 0)::bigint AS total_minor
FROM (SELECT id, currency, format, created_at, created_by FROM return_batches
      WHERE mode = $1 ORDER BY created_at DESC, id LIMIT 10) AS batch
LEFT JOIN transfer_returns sent ON sent.batch_id = batch.id
GROUP BY batch.id, batch.currency, batch.format, batch.created_at, batch.created_by ORDER BY batch.created_at DESC
"""


async def list_batches_any_account(connection: Connection, mode: Mode) -> list[ListedBatch]:
    """The newest files for the bank."""
    return [ListedBatch(**row) for row in await connection.fetch(LIST_BATCHES, mode)]


FIND_RETURNS_BY_OUTGOING = """
SELECT outgoing_id, id FROM transfer_returns WHERE outgoing_id = ANY ($1) AND paid_with IS NULL
"""


async def find_returns_by_outgoing_any_account(connection: Connection, transfer_ids: Sequence[str]) -> dict[str, str]:
    """The ids of the returns that these outgoing transfers paid, by transfer. Of several, the one that names it."""
    rows = await connection.fetch(FIND_RETURNS_BY_OUTGOING, list(transfer_ids))
    return {row["outgoing_id"]: row["id"] for row in rows}


async def resolve_transfer(tx: Connection, transfer_id: str, note: str, *, by: By, is_payout: bool = False) -> Transfer:
    """Moves no money: what is left of the transfer is for none of the invoices, such as interest."""
    found = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    if found.state not in {TransferState.UNMATCHED, TransferState.OVERPAID} or found.rest_minor <= 0:
        raise TransferNotUnresolved
    await transfer_store.add_resolution_any_account(tx, found, is_payout=is_payout, note=note, by=by)
    await transfer_store.refresh_states_any_account(tx, [found.id])
    await _record(tx, found, "transfer.resolved", by=by, note=note)
    return found


async def reopen_transfer(tx: Connection, transfer_id: str, note: str, *, by: By) -> Transfer:
    """Record the opposite of `resolve_transfer`: what was resolved waits for a decision again."""
    found = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    if found.resolved_minor == 0:
        raise TransferNotUnresolved(f"Transfer {found.id} was not resolved.")
    if (return_id := await find_return_by_incoming_any_account(tx, found.id)) is not None:
        raise TransferNotUnresolved(f"Transfer {found.id} brought return {return_id} back: there is nothing to decide.")
    await transfer_store.undo_resolutions_any_account(tx, found, note=note, by=by)
    await transfer_store.refresh_states_any_account(tx, [found.id])
    await _record(tx, found, "transfer.reopened", by=by, note=note)
    return found


async def _record(tx: Connection, found: Transfer, action: str, *, by: By, note: str) -> None:
    details: dict[str, Any] = {"amount": found.amount, "state": found.state, "note": note}
    await audit.record(tx, found, action, by=by, subject_id=found.id, **details)
