"""The charges of an order, and of its invoice, and their outcomes."""

from tonne.platform.db.pool import Connection
from tonne.platform.values.money import format_money
from tonne.platform.values.scope import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_CHARGES_OF_ORDER = """
SELECT id, attempt, gateway, amount_minor, currency, status, outcome, reference, code, message, created_at, settled_at,
       refunded_at, next_attempt_at,
       (SELECT invoices.reference FROM invoices WHERE invoices.id = charges.invoice_id) AS invoice
FROM charges
WHERE charges.id IN (
    SELECT own.id FROM charges own WHERE own.account_id = $1 AND own.order_id = $2
    UNION ALL
    SELECT shared.id FROM invoice_orders billed JOIN charges shared ON shared.invoice_id = billed.invoice_id
    WHERE billed.account_id = $1 AND billed.order_id = $2 AND shared.account_id = $1)
ORDER BY created_at, attempt
"""


async def charge_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_CHARGES_OF_ORDER, scope.account_id, order_id):
        id_, amount = row["id"], f"{format_money(row['amount_minor'], row['currency'])} {row['currency']}"
        what = "" if row["invoice"] is None else f" for invoice {row['invoice']}"
        begun = f"attempt {row['attempt']} to charge {amount}{what} ({row['gateway']})"
        entries.append(TimelineEntry(at=row["created_at"], kind="charge", text=begun, subject_id=id_))
        if row["settled_at"] is not None:
            details = ", ".join(filter(None, (row["reference"], row["outcome"], row["code"], row["message"])))
            result = "failed" if row["status"] == "failed" else "captured"
            text = f"{amount} {result}{f' ({details})' if details else ''}"
            entries.append(TimelineEntry(at=row["settled_at"], kind="charge", text=text, subject_id=id_))
        if row["refunded_at"] is not None:
            entries.append(
                TimelineEntry(at=row["refunded_at"], kind="charge", text=f"{amount} refunded", subject_id=id_)
            )
    return entries
