"""What must hold in the books."""

from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.sales import taxes_of
from tonne.money.accounting.journal.sources import TABLE_OF_KIND, all_postings
from tonne.platform.db.invariant import Invariant, SharedScan

_TABLE_OF_KIND = ", ".join(f"('{kind}', '{table}')" for kind, table in TABLE_OF_KIND.items())
# One row per mode and currency, so that the entries are computed once for all invariants. What waits to be booked may
# differ.
_BOOKS = SharedScan(f"""
    waiting AS MATERIALIZED (
        SELECT DISTINCT of_table.kind, due.source_id
        FROM ledger_due due JOIN (VALUES {_TABLE_OF_KIND}) AS of_table (kind, table_name) USING (table_name)
    ), books AS MATERIALIZED (
        SELECT mode, currency, sum(bad_debts_minor) AS bad_debts_minor, -sum(deferred_minor) AS deferred_minor,
               array_agg(format('%s %s: %s too much', kind, source_id, money_text(amount_minor, currency)))
                   FILTER (WHERE amount_minor <> 0) AS unbalanced,
               array_agg(format('%s %s: %s', kind, source_id, differences))
                   FILTER (WHERE differences IS NOT NULL AND waiting.kind IS NULL) AS different
        FROM (SELECT mode, kind, source_id, currency, sum(amount_minor)::bigint AS amount_minor,
                     sum(amount_minor) FILTER (WHERE account = '{LedgerAccount.BAD_DEBTS}') AS bad_debts_minor,
                     sum(amount_minor) FILTER (WHERE account = '{LedgerAccount.DEFERRED}') AS deferred_minor,
                     string_agg(format('%s is %s instead of %s', account,
                                       money_text(coalesce(posted_minor, 0)::bigint, currency),
                                       money_text(coalesce(amount_minor, 0)::bigint, currency)), ', ')
                         FILTER (WHERE coalesce(amount_minor, 0) <> coalesce(posted_minor, 0)) AS differences
              FROM (SELECT mode, kind, source_id, currency, account,
                           sum(amount_minor) FILTER (WHERE NOT is_posted) AS amount_minor,
                           sum(amount_minor) FILTER (WHERE is_posted) AS posted_minor
                    FROM (SELECT mode, kind, source_id, currency, account, amount_minor, false AS is_posted
                          FROM ({all_postings("amount_minor <> 0 AND at IS NOT NULL")}) AS computed
                          UNION ALL
                          SELECT entry.mode, entry.kind, entry.source_id, posting.currency,
                                 posting.account || coalesce(':' || posting.tax_code, ''), posting.amount_minor, true
                          FROM ledger_entries entry JOIN ledger_postings posting ON posting.entry_id = entry.id
                         ) AS each
                    GROUP BY mode, kind, source_id, currency, account) AS posting
              GROUP BY mode, kind, source_id, currency) AS entry
        LEFT JOIN waiting USING (kind, source_id)
        GROUP BY mode, currency
    )
""")  # noqa: S608 - our own constants

