"""SQL of `bank_transfers`."""

from collections.abc import Sequence
from datetime import date, datetime

import asyncpg

from tonne.money.bank.errors import TransferNotFound
from tonne.money.bank.formats.identity import Identified, StoredLine, reference_key
from tonne.money.bank.formats.statement import StatementFormat, StatementLine
from tonne.money.bank.transfer_model import PaidInvoice, Transfer, TransferState
from tonne.platform.db.database import Connection, value_of
from tonne.platform.values.context import By, Mode, new_id

# Key of the advisory lock. Any number that no other code uses.
_IMPORT_LOCK = 7_405_610_217

# What was done with each transfer. Returns with an invoice are refunds of what is assigned.
DONE_WITH_TRANSFER = """
LEFT JOIN LATERAL (
    SELECT coalesce(sum(each.amount_minor), 0)::bigint AS minor,
           coalesce(bool_or(each.by_operator), false) AS by_operator,
           coalesce(bool_or(NOT each.invoice_paid), false) AS is_open
    FROM (SELECT sum(assignment.amount_minor) AS amount_minor, bool_or(assignment.by_operator) AS by_operator,
                 bool_or(assignment.invoice_paid) AS invoice_paid
          FROM transfer_assignments assignment WHERE assignment.transfer_id = transfer.id
          GROUP BY assignment.invoice_id HAVING sum(assignment.amount_minor) <> 0) AS each) AS assigned ON true
LEFT JOIN LATERAL (
    SELECT coalesce(sum(each.amount_minor) FILTER (WHERE each.status <> 'returned'), 0)::bigint AS open_minor,
           coalesce(sum(each.amount_minor) FILTER (WHERE each.status = 'returned'), 0)::bigint AS done_minor,
           coalesce(sum(each.amount_minor) FILTER (WHERE each.invoice_id IS NOT NULL), 0)::bigint AS refund_minor
    FROM transfer_returns each
    WHERE each.transfer_id = transfer.id AND each.status IN ('planned', 'exported', 'returned')) AS sent ON true
"""
REST_OF_TRANSFER = """
(transfer.amount_minor - assigned.minor - (sent.open_minor + sent.done_minor - sent.refund_minor)
 - transfer.resolved_minor)
"""
STATE_OF_TRANSFER = f"""
CASE WHEN transfer.amount_minor <= 0
         THEN CASE WHEN transfer.is_reversal AND transfer.resolved_minor = 0 THEN 'unmatched' ELSE 'outgoing' END
     WHEN {REST_OF_TRANSFER} > 0 THEN CASE WHEN assigned.minor > 0 THEN 'overpaid' ELSE 'unmatched' END
     WHEN sent.open_minor > 0 THEN 'to_return'
     WHEN sent.done_minor > 0 THEN 'returned'
     WHEN assigned.is_open THEN 'part_payment'
     WHEN assigned.by_operator OR transfer.resolved_minor > 0 THEN 'assigned'
     ELSE 'matched' END
"""
_TRANSFER = """
transfer.id, transfer.mode, transfer.own_account, transfer.booked_on, transfer.amount_minor, transfer.currency,
transfer.payer, transfer.payer_iban, transfer.payer_bic, transfer.reference, transfer.end_to_end_id,
transfer.is_reversal, transfer.state, transfer.invoice_id, transfer.invoice_reference,
transfer.organisation_id, assigned.minor AS assigned_minor, sent.open_minor AS returning_minor,
sent.done_minor AS returned_minor, sent.refund_minor AS refunded_minor, transfer.resolved_minor, transfer.resolution,
transfer.imported_at, transfer.imported_by
"""
_FROM = f"FROM bank_transfers transfer {DONE_WITH_TRANSFER}"


def _transfer(row: asyncpg.Record) -> Transfer:
    return value_of(Transfer, row)


LOCK_IMPORTS = "SELECT pg_advisory_xact_lock($1)"


async def lock_imports(tx: Connection) -> None:
    """Serialises imports: two statements may contain the same lines."""
    await tx.execute(LOCK_IMPORTS, _IMPORT_LOCK)


FIND_STORED = """
SELECT transfer.id, transfer.format, transfer.booked_on, transfer.amount_minor, transfer.currency, transfer.payer,
       transfer.reference, transfer.own_account, transfer.payer_iban, transfer.bank_references
FROM bank_transfers transfer
WHERE transfer.mode = $1
  AND ((transfer.booked_on, transfer.amount_minor) IN (SELECT keys.day, keys.minor
                                                       FROM unnest($2::date[], $3::bigint[]) AS keys (day, minor))
       OR transfer.bank_references && $4::text[])
ORDER BY transfer.booked_on, transfer.id
"""


async def find_stored_any_account(
    tx: Connection, mode: Mode, format_: StatementFormat, lines: Sequence[StatementLine]
) -> list[StoredLine]:
    """The transfers that lines of a statement may be: with the same day and amount, or the same reference."""
    days = {(line.booked_on, line.amount_minor) for line in lines}
    references = [key for line in lines if (key := reference_key(format_, line)) is not None]
    rows = await tx.fetch(FIND_STORED, mode, [day for day, _ in days], [minor for _, minor in days], references)
    return [_stored(row) for row in rows]


