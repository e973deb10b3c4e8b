"""SQL of credit notes."""

from collections.abc import Sequence
from datetime import datetime

import asyncpg

from tonne.money.invoices.credit_notes.credit_note import CreditedOrder, CreditNote
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.tax_documents import insert_documents
from tonne.platform.db.database import Connection, columns, optional, parameters_of, value_of
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order

NOTE_COLUMNS = """
note.id, note.invoice_id, note.organisation_id, note.mode, note.number, note.reference, note.currency, note.total_minor,
document.tax_minor, note.cause, note.reason, note.refund_id, note.issued_on, note.issued_by, document.record,
note.mailed_at, note.taken_back_by
"""
# What NOTE_COLUMNS are read from.
NOTES = "credit_notes note JOIN tax_documents document ON document.id = note.id"


def read_note(row: asyncpg.Record) -> CreditNote:
    return value_of(CreditNote, row)


_INSERTED = (
    "id, invoice_id, organisation_id, mode, number, reference, currency, total_minor, cause, reason, refund_id, "
    "issued_on, issued_by"
)
INSERT_NOTE = f"""
INSERT INTO credit_notes ({_INSERTED}, created_at, next_attempt_at, recovers, is_prepaid)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
"""  # noqa: S608 - columns above


async def insert_credit_note(
    tx: Connection, invoice: Invoice, note: CreditNote, now: datetime, *, mail_at: datetime | None
) -> None:
    await insert_documents(tx, [note], now)
    await tx.execute(
        INSERT_NOTE, *parameters_of(note, _INSERTED), now, mail_at, invoice.is_written_off, invoice.is_prepaid
    )


_ORDER = "account_id, order_id, offset_minor, fee_minor, tax_minor, total_minor"
INSERT_ORDERS = f"""
INSERT INTO credit_note_orders (credit_note_id, {_ORDER})
SELECT $1, {_ORDER}
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]) AS credited ({_ORDER})
"""  # noqa: S608 - columns above


async def insert_credited_orders(tx: Connection, credit_note_id: str, orders: Sequence[CreditedOrder]) -> None:
    await tx.execute(INSERT_ORDERS, credit_note_id, *columns(orders, _ORDER))


SUM_CREDITED = """
SELECT credited.account_id, credited.order_id, '' AS reference, sum(credited.offset_minor)::bigint AS offset_minor,
       sum(credited.fee_minor)::bigint AS fee_minor, sum(credited.tax_minor)::bigint AS tax_minor,
       sum(credited.total_minor)::bigint AS total_minor
FROM credit_notes note JOIN credit_note_orders credited ON credited.credit_note_id = note.id
WHERE note.invoice_id = $1 AND note.taken_back_by IS NULL GROUP BY credited.account_id, credited.order_id
"""


async def sum_credited(connection: Connection, invoice: Invoice) -> dict[str, CreditedOrder]:
    """What earlier credit notes took off the orders of an invoice, by order id."""
    rows = await connection.fetch(SUM_CREDITED, invoice.id)
    return {row["order_id"]: CreditedOrder(**row) for row in rows}


SUM_REFUND_CREDITS = """
SELECT credited.order_id, sum(credited.total_minor)::bigint AS total_minor
FROM credit_notes note JOIN credit_note_orders credited ON credited.credit_note_id = note.id
WHERE note.invoice_id = $1 AND note.cause = 'refund' AND note.taken_back_by IS NULL GROUP BY credited.order_id
"""


async def sum_refund_credits(connection: Connection, invoice: Invoice) -> dict[str, int]:
    """What was credited for refunds of the orders of an invoice that stay, by order id."""
    return {row["order_id"]: row["total_minor"] for row in await connection.fetch(SUM_REFUND_CREDITS, invoice.id)}


LIST_REFUND_NOTES = f"""
SELECT {NOTE_COLUMNS} FROM {NOTES} JOIN credit_note_orders credited ON credited.credit_note_id = note.id
WHERE credited.account_id = $1 AND credited.order_id = $2 AND note.cause = 'refund' AND note.taken_back_by IS NULL
"""  # noqa: S608 - a constant


async def list_refund_notes(connection: Connection, scope: Scope, order_id: str) -> list[CreditNote]:
    """Those for refunds of an order that stays, without those that were taken back."""
    return [read_note(row) for row in await connection.fetch(LIST_REFUND_NOTES, scope.account_id, order_id)]


# One that was mailed is mailed again, with the document that takes it back.
MARK_TAKEN_BACK = """
UPDATE credit_notes SET taken_back_by = $3, mailed_at = NULL,
       next_attempt_at = CASE WHEN mailed_at IS NULL THEN next_attempt_at ELSE $4 END
WHERE invoice_id = $1 AND id = $2
"""


