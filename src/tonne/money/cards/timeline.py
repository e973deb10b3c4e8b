"""The charges of an order, and of its invoice, and their outcomes."""

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry, entries_of

LIST_CHARGES_OF_ORDER = """
SELECT id, attempt, gateway, amount_minor, currency, status, outcome, reference, code, message, created_at, settled_at,
       refunded_at, next_attempt_at, card_country,
       (SELECT string_agg(document.reference, ', ' ORDER BY document.reference) FROM charge_invoices document
        WHERE document.account_id = charges.account_id AND document.charge_id = charges.id) AS invoice
FROM charges
WHERE charges.account_id = $1
  AND charges.id IN (SELECT paid.charge_id FROM charge_orders paid WHERE paid.account_id = $1 AND paid.order_id = $2)
ORDER BY created_at, attempt
"""


async def charge_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_CHARGES_OF_ORDER, scope.account_id, order_id):
        amount = f"{format_money(row['amount_minor'], row['currency'])} {row['currency']}"
        what = "" if row["invoice"] is None else f" for invoice {row['invoice']}"
        country = row["card_country"] and f"card of {row['card_country']}"
        details = ", ".join(filter(None, (row["reference"], row["outcome"], row["code"], row["message"], country)))
        result = f"{'failed' if row['status'] == 'failed' else 'captured'}{f' ({details})' if details else ''}"
        entries += entries_of(
            "charge",
            row["id"],
            (row["created_at"], f"attempt {row['attempt']} to charge {amount}{what} ({row['gateway']})"),
            (row["settled_at"], f"{amount} {result}"),
            (row["refunded_at"], f"{amount} refunded"),
        )
    return entries