def _stored(row: asyncpg.Record) -> StoredLine:
    values = dict(row)
    transfer_id, format_ = values.pop("id"), StatementFormat(values.pop("format"))
    references = set(values.pop("bank_references"))
    return StoredLine(transfer_id, format_, StatementLine(line=0, **values), references)


INSERT_TRANSFERS = """
INSERT INTO bank_transfers (id, mode, format, booked_on, amount_minor, currency, payer, payer_iban, payer_bic,
                            reference, end_to_end_id, own_account, bank_references, is_reversal, invoice_id,
                            invoice_reference, organisation_id, state, imported_at, imported_by)
SELECT new.id, $1, $2, new.booked_on, new.amount_minor, new.currency, new.payer, new.payer_iban, new.payer_bic,
       new.reference, new.end_to_end_id, new.own_account,
       CASE WHEN new.bank_reference IS NULL THEN '{}' ELSE ARRAY[new.bank_reference] END, new.is_reversal,
       new.invoice_id, new.invoice_reference, new.organisation_id, 'unmatched', $3, $4
FROM unnest($5::text[], $6::date[], $7::bigint[], $8::text[], $9::text[], $10::text[], $11::text[], $12::text[],
            $13::text[], $14::text[], $15::text[], $16::boolean[], $17::text[], $18::text[], $19::text[])
     AS new (id, booked_on, amount_minor, currency, payer, payer_iban, payer_bic, reference, end_to_end_id, own_account,
             bank_reference, is_reversal, invoice_id, invoice_reference, organisation_id)
"""


async def insert_transfers(
    tx: Connection,
    mode: Mode,
    format_: StatementFormat,
    new: Sequence[tuple[Identified, PaidInvoice | None]],
    *,
    by: By,
) -> None:
    """Insert transfers, at least one, each with the invoice that it names. Then refresh their states."""
    rows = [
        (
            *(each.transfer_id, line.booked_on, line.amount_minor, line.currency, line.payer, line.payer_iban),
            *(line.payer_bic, line.reference, line.end_to_end_id, line.own_account),
            *(reference_key(format_, line), line.is_reversal),
            *((None, None, None) if named is None else (named.id, named.reference, named.organisation_id)),
        )
        for each, named in new
        for line in (each.line,)
    ]
    await tx.execute(INSERT_TRANSFERS, mode, format_, by.at, str(by.actor), *zip(*rows, strict=True))


COMPLETE_TRANSFERS = """
UPDATE bank_transfers transfer
SET bank_references = CASE WHEN seen.bank_reference IS NULL OR seen.bank_reference = ANY (transfer.bank_references)
                           THEN transfer.bank_references ELSE transfer.bank_references || seen.bank_reference END,
    own_account = CASE WHEN transfer.own_account = '' THEN seen.own_account ELSE transfer.own_account END,
    payer_iban = CASE WHEN transfer.payer_iban = '' THEN seen.payer_iban ELSE transfer.payer_iban END,
    payer_bic = CASE WHEN transfer.payer_iban = '' THEN seen.payer_bic ELSE transfer.payer_bic END
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
     AS seen (id, bank_reference, own_account, payer_iban, payer_bic)
WHERE transfer.id = seen.id
"""


async def complete_transfers_any_account(tx: Connection, format_: StatementFormat, known: Sequence[Identified]) -> None:
    """Add what another format says of known transfers: the bank's reference, and the account the money came from."""
    rows = [
        (each.transfer_id, reference_key(format_, each.line), each.line.own_account, *_payer_account(each))
        for each in {each.transfer_id: each for each in known}.values()
    ]
    await tx.execute(COMPLETE_TRANSFERS, *zip(*rows, strict=True))


def _payer_account(known: Identified) -> tuple[str, str]:
    """Empty if the line may be another payer's: money would go back to a wrong account."""
    return (known.line.payer_iban, known.line.payer_bic) if known.has_same_payer else ("", "")


REFRESH_STATES = f"""
UPDATE bank_transfers SET state = derived.state
FROM (SELECT transfer.id, {STATE_OF_TRANSFER} AS state
      FROM bank_transfers transfer {DONE_WITH_TRANSFER}
      WHERE transfer.id = ANY ($1::text[])) AS derived
WHERE bank_transfers.id = derived.id AND bank_transfers.state <> derived.state
"""  # noqa: S608 - constants


async def refresh_states_any_account(tx: Connection, transfer_ids: Sequence[str]) -> None:
    """Derive the states of transfers after anything was done with them, or with invoices that they paid."""
    await tx.execute(REFRESH_STATES, transfer_ids)


FIND_TRANSFERS = f"SELECT {_TRANSFER} {_FROM} WHERE transfer.id = ANY ($1::text[]) ORDER BY transfer.id"


async def find_transfers_any_account(connection: Connection, transfer_ids: Sequence[str]) -> list[Transfer]:
    return [_transfer(row) for row in await connection.fetch(FIND_TRANSFERS, transfer_ids)]


