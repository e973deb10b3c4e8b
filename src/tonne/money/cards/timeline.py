"""The charges of an order, and of its invoice, and their outcomes."""

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_CHARGES_OF_ORDER = """
SELECT id, attempt, gateway, amount_minor, currency, status, outcome, reference, code, message, created_at, settled_at,
       refunded_at, next_attempt_at,
       (SELECT document.reference FROM charge_invoices document
        WHERE document.account_id = charges.account_id AND document.charge_id = charges.id) AS invoice
FROM charges
WHERE charges.account_id = $1
  AND charges.id IN (SELECT paid.charge_id FROM charge_orders paid WHERE paid.account_id = $1 AND paid.order_id = $2)
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
