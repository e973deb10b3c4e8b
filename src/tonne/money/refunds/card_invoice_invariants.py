"""What must hold of invoices that a stored card pays."""

from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no invoice is charged twice",
        "An invoice was charged more than once, and the surplus was not refunded.",
        """
        SELECT format('invoice %s: charges %s', document.reference, string_agg(charges.id, ', ' ORDER BY attempt))
               AS "where"
        FROM charges JOIN charge_invoices document
          ON document.charge_id = charges.id
        WHERE charges.status IN ('captured', 'mismatched')
        GROUP BY document.invoice_id, document.reference HAVING count(*) > 1
        """,
    ),
    Invariant(
        "an invoice paid by card has one captured charge of its amount",
        "An invoice was settled by a card with another amount, or a charge was captured for an invoice that is unpaid.",
        """
        SELECT format('charge %s captured %s, %s of it goes back, %s settled of %s', charge.id,
                      money_text(charge.captured_minor, charge.captured_currency),
                      money_text(surplus.amount_minor, charge.captured_currency),
                      money_text(coalesce(paid.settled_minor, 0), charge.currency), paid.invoices) AS "where"
        FROM charges charge
        CROSS JOIN LATERAL (
            SELECT sum(invoices.settled_minor) AS settled_minor, bool_or(invoices.status = 'open') AS is_open,
                   string_agg(document.reference, ', ') AS invoices
            FROM charge_invoices document JOIN invoices ON invoices.id = document.invoice_id
            WHERE document.account_id = charge.account_id AND document.charge_id = charge.id) AS paid
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(refunds.amount_minor), 0) AS amount_minor FROM refunds
            WHERE refunds.charge_id = charge.id AND refunds.purpose = 'surplus'
              AND refunds.state IN ('approval', 'due', 'pending', 'succeeded')) AS surplus
        WHERE charge.invoice_id IS NOT NULL AND charge.status IN ('captured', 'refunded') AND NOT charge.is_surplus
          AND (paid.is_open OR charge.check_at IS NULL
                   AND charge.captured_minor - surplus.amount_minor IS DISTINCT FROM paid.settled_minor)
        UNION ALL
        SELECT format('invoice %s is paid by no charge', invoices.reference)
        FROM invoices
        WHERE invoices.payment_method = 'card' AND NOT invoices.is_prepaid AND invoices.status = 'paid'
          AND NOT invoices.settled_by_hand
          AND NOT EXISTS (SELECT FROM transfer_assignments part WHERE part.invoice_id = invoices.id)
          AND NOT EXISTS (SELECT FROM charge_invoices document JOIN charges charge
                            ON charge.id = document.charge_id
                          WHERE document.invoice_id = invoices.id AND charge.status IN ('captured', 'refunded')
                            AND NOT charge.is_surplus)
        """,
    ),
    Invariant(
        "every open invoice that a card pays is charged",
        "No worker will charge the card for an invoice, and no charge is in progress.",
        """
        SELECT format('invoice %s of account %s', invoices.reference, due.account_id) AS "where"
        FROM card_invoices due JOIN invoices ON invoices.id = due.invoice_id
        JOIN accounts ON accounts.id = due.account_id
        WHERE invoices.status = 'open' AND due.next_attempt_at IS NULL AND accounts.auto_advance
          AND NOT due.is_given_up
          AND NOT EXISTS (SELECT FROM charge_invoices document JOIN charges
                            ON charges.id = document.charge_id
                          WHERE document.invoice_id = invoices.id AND charges.status IN ('pending', 'mismatched'))
        """,
    ),
    Invariant(
        "the orders of an invoice that a card pays are of one account",
        "A card would pay for orders of another account.",
        """
        SELECT DISTINCT format('invoice %s of account %s: order of account %s', due.invoice_id, due.account_id,
                               billed.account_id) AS "where"
        FROM card_invoices due JOIN invoice_orders billed ON billed.invoice_id = due.invoice_id
        WHERE billed.account_id <> due.account_id
        """,
    ),
    Invariant(
        "what is left of an order whose invoice a card paid is being refunded once it is cancelled",
        "An order was cancelled, and its part of the payment for the invoice is neither refunded nor about to be.",
        """
        SELECT format('order %s of invoice %s', orders.id, invoices.reference) AS "where"
        FROM charges JOIN charge_invoices document
          ON document.charge_id = charges.id
        JOIN invoices ON invoices.id = document.invoice_id
        JOIN invoice_orders billed ON billed.invoice_id = invoices.id
        JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
        CROSS JOIN LATERAL (
            SELECT billed.total_minor - coalesce(sum(credited.total_minor), 0) AS amount_minor
            FROM credit_note_orders credited JOIN credit_notes note ON note.id = credited.credit_note_id
            WHERE note.invoice_id = invoices.id AND credited.account_id = billed.account_id
              AND credited.order_id = billed.order_id AND note.refund_id IS NULL AND note.taken_back_by IS NULL
              AND note.created_at <= invoices.settled_at) AS paid
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_minor), 0) AS amount_minor FROM refunds
            WHERE refunds.account_id = orders.account_id AND refunds.order_id = orders.id
              AND refunds.charge_id = charges.id AND purpose <> 'surplus'
              AND state IN ('approval', 'due', 'pending', 'succeeded')) AS refunded
        WHERE charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus AND charges.check_at IS NULL
          AND orders.status IN ('cancelled', 'failed')
          -- Up to what a card cannot be refunded: see platform/values/amounts.py.
          AND refunded.amount_minor < paid.amount_minor
              - CASE WHEN charges.currency IN ('BHD', 'IQD', 'JOD', 'KWD', 'LYD', 'OMR', 'TND') THEN 9
                     WHEN charges.currency = 'MGA' THEN 99 ELSE 0 END
          AND NOT EXISTS (SELECT FROM disputes WHERE disputes.charge_id = charges.id AND disputes.withdrawn_minor > 0)
           OR refunded.amount_minor > paid.amount_minor
        """,
    ),
)
