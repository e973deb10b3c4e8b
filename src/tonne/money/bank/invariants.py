from tonne.money.bank.transfer_store import DONE_WITH_TRANSFER, REST_OF_TRANSFER, STATE_OF_TRANSFER
from tonne.platform.db.invariant import Invariant

TRANSFER_INVARIANTS = (
    Invariant(
        "no transfer is spent twice",
        "More of a bank transfer was assigned, returned or resolved than arrived.",
        f"""
        SELECT format('transfer %s of %s %s: %s too much was assigned, returned or resolved', transfer.id,
                      transfer.amount_minor, transfer.currency, -{REST_OF_TRANSFER}) AS "where"
        FROM bank_transfers transfer {DONE_WITH_TRANSFER}
        WHERE transfer.amount_minor > 0 AND {REST_OF_TRANSFER} < 0
        UNION ALL
        SELECT format('transfer %s: %s minor units assigned to invoice %s, %s refunded', received.transfer_id,
                      received.minor, received.invoice_id, coalesce(refunded.minor, 0))
        FROM (SELECT each.transfer_id, each.invoice_id, sum(each.amount_minor) AS minor
              FROM transfer_assignments each GROUP BY each.transfer_id, each.invoice_id) AS received
        FULL JOIN (SELECT each.transfer_id, each.invoice_id, sum(each.amount_minor) AS minor
                   FROM transfer_returns each
                   WHERE each.invoice_id IS NOT NULL AND each.status IN ('planned', 'exported', 'returned')
                   GROUP BY each.transfer_id, each.invoice_id) AS refunded
          ON refunded.transfer_id = received.transfer_id AND refunded.invoice_id = received.invoice_id
        WHERE coalesce(received.minor, 0) < coalesce(refunded.minor, 0)
        """,  # noqa: S608 - constants
    ),
    Invariant(
        "transfers have the state that follows from what was done with them",
        "`tonne transfer list` shows a transfer in a wrong state, or hides it.",
        f"""
        SELECT format('transfer %s is %s, expected %s', transfer.id, transfer.state, {STATE_OF_TRANSFER}) AS "where"
        FROM bank_transfers transfer {DONE_WITH_TRANSFER}
        WHERE transfer.state <> {STATE_OF_TRANSFER}
        """,  # noqa: S608 - constants
    ),
    Invariant(
        "bank transfers add up to the invoices they settled",
        "An invoice was settled although its transfers do not cover it, not settled although they do, or has too much.",
        """
        SELECT format('invoice %s is %s: %s of %s minor units received', due.reference, due.status,
                      due.received_minor, due.minor) AS "where"
        FROM (SELECT invoices.reference, invoices.status, invoices.settled_by_hand, invoices.payment_method,
                     invoices.next_attempt_at,
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
        "Money of one currency or mode pays an invoice of another.",
        """
        SELECT format('transfer %s is in %s mode and %s, invoice %s in %s mode and %s', transfer.id, transfer.mode,
                      transfer.currency, invoices.reference, invoices.mode, invoices.currency) AS "where"
        FROM transfer_assignments each
        JOIN bank_transfers transfer ON transfer.id = each.transfer_id
        JOIN invoices ON invoices.id = each.invoice_id
        WHERE (transfer.mode, transfer.currency) IS DISTINCT FROM (invoices.mode, invoices.currency)
        """,
    ),
)
