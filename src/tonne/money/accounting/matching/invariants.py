from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "bank transfers add up to the invoices they settled",
        "An invoice was settled although its transfers do not cover it, not settled although they do, or has too much.",
        """
        SELECT format('invoice %s is %s: %s of %s received', due.reference, due.status,
                      money_text(due.received_minor, due.currency),
                      money_text(due.minor, due.currency)) AS "where"
        FROM (SELECT invoices.reference, invoices.status, invoices.settled_by_hand, invoices.payment_method,
                     invoices.next_attempt_at, invoices.currency,
                     coalesce(invoices.settled_minor, invoices.total_minor - invoices.credited_minor) AS minor,
                     coalesce(sum(each.amount_minor), 0) AS received_minor
              FROM invoices LEFT JOIN transfer_assignments each ON each.invoice_id = invoices.id
              GROUP BY invoices.id) AS due
        WHERE (due.status = 'paid' AND due.payment_method = 'invoice' AND NOT due.settled_by_hand
               AND due.received_minor < due.minor)
           OR (due.status = 'open' AND due.received_minor >= due.minor
               AND (due.next_attempt_at IS NULL OR due.next_attempt_at > now()))
           OR (due.status = 'open' AND due.received_minor > due.minor)
           OR (due.status = 'cancelled' AND due.received_minor <> 0)
           OR due.received_minor < 0
        """,
    ),
    Invariant(
        "transfers are assigned to invoices of their mode and currency",
        "Money of one currency or mode pays an invoice of another, or an assignment has wrong facts of its invoice.",
        """
        SELECT format('transfer %s is in %s mode and %s, invoice %s in %s mode and %s', transfer.id, transfer.mode,
                      transfer.currency, invoices.reference, invoices.mode, invoices.currency) AS "where"
        FROM transfer_assignments each
        JOIN bank_transfers transfer ON transfer.id = each.transfer_id
        JOIN invoices ON invoices.id = each.invoice_id
        WHERE (transfer.mode, transfer.currency) IS DISTINCT FROM (invoices.mode, invoices.currency)
           OR (each.invoice_reference, each.organisation_id, each.mode, each.currency, each.invoice_paid)
              IS DISTINCT FROM (invoices.reference, invoices.organisation_id, invoices.mode, invoices.currency,
                                invoices.status = 'paid')
        """,
    ),
)
