"""The invoices of an order and the bank transfers that pay them."""

import asyncpg

from tonne.base.money import format_money
from tonne.base.scope import Scope
from tonne.base.timeline import TimelineEntry
from tonne.db.pool import Connection
from tonne.invoices.return_store import list_returns_of_transfer_any_account

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


LIST_TRANSFERS_OF_ORDER = """
SELECT transfer.id, transfer.booked_on, transfer.amount_minor, transfer.currency, transfer.payer, transfer.state,
       transfer.imported_at, transfer.imported_by, invoices.reference
FROM invoice_orders billed
JOIN invoices ON invoices.id = billed.invoice_id
JOIN bank_transfers transfer
  ON transfer.invoice_id = invoices.id
  OR EXISTS (SELECT FROM transfer_assignments each
             WHERE each.transfer_id = transfer.id AND each.invoice_id = invoices.id)
WHERE billed.account_id = $1 AND billed.order_id = $2 ORDER BY transfer.imported_at, transfer.id
"""


async def transfer_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    rows = await connection.fetch(LIST_TRANSFERS_OF_ORDER, scope.account_id, order_id)
    returns = [each for row in rows for each in await list_returns_of_transfer_any_account(connection, row["id"])]
    entries = [
        TimelineEntry(
            at=row["imported_at"],
            kind="transfer",
            text=(
                f"{format_money(row['amount_minor'], row['currency'])} {row['currency']} of “{row['payer']}”, booked "
                f"on {row['booked_on']}, for {row['reference']}: {row['state'].replace('_', ' ')}"
            ),
            actor=row["imported_by"],
            subject_id=row["id"],
        )
        for row in rows
    ]
    return entries + [
        TimelineEntry(
            at=each.created_at,
            kind="transfer",
            text=f"{each.amount} to go back to “{each.to_name}”: {each.status}",
            actor=each.created_by,
            subject_id=each.id,
        )
        for each in returns
    ]
