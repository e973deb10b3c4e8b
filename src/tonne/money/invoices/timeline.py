"""The invoices of an order and the bank transfers that pay them."""

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry, entries_of

LIST_INVOICES_OF_ORDER = """
SELECT invoices.id, invoices.reference, invoices.status, invoices.total_minor, invoices.currency, invoices.order_count,
       invoices.created_at, invoices.due_on, invoices.mailed_at, invoices.reminded_at, invoices.settled_at,
       invoices.settled_by
FROM invoice_orders billed JOIN invoices ON invoices.id = billed.invoice_id
WHERE billed.account_id = $1 AND billed.order_id = $2 ORDER BY invoices.created_at
"""


async def invoice_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_INVOICES_OF_ORDER, scope.account_id, order_id):
        reference, total = row["reference"], f"{format_money(row['total_minor'], row['currency'])} {row['currency']}"
        others = f", with {row['order_count'] - 1:,} other orders" if row["order_count"] > 1 else ""
        entries += entries_of(
            "invoice",
            row["id"],
            (row["created_at"], f"{reference} over {total} issued, due on {row['due_on']}{others}"),
            (row["mailed_at"], f"{reference} mailed"),
            (row["reminded_at"], f"{reference} reminded of"),
            (row["settled_at"], f"{reference} {row['status']}", row["settled_by"]),
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
        written_off = f"{amount} of {reference} written off: {row['reason']}"
        entries += entries_of(
            "invoice",
            row["id"],
            (row["booked_at"], written_off, row["approved_by"] or row["requested_by"]),
            (row["undone_at"], f"{reference} reinstated: {row['undo_reason']}", row["undone_by"]),
        )
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
        text = f"{text}: {row['note']}" if row["note"] else text
        entries += entries_of("transfer", row["transfer_id"], (row["created_at"], text, row["created_by"]))
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
        returned = f"return of {format_money(row['amount_minor'], row['currency'])} {row['currency']}"
        entries += entries_of(
            "return",
            row["id"],
            (row["created_at"], f"{returned} planned: {row['reason']}", row["created_by"]),
            (row["closed_at"], f"{returned} {row['status']}"),
        )
    return entries


LIST_CREDIT_NOTES_OF_ORDER = """
SELECT note.id, note.reference, note.currency, part.total_minor, note.cause, note.reason, note.issued_by,
       note.created_at, note.mailed_at, following.reference AS taken_back_by
FROM credit_note_orders part JOIN credit_notes note ON note.id = part.credit_note_id
LEFT JOIN tax_documents following ON following.id = note.taken_back_by
WHERE part.account_id = $1 AND part.order_id = $2 ORDER BY note.created_at
"""


async def credit_note_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_CREDIT_NOTES_OF_ORDER, scope.account_id, order_id):
        amount, reason = f"{format_money(row['total_minor'], row['currency'])} {row['currency']}", row["reason"]
        text = f"{row['reference']} over {amount} issued ({row['cause']}){f': {reason}' if reason else ''}"
        text += f"; taken back by {row['taken_back_by']}" if row["taken_back_by"] else ""
        entries += entries_of(
            "credit note",
            row["id"],
            (row["created_at"], text, row["issued_by"]),
            (row["mailed_at"], f"{row['reference']} mailed"),
        )
    return entries
