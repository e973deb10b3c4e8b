"""The invoices of an order and the bank transfers that pay them."""

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_INVOICES_OF_ORDER = """
SELECT invoices.id, invoices.reference, invoices.status, invoices.total_minor, invoices.currency, invoices.order_count,
       invoices.created_at, invoices.due_on, invoices.mailed_at, invoices.reminded_at, invoices.settled_at,
       invoices.settled_by
FROM invoice_orders billed JOIN invoices ON invoices.id = billed.invoice_id
WHERE billed.account_id = $1 AND billed.order_id = $2 ORDER BY invoices.created_at
"""


async def invoice_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    rows = await connection.fetch(LIST_INVOICES_OF_ORDER, scope.account_id, order_id)
    return [entry for row in rows for entry in _entries(row)]


def _entries(row: asyncpg.Record) -> list[TimelineEntry]:
    id_, reference = row["id"], row["reference"]
    total = f"{format_money(row['total_minor'], row['currency'])} {row['currency']}"
    others = f", with {row['order_count'] - 1:,} other orders" if row["order_count"] > 1 else ""
    issued = f"{reference} over {total} issued, due on {row['due_on']}{others}"
    entries = [TimelineEntry(at=row["created_at"], kind="invoice", text=issued, subject_id=id_)]
    for at, done in ((row["mailed_at"], "mailed"), (row["reminded_at"], "reminded of")):
        if at is not None:
            entries.append(TimelineEntry(at=at, kind="invoice", text=f"{reference} {done}", subject_id=id_))
    if row["settled_at"] is not None:
        text = f"{reference} {row['status']}"
        entries.append(
            TimelineEntry(at=row["settled_at"], kind="invoice", text=text, actor=row["settled_by"], subject_id=id_)
        )
    return entries


LIST_WRITE_OFFS_OF_ORDER = """
SELECT written.id, written.amount_minor, written.reason, written.booked_at, written.requested_by, written.approved_by,
       written.undone_at, written.undone_by, written.undo_reason, invoices.reference, invoices.currency
FROM invoice_orders billed
JOIN invoices ON invoices.id = billed.invoice_id
JOIN write_offs written ON written.invoice_id = invoices.id
WHERE billed.account_id = $1 AND billed.order_id = $2 AND written.booked_at IS NOT NULL ORDER BY written.booked_at
"""


async def write_off_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    """Invoices of the order that were written off, and reinstated."""
    entries = []
    for row in await connection.fetch(LIST_WRITE_OFFS_OF_ORDER, scope.account_id, order_id):
        amount, reference = f"{format_money(row['amount_minor'], row['currency'])} {row['currency']}", row["reference"]
        text = f"{amount} of {reference} written off: {row['reason']}"
        actor = row["approved_by"] or row["requested_by"]
        entry = TimelineEntry(at=row["booked_at"], kind="invoice", text=text, actor=actor, subject_id=row["id"])
        entries.append(entry)
        if row["undone_at"] is not None:
            text = f"{reference} reinstated: {row['undo_reason']}"
            entry = TimelineEntry(
                at=row["undone_at"], kind="invoice", text=text, actor=row["undone_by"], subject_id=row["id"]
            )
            entries.append(entry)
    return entries


LIST_TRANSFERS_OF_ORDER = """
SELECT part.id, part.amount_minor, part.created_at, part.created_by, part.note, transfer.id AS transfer_id,
       transfer.currency, transfer.payer, transfer.booked_on, invoices.reference
FROM invoice_orders billed
JOIN invoices ON invoices.id = billed.invoice_id
JOIN transfer_assignments part ON part.invoice_id = invoices.id
JOIN bank_transfers transfer ON transfer.id = part.transfer_id
WHERE billed.account_id = $1 AND billed.order_id = $2 ORDER BY part.created_at, part.id
"""


async def transfer_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    """The transfers that pay the order's invoices, or parts of them."""
    entries = []
    for row in await connection.fetch(LIST_TRANSFERS_OF_ORDER, scope.account_id, order_id):
        minor, currency = row["amount_minor"], row["currency"]
        amount = f"{format_money(abs(minor), currency)} {currency}"
        done = "assigned to" if minor > 0 else "no longer assigned to"
        text = f"{amount} of “{row['payer']}”, booked on {row['booked_on']}, {done} {row['reference']}"
        entries.append(
            TimelineEntry(
                at=row["created_at"],
                kind="transfer",
                text=f"{text}: {row['note']}" if row["note"] else text,
                actor=row["created_by"],
                subject_id=row["transfer_id"],
            )
        )
    return entries


LIST_RETURNS_OF_ORDER = """
SELECT part.id, part.amount_minor, part.status, part.reason, part.created_at, part.created_by, part.closed_at,
       transfer.currency
FROM invoice_orders billed
JOIN transfer_returns part ON part.invoice_id = billed.invoice_id
JOIN bank_transfers transfer ON transfer.id = part.transfer_id
WHERE billed.account_id = $1 AND billed.order_id = $2 ORDER BY part.created_at, part.id
"""


async def return_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    """Money that goes back by bank."""
    entries = []
    for row in await connection.fetch(LIST_RETURNS_OF_ORDER, scope.account_id, order_id):
        amount, id_ = f"{format_money(row['amount_minor'], row['currency'])} {row['currency']}", row["id"]
        planned = f"return of {amount} planned: {row['reason']}"
        actor = row["created_by"]
        entries.append(TimelineEntry(at=row["created_at"], kind="return", text=planned, actor=actor, subject_id=id_))
        if row["closed_at"] is not None:
            text = f"return of {amount} {row['status']}"
            entries.append(TimelineEntry(at=row["closed_at"], kind="return", text=text, subject_id=id_))
    return entries


LIST_CREDIT_NOTES_OF_ORDER = """
SELECT note.id, note.reference, note.currency, part.total_minor, note.cause, note.reason, note.issued_by,
       note.created_at, note.mailed_at
FROM credit_note_orders part JOIN credit_notes note ON note.id = part.credit_note_id
WHERE part.account_id = $1 AND part.order_id = $2 ORDER BY note.created_at
"""


async def credit_note_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_CREDIT_NOTES_OF_ORDER, scope.account_id, order_id):
        amount, reason = f"{format_money(row['total_minor'], row['currency'])} {row['currency']}", row["reason"]
        text = f"{row['reference']} over {amount} issued ({row['cause']}){f': {reason}' if reason else ''}"
        issued = TimelineEntry(
            at=row["created_at"], kind="credit note", text=text, actor=row["issued_by"], subject_id=row["id"]
        )
        entries.append(issued)
        if row["mailed_at"] is not None:
            text = f"{row['reference']} mailed"
            entries.append(TimelineEntry(at=row["mailed_at"], kind="credit note", text=text, subject_id=row["id"]))
    return entries