LOCK_TRANSFERS = "SELECT id FROM bank_transfers WHERE id = ANY ($1::text[]) ORDER BY id FOR NO KEY UPDATE"


async def lock_transfers_any_account(tx: Connection, transfer_ids: Sequence[str]) -> list[Transfer]:
    """Lock transfers until the transaction ends, and return them as they are then. Lock their invoices before."""
    await tx.execute(LOCK_TRANSFERS, transfer_ids)
    return await find_transfers_any_account(tx, transfer_ids)


async def lock_transfer_any_account(tx: Connection, transfer_id: str) -> Transfer:
    """Raises TransferNotFound."""
    found = await lock_transfers_any_account(tx, [transfer_id])
    if not found:
        raise TransferNotFound
    return found[0]


LIST_TRANSFERS = f"""
SELECT {_TRANSFER} {_FROM}
WHERE transfer.state = ANY ($1::text[]) AND ($2::text IS NULL OR transfer.mode = $2)
  AND ($3::text IS NULL OR transfer.invoice_id = $3
       OR EXISTS (SELECT FROM transfer_assignments each WHERE each.transfer_id = transfer.id AND each.invoice_id = $3))
  AND ($4::date IS NULL OR transfer.booked_on >= $4)
ORDER BY transfer.imported_at, transfer.booked_on, transfer.id LIMIT $5
"""  # noqa: S608 - constants


async def list_transfers_any_account(
    connection: Connection,
    states: Sequence[TransferState],
    *,
    mode: Mode | None = None,
    invoice_id: str | None = None,
    since: date | None = None,
    limit: int = 1000,
) -> list[Transfer]:
    """Oldest first. An invoice selects the transfers that name it or were assigned to it."""
    rows = await connection.fetch(LIST_TRANSFERS, [*map(str, states)], mode, invoice_id, since, limit)
    return [_transfer(row) for row in rows]


LIST_WAITING = f"""
SELECT {_TRANSFER} {_FROM}
WHERE transfer.mode = $1 AND transfer.state IN ('unmatched', 'overpaid')
  AND (transfer.imported_at, transfer.id) > ($2, $3)
ORDER BY transfer.imported_at, transfer.id LIMIT $4
"""


async def list_waiting_any_account(
    connection: Connection, mode: Mode, after: tuple[datetime, str], limit: int
) -> list[Transfer]:
    """Transfers that an operator must decide about, oldest first, from the position `after` on."""
    return [_transfer(row) for row in await connection.fetch(LIST_WAITING, mode, *after, limit)]


LIST_BOOKED = f"""
SELECT {_TRANSFER} {_FROM}
WHERE transfer.mode = $1 AND transfer.booked_on <= $2 AND (transfer.booked_on, transfer.id) < ($2, $3)
ORDER BY transfer.booked_on DESC, transfer.id DESC LIMIT $4
"""


async def list_booked_any_account(
    connection: Connection, mode: Mode, before: tuple[date, str], limit: int
) -> list[Transfer]:
    """All transfers, the last booked first, from the position `before` on."""
    return [_transfer(row) for row in await connection.fetch(LIST_BOOKED, mode, *before, limit)]


RESOLVE = """
WITH resolved AS (
    INSERT INTO transfer_resolutions (id, transfer_id, amount_minor, is_payout, note, created_at, created_by)
    VALUES ($2, $1, $3, $4, $5, $6, $7) RETURNING transfer_id, amount_minor, note, created_at
)
UPDATE bank_transfers
SET resolved_at = resolved.created_at, resolution = resolved.note,
    resolved_minor = resolved_minor + resolved.amount_minor
FROM resolved WHERE bank_transfers.id = resolved.transfer_id
"""


async def add_resolution_any_account(tx: Connection, transfer: Transfer, *, is_payout: bool, note: str, by: By) -> None:
    """What is left of the transfer was dealt with in another way."""
    new = (transfer.id, new_id("rsl"), transfer.rest_minor, is_payout, note, by.at, str(by.actor))
    await tx.execute(RESOLVE, *new)


UNDO_RESOLUTIONS = """
WITH undone AS (
    INSERT INTO transfer_resolutions (id, transfer_id, amount_minor, is_payout, undoes, note, created_at, created_by)
    SELECT $2 || '_' || row_number() OVER (ORDER BY resolution.id), resolution.transfer_id, -resolution.amount_minor,
           resolution.is_payout, resolution.id, $3, $4, $5
    FROM transfer_resolutions resolution
    WHERE resolution.transfer_id = $1 AND resolution.undoes IS NULL
      AND NOT EXISTS (SELECT FROM transfer_resolutions undo WHERE undo.undoes = resolution.id)
)
UPDATE bank_transfers SET resolved_at = NULL, resolution = NULL, resolved_minor = 0 WHERE id = $1
"""


async def undo_resolutions_any_account(tx: Connection, transfer: Transfer, *, note: str, by: By) -> None:
    """Record the opposite of the resolutions of a transfer."""
    await tx.execute(UNDO_RESOLUTIONS, transfer.id, new_id("rsl"), note, by.at, str(by.actor))
