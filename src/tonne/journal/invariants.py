"""What must hold in the books."""

from tonne.db.invariant import Invariant
from tonne.journal.model import LedgerAccount
from tonne.journal.sources import all_postings

_IS_BAD_DEBT = f"account = '{LedgerAccount.BAD_DEBTS}'"
_IS_DEFERRED = f"account = '{LedgerAccount.DEFERRED}'"

INVARIANTS = (
    Invariant(
        "every entry of the journal sums to zero",
        "Debits and credits of an entry differ: the records that it is computed from contradict each other.",
        f"""
        SELECT format('%s %s (%s): %s %s too much', kind, source_id, subject, sum(amount_minor), currency) AS "where"
        FROM ({all_postings("true")}) AS posting
        GROUP BY mode, kind, source_id, subject, currency HAVING sum(amount_minor) <> 0
        """,  # noqa: S608 - our own constants
    ),
    Invariant(
        "bad debts are what is written off and still open",
        "The journal and the invoices disagree about what was written off.",
        f"""
        SELECT format('%s %s: %s in the journal, %s of the invoices', mode, currency, booked.amount_minor,
                      written.amount_minor) AS "where"
        FROM (SELECT mode, currency, sum(amount_minor) AS amount_minor FROM ({all_postings(_IS_BAD_DEBT)}) AS posting
              GROUP BY mode, currency) AS booked
        FULL JOIN (
            SELECT invoices.mode, invoices.currency,
                   sum(invoices.total_minor - invoices.credited_minor
                       - coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid
                                   WHERE paid.invoice_id = invoices.id), 0)) AS amount_minor
            FROM invoices WHERE invoices.status = 'open' AND invoices.written_off_at IS NOT NULL
            GROUP BY invoices.mode, invoices.currency
        ) AS written USING (mode, currency)
        WHERE coalesce(booked.amount_minor, 0) <> coalesce(written.amount_minor, 0)
        """,  # noqa: S608 - our own constants
    ),
    Invariant(
        "deferred revenue is what was billed or paid and is not delivered",
        "The journal and the orders disagree about what is still to be delivered.",
        f"""
        SELECT format('%s %s: %s in the journal, %s in the orders', mode, currency, booked.amount_minor,
                      owed.amount_minor) AS "where"
        FROM (SELECT mode, currency, -sum(amount_minor) AS amount_minor FROM ({all_postings(_IS_DEFERRED)}) AS posting
              GROUP BY mode, currency) AS booked
        FULL JOIN (
            SELECT orders.mode, orders.currency,
                   sum(CASE WHEN orders.status IN ('cancelled', 'failed') THEN 0
                            WHEN orders.status = 'complete' AND has_revenue THEN 0
                            WHEN orders.status = 'complete' THEN -orders.total_cost_minor
                            WHEN has_revenue THEN orders.total_cost_minor ELSE 0 END) AS amount_minor
            FROM orders
            CROSS JOIN LATERAL (
                SELECT EXISTS (SELECT FROM invoice_orders billed
                               WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
                    OR EXISTS (SELECT FROM charges charge
                               WHERE charge.account_id = orders.account_id AND charge.order_id = orders.id
                                 AND charge.status IN ('captured', 'refunded') AND NOT charge.is_surplus) AS has_revenue
            ) AS money
            GROUP BY orders.mode, orders.currency
        ) AS owed USING (mode, currency)
        WHERE coalesce(booked.amount_minor, 0) <> coalesce(owed.amount_minor, 0)
        """,  # noqa: S608 - our own constants
    ),
)