async def mark_taken_back(tx: Connection, invoice: Invoice, note: CreditNote, document_id: str, now: datetime) -> None:
    """The caller has locked the invoice."""
    await tx.execute(MARK_TAKEN_BACK, invoice.id, note.id, document_id, now)


SUM_CORRECTIONS = """
SELECT coalesce(sum(credited.total_minor), 0)::bigint
FROM credit_note_orders credited JOIN credit_notes note ON note.id = credited.credit_note_id
WHERE credited.account_id = $1 AND credited.order_id = $2 AND note.cause = 'correction'
"""


async def sum_corrections(connection: Connection, order: Order) -> int:
    """What credit notes took off an order before it was paid: nobody has paid that."""
    return int(await connection.fetchval(SUM_CORRECTIONS, order.scope.account_id, order.id))


LIST_OF_INVOICE = f"SELECT {NOTE_COLUMNS} FROM {NOTES} WHERE note.invoice_id = $1 ORDER BY note.number"  # noqa: S608 - a constant


async def list_credit_notes(connection: Connection, invoice: Invoice) -> list[CreditNote]:
    """The credit notes of an invoice, oldest first."""
    return [read_note(row) for row in await connection.fetch(LIST_OF_INVOICE, invoice.id)]


LIST_OF_ORDER = f"""
SELECT {NOTE_COLUMNS} FROM {NOTES} JOIN credit_note_orders credited ON credited.credit_note_id = note.id
WHERE credited.account_id = $1 AND credited.order_id = $2 ORDER BY note.number DESC
"""  # noqa: S608 - a constant


async def list_credit_notes_of_order(connection: Connection, scope: Scope, order_id: str) -> list[CreditNote]:
    """Newest first."""
    return [read_note(row) for row in await connection.fetch(LIST_OF_ORDER, scope.account_id, order_id)]


FIND_NOTE = f"""
SELECT {NOTE_COLUMNS} FROM {NOTES}
WHERE note.id = $2 AND note.mode = $3
  AND EXISTS (SELECT FROM credit_note_orders credited
              WHERE credited.credit_note_id = note.id AND credited.account_id = $1)
  AND ($4 OR NOT EXISTS (SELECT FROM credit_note_orders credited
                         WHERE credited.credit_note_id = note.id AND credited.account_id <> $1))
"""  # noqa: S608 - a constant


async def find_credit_note(
    connection: Connection, scope: Scope, credit_note_id: str, *, with_others: bool
) -> CreditNote | None:
    """A credit note that credits an order of the account, and only such orders unless `with_others`."""
    row = await connection.fetchrow(FIND_NOTE, scope.account_id, credit_note_id, scope.mode, with_others)
    return None if row is None else read_note(row)


FIND_BY_REFERENCE = f"SELECT {NOTE_COLUMNS} FROM {NOTES} WHERE note.reference = $1"  # noqa: S608 - a constant


async def find_credit_note_any_account(connection: Connection, reference: str) -> CreditNote | None:
    return optional(read_note, await connection.fetchrow(FIND_BY_REFERENCE, reference))


# A lease: if the worker dies, the notes are due again when it expires.
CLAIM_DUE = f"""
UPDATE credit_notes note SET next_attempt_at = $2
FROM (SELECT id FROM credit_notes WHERE next_attempt_at <= $1
      ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED) due
JOIN tax_documents document ON document.id = due.id
WHERE note.id = due.id RETURNING {NOTE_COLUMNS}
"""  # noqa: S608 - a constant


async def claim_due_notes(connection: Connection, now: datetime, until: datetime, limit: int) -> list[CreditNote]:
    rows = await connection.fetch(CLAIM_DUE, now, until, limit)
    return sorted(map(read_note, rows), key=lambda note: (note.mode, note.number))


POSTPONE = "UPDATE credit_notes SET next_attempt_at = $2 WHERE id = $1 AND mailed_at IS NULL"


async def postpone_note_any_account(connection: Connection, note_id: str, until: datetime) -> None:
    await connection.execute(POSTPONE, note_id, until)


# Compare-and-set: if two workers compose the same mail, one of them enqueues it.
# A note that was taken back meanwhile stays due.
MARK_MAILED = """
UPDATE credit_notes SET mailed_at = $2, next_attempt_at = NULL
WHERE id = $1 AND mailed_at IS NULL AND taken_back_by IS NOT DISTINCT FROM $3 RETURNING true
"""


async def mark_note_mailed(tx: Connection, note: CreditNote, now: datetime) -> bool:
    return await tx.fetchval(MARK_MAILED, note.id, now, note.taken_back_by) is True


WAKE_NOTES = "UPDATE credit_notes SET next_attempt_at = $2 WHERE invoice_id = $1 AND mailed_at IS NULL"


async def wake_notes_any_account(tx: Connection, invoice_id: str, now: datetime) -> None:
    """The credit notes of an invoice waited until it was mailed."""
    await tx.execute(WAKE_NOTES, invoice_id, now)
