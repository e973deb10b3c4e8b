"""What must hold in the books."""

from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.sources import all_postings
from tonne.platform.db.invariant import Invariant, SharedScan

# One row per mode and currency, so that the entries are computed once for all invariants.
_BOOKS = SharedScan(f"""
    books AS MATERIALIZED (
        SELECT mode, currency, sum(bad_debts_minor) AS bad_debts_minor, -sum(deferred_minor) AS deferred_minor,
               array_agg(format('%s %s (%s): %s %s too much', kind, source_id, subject, amount_minor, currency))
                   FILTER (WHERE amount_minor <> 0) AS unbalanced
        FROM (SELECT mode, kind, source_id, subject, currency, sum(amount_minor) AS amount_minor,
                     sum(amount_minor) FILTER (WHERE account = '{LedgerAccount.BAD_DEBTS}') AS bad_debts_minor,
                     sum(amount_minor) FILTER (WHERE account = '{LedgerAccount.DEFERRED}') AS deferred_minor
              FROM ({all_postings("amount_minor <> 0")}) AS posting
              GROUP BY mode, kind, source_id, subject, currency) AS entry
        GROUP BY mode, currency
    )
""")  # noqa: S608 - our own constants

INVARIANTS = (
    Invariant(
        "every entry of the journal sums to zero",
        "Debits and credits of an entry differ: the records that it is computed from contradict each other.",
        """
        SELECT unnest(unbalanced) AS "where" FROM books
        """,
        _BOOKS,
    ),
    Invariant(
        "bad debts are what is written off and still open",
        "The journal and the invoices disagree about what was written off.",
        """
        SELECT format('%s %s: %s in the journal, %s of the invoices', mode, currency, books.bad_debts_minor,
                      written.amount_minor) AS "where"
        FROM books
        FULL JOIN (
            SELECT invoices.mode, invoices.currency,
                   sum(invoices.total_minor - invoices.credited_minor
                       - coalesce((SELECT sum(paid.amount_minor) FROM transfer_assignments paid
                                   WHERE paid.invoice_id = invoices.id), 0)) AS amount_minor
            FROM invoices WHERE invoices.status = 'open' AND invoices.written_off_at IS NOT NULL
            GROUP BY invoices.mode, invoices.currency
        ) AS written USING (mode, currency)
        WHERE coalesce(books.bad_debts_minor, 0) <> coalesce(written.amount_minor, 0)
        """,
        _BOOKS,
    ),
    Invariant(
        "deferred revenue is what was billed or paid and is not delivered",
        "The journal and the orders disagree about what is still to be delivered.",
        """
        SELECT format('%s %s: %s in the journal, %s in the orders', mode, currency, books.deferred_minor,
                      owed.amount_minor) AS "where"
        FROM books
        FULL JOIN (
            SELECT orders.mode, orders.currency,
                   sum(CASE WHEN orders.status IN ('cancelled', 'failed') THEN 0
                            WHEN orders.status = 'complete' AND revenue.order_id IS NOT NULL THEN 0
                            WHEN orders.status = 'complete' THEN -orders.total_cost_minor
                            WHEN revenue.order_id IS NOT NULL THEN orders.total_cost_minor ELSE 0 END) AS amount_minor
            FROM orders
            LEFT JOIN (SELECT account_id, order_id FROM invoice_orders
                       UNION
                       SELECT account_id, order_id FROM charges
                       WHERE status IN ('captured', 'refunded') AND NOT is_surplus) AS revenue
              ON revenue.account_id = orders.account_id AND revenue.order_id = orders.id
            GROUP BY orders.mode, orders.currency
        ) AS owed USING (mode, currency)
        WHERE coalesce(books.deferred_minor, 0) <> coalesce(owed.amount_minor, 0)
        """,
        _BOOKS,
    ),
)