INVARIANTS = (
    Invariant(
        "a month that was reopened was approved by other people",
        "A closed month was opened again without the approvals that this needs: its books may have changed.",
        """
        SELECT format('%s %s, requested by %s', mode, to_char(month, 'YYYY-MM'), reopen_requested_by) AS "where"
        FROM closed_months
        WHERE reopened_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM approvals WHERE approvals.kind = 'reopening' AND approvals.subject_id = closed_months.id
            GROUP BY approvals.digest
            HAVING count(DISTINCT approvals.approved_by)
                   >= CASE WHEN starts_with(reopen_requested_by, 'cli:') THEN 2 ELSE 1 END)
        """,
    ),
    Invariant(
        "the tax in the books is that of the documents",
        "In a month the change of the tax account differs from the tax of the documents of that month: the list of "
        "sales and the books contradict each other.",
        f"""
        SELECT format('%s %s %s: %s', mode, to_char(month, 'YYYY-MM'), coalesce(nullif(tax_code, ''), 'without a code'),
                      money_text(sum(minor)::bigint, currency)) AS "where"
        FROM (SELECT entry.mode, date_trunc('month', entry.event_at AT TIME ZONE 'UTC') AS month,
                     coalesce(posting.tax_code, '') AS tax_code, posting.currency, posting.amount_minor AS minor
              FROM ledger_entries entry JOIN ledger_postings posting ON posting.entry_id = entry.id
              WHERE posting.account IN ('{LedgerAccount.TAX}', '{LedgerAccount.TAX_NOT_DUE}')
              UNION ALL
              SELECT document.mode, date_trunc('month', document.issued_on::timestamp), line.code,
                     document.currency::text, CASE document.kind WHEN 'credit_note' THEN -1 ELSE 1 END * line.minor
              FROM tax_documents document CROSS JOIN LATERAL {taxes_of("document")} AS line
              WHERE NOT EXISTS (SELECT FROM ledger_due due
                                WHERE due.table_name = 'tax_documents' AND due.source_id = document.id
                                  AND NOT EXISTS (SELECT FROM ledger_entries booked
                                                  WHERE booked.kind IN ('invoiced', 'credited')
                                                    AND booked.source_id = document.id))) AS each
        GROUP BY mode, month, tax_code, currency HAVING sum(minor) <> 0
        """,  # noqa: S608 - our own constants
    ),
    Invariant(
        "every entry of the journal sums to zero",
        "Debits and credits of an entry differ: the records that it is computed from contradict each other.",
        """
        SELECT unnest(unbalanced) AS "where" FROM books
        """,
        _BOOKS,
    ),
    Invariant(
        "what is booked equals the records that it is computed from",
        "A record changed, and the difference was not booked.",
        """
        SELECT unnest(different) AS "where" FROM books
        """,
        _BOOKS,
    ),
    Invariant(
        "the totals of the journal are the sums of its entries",
        "A total of a month, or an entry, was changed.",
        """
        SELECT format('%s %s %s %s: %s in the totals, %s in the entries', mode, to_char(month, 'YYYY-MM'), account,
                      tax_code, money_text(coalesce(total.amount_minor, 0), currency),
                      money_text(coalesce(entry.amount_minor, 0), currency)) AS "where"
        FROM (SELECT mode, month, account, tax_code, currency, debit_minor - credit_minor AS amount_minor, home_minor
              FROM ledger_totals) AS total
        FULL JOIN (SELECT entry.mode, date_trunc('month', entry.booked_on)::date AS month, posting.account,
                          coalesce(posting.tax_code, '') AS tax_code, posting.currency,
                          sum(posting.amount_minor)::bigint AS amount_minor,
                          sum(posting.home_minor)::bigint AS home_minor
                   FROM ledger_entries entry JOIN ledger_postings posting ON posting.entry_id = entry.id
                   GROUP BY 1, 2, 3, 4, 5) AS entry
          USING (mode, month, account, tax_code, currency)
        WHERE coalesce(total.amount_minor, 0) <> coalesce(entry.amount_minor, 0)
           OR coalesce(total.home_minor, 0) <> coalesce(entry.home_minor, 0)
        """,
    ),
    Invariant(
        "in the currency of the country entries sum to zero, too",
        "A posting in a foreign currency was converted at another rate than the others of its entry.",
        """
        SELECT format('entry %s: %s', entry_id, money_text(sum(home_minor), max(home_currency))) AS "where"
        FROM ledger_postings WHERE home_minor IS NOT NULL GROUP BY entry_id HAVING sum(home_minor) <> 0
        """,
    ),
    Invariant(
        "bad debts are what is written off and still open",
        "The journal and the invoices disagree about what was written off.",
        """
        SELECT format('%s: %s in the journal, %s of the invoices', mode,
                      money_text(coalesce(books.bad_debts_minor, 0), currency),
                      money_text(coalesce(written.amount_minor, 0), currency)) AS "where"
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
        "deferred revenue is what was billed and is not delivered",
        "The journal and the orders disagree about what is still to be delivered.",
        """
        SELECT format('%s: %s in the journal, %s in the orders', mode,
                      money_text(coalesce(books.deferred_minor, 0), currency),
                      money_text(coalesce(owed.amount_minor, 0), currency)) AS "where"
        FROM books
        FULL JOIN (
            SELECT orders.mode, orders.currency,
                   sum(CASE WHEN orders.status IN ('cancelled', 'failed') THEN 0
                            WHEN orders.status = 'complete' AND revenue.order_id IS NOT NULL THEN 0
                            WHEN orders.status = 'complete'
                                THEN -orders.total_cost_minor - orders.billing_adjustment_minor
                            WHEN revenue.order_id IS NOT NULL
                                THEN orders.total_cost_minor + orders.billing_adjustment_minor
                            ELSE 0 END) AS amount_minor
            FROM orders
            LEFT JOIN (SELECT DISTINCT account_id, order_id FROM invoice_orders) AS revenue
              ON revenue.account_id = orders.account_id AND revenue.order_id = orders.id
            GROUP BY orders.mode, orders.currency
        ) AS owed USING (mode, currency)
        WHERE coalesce(books.deferred_minor, 0) <> coalesce(owed.amount_minor, 0)
        """,
        _BOOKS,
    ),
)
