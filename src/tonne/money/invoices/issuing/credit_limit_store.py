"""SQL of what accounts owe for orders that were fulfilled on credit."""

from collections.abc import Collection

from tonne.platform.db.database import Connection
from tonne.selling.accounts.model import PaymentMethod

# Less what credit notes took off. Orders of an invoice that was written off count until the operator releases them.
# Orders that are to be billed together count with what they cost before rounding.
SUM_ON_CREDIT = """
SELECT orders.account_id,
       sum(coalesce(unbilled.exact_cost, (orders.total_cost_minor + orders.billing_adjustment_minor
           + coalesce(orders.tax_minor, 0) - coalesce(credited.minor, 0)) * 1000000)) AS unpaid
FROM orders
LEFT JOIN unbilled_orders unbilled ON unbilled.account_id = orders.account_id AND unbilled.order_id = orders.id
LEFT JOIN (SELECT part.account_id, part.order_id, sum(part.total_minor) AS minor
           FROM credit_note_orders part JOIN credit_notes note ON note.id = part.credit_note_id
           WHERE part.account_id = ANY ($1::text[]) AND note.taken_back_by IS NULL
           GROUP BY part.account_id, part.order_id) AS credited
  ON credited.account_id = orders.account_id AND credited.order_id = orders.id
WHERE orders.account_id = ANY ($1::text[]) AND orders.payment_state = 'unpaid' AND orders.payment_method = $2
  AND orders.status IN ('paid', 'retiring', 'complete')
  AND NOT EXISTS (SELECT FROM write_offs JOIN invoice_orders billed ON billed.invoice_id = write_offs.invoice_id
                  WHERE write_offs.state = 'booked' AND write_offs.releases_credit
                    AND billed.account_id = orders.account_id AND billed.order_id = orders.id)
GROUP BY orders.account_id
"""


async def sum_on_credit_any_account(
    connection: Connection, account_ids: Collection[str], method: PaymentMethod
) -> dict[str, int]:
    """What was fulfilled for these accounts and is not paid yet, in millionths of a minor unit."""
    rows = await connection.fetch(SUM_ON_CREDIT, sorted(account_ids), method)
    return {row["account_id"]: int(row["unpaid"]) for row in rows}


LOCK_CREDIT = """
SELECT pg_advisory_xact_lock($2, hashtext(owner.name)) FROM unnest($1::text[]) AS owner (name) ORDER BY owner.name
"""
# The class of the advisory locks. Any number that no other code uses.
_CREDIT_LOCK = 740_561


async def lock_credit(tx: Connection, owners: Collection[str]) -> None:
    """Serialises decisions about the credit of accounts, cards or organisations: two workers could exceed the limit."""
    await tx.execute(LOCK_CREDIT, sorted(owners), _CREDIT_LOCK)
