from tonne.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "invoice numbers are 1 to n without a gap",
        "An invoice number is missing or was used twice: an auditor will ask for it.",
        """
        SELECT format('%s series: %s invoices up to number %s, last number %s', series.mode, count(invoices.number),
                      coalesce(max(invoices.number), 0), series.last_number) AS "where"
        FROM invoice_series series LEFT JOIN invoices ON invoices.mode = series.mode
        GROUP BY series.mode, series.last_number
        HAVING count(DISTINCT invoices.number) <> series.last_number
            OR coalesce(max(invoices.number), 0) <> series.last_number
        """,
    ),
    Invariant(
        "an invoice's status matches its order's",
        "An invoice is open, paid or cancelled although its order is not.",
        """
        SELECT format('invoice %s is %s, order %s of account %s is %s', invoices.reference, invoices.status, orders.id,
                      orders.account_id, orders.status) AS "where"
        FROM invoices JOIN orders ON orders.account_id = invoices.account_id AND orders.id = invoices.order_id
        WHERE (invoices.status, orders.status) NOT IN (VALUES
            ('open', 'placed'), ('cancelled', 'cancelled'),
            ('paid', 'paid'), ('paid', 'retiring'), ('paid', 'complete'))
        """,
    ),
    Invariant(
        "an invoice's total is its order's total",
        "An invoice has another total, currency or mode than its order.",
        """
        SELECT format('invoice %s: %s %s, order %s of account %s: %s %s', invoices.reference, invoices.total_minor,
                      invoices.currency, orders.id, orders.account_id, orders.total_cost_minor, orders.currency)
                   AS "where"
        FROM invoices JOIN orders ON orders.account_id = invoices.account_id AND orders.id = invoices.order_id
        WHERE (invoices.total_minor, invoices.currency, invoices.mode, invoices.organisation_id, 'invoice')
              IS DISTINCT FROM (orders.total_cost_minor, orders.currency, orders.mode, orders.organisation_id,
                                orders.payment_method)
        """,
    ),
    Invariant(
        "bank transfers add up to the invoices they settled",
        "An invoice was settled although its transfers do not cover it, or not settled although they do.",
        """
        SELECT format('invoice %s is %s: %s of %s minor units in %s transfers', invoices.reference, invoices.status,
                      sum(transfer.amount_minor), invoices.total_minor, count(*)) AS "where"
        FROM invoices JOIN bank_transfers transfer
          ON transfer.account_id = invoices.account_id AND transfer.order_id = invoices.order_id
        WHERE transfer.outcome IN ('matched', 'over', 'under')
        GROUP BY invoices.account_id, invoices.order_id
        HAVING bool_or(transfer.currency <> invoices.currency OR transfer.mode <> invoices.mode)
            OR count(*) FILTER (WHERE transfer.outcome <> 'under')
               <> (sum(transfer.amount_minor) >= invoices.total_minor)::integer
            OR bool_or(transfer.outcome = 'over') <> (sum(transfer.amount_minor) > invoices.total_minor)
            OR (sum(transfer.amount_minor) >= invoices.total_minor AND invoices.status <> 'paid')
        """,
    ),
)
