"""What bank transfers book: receipts, what they pay, and returns."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To

RECEIVED = JournalSource(
    "received",
    "Transfer booked by the bank",
    f"""
    SELECT transfer.mode, transfer.booked_on::timestamp AT TIME ZONE 'UTC' AS at, transfer.id AS source_id,
           transfer.id AS subject, NULL AS organisation_id, transfer.currency, posting.account, posting.amount_minor
    FROM bank_transfers transfer
    CROSS JOIN LATERAL (VALUES
        ('{To.BANK}', transfer.amount_minor),
        ('{To.UNALLOCATED}', -transfer.amount_minor)
    ) AS posting (account, amount_minor)
    WHERE transfer.amount_minor > 0
    """,  # noqa: S608 - made of our own constants
)
# A transfer that arrives after its invoice was settled by hand explains that settlement.
ASSIGNED = JournalSource(
    "assigned",
    "Transfer assigned to an invoice",
    f"""
    SELECT invoice.mode, assignment.created_at AS at, assignment.id AS source_id, invoice.reference AS subject,
           invoice.organisation_id, invoice.currency, posting.account, posting.amount_minor
    FROM transfer_assignments assignment
    JOIN invoices invoice ON invoice.id = assignment.invoice_id
    CROSS JOIN LATERAL (VALUES
        ('{To.UNALLOCATED}', assignment.amount_minor),
        (CASE WHEN invoice.settled_by_hand AND assignment.created_at > invoice.settled_at THEN '{To.SETTLED_BY_HAND}'
              WHEN assignment.recovers THEN '{To.BAD_DEBTS}' ELSE '{To.RECEIVABLES}' END, -assignment.amount_minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
SETTLED = JournalSource(
    "settled",
    "Invoice settled by hand",
    f"""
    SELECT invoice.mode, invoice.settled_at AS at, invoice.id AS source_id, invoice.reference AS subject,
           invoice.organisation_id, invoice.currency, posting.account, posting.amount_minor
    FROM invoices invoice
    CROSS JOIN LATERAL (
        SELECT invoice.settled_minor - coalesce(sum(assignment.amount_minor), 0)::bigint AS rest_minor
        FROM transfer_assignments assignment
        WHERE assignment.invoice_id = invoice.id AND assignment.created_at <= invoice.settled_at
    ) AS missing
    CROSS JOIN LATERAL (VALUES
        ('{To.SETTLED_BY_HAND}', missing.rest_minor),
        (CASE WHEN invoice.written_off_at IS NULL THEN '{To.RECEIVABLES}' ELSE '{To.BAD_DEBTS}' END,
         -missing.rest_minor)
    ) AS posting (account, amount_minor)
    WHERE invoice.settled_by_hand
    """,  # noqa: S608 - made of our own constants
)

# What never arrives of such a settlement.
DIFFERENCE = JournalSource(
    "difference",
    "Difference of a settled invoice",
    f"""
    SELECT invoice.mode, difference.created_at AS at, difference.id AS source_id, invoice.reference AS subject,
           invoice.organisation_id, invoice.currency, posting.account, posting.amount_minor
    FROM invoice_differences difference
    JOIN invoices invoice ON invoice.id = difference.invoice_id
    CROSS JOIN LATERAL (VALUES
        (CASE difference.kind WHEN 'bank_fees' THEN '{To.BANK_FEES}' ELSE '{To.SMALL_DIFFERENCES}' END,
         difference.amount_minor),
        ('{To.SETTLED_BY_HAND}', -difference.amount_minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)


# Money that came back has been booked with the transfer that brought it: that is resolved at the same moment.
def _return_sql(at: str, amount_minor: str) -> str:
    return f"""
    SELECT transfer.mode, {at} AS at, back.id AS source_id, coalesce(invoice.reference, transfer.id) AS subject,
           invoice.organisation_id, transfer.currency, posting.account, posting.amount_minor
    FROM transfer_returns back
    JOIN bank_transfers transfer ON transfer.id = back.transfer_id
    LEFT JOIN invoices invoice ON invoice.id = back.invoice_id
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN back.invoice_id IS NULL THEN '{To.UNALLOCATED}' ELSE '{To.RECEIVABLES}' END, {amount_minor}),
        (CASE WHEN {amount_minor} < 0 AND back.incoming_id IS NOT NULL THEN '{To.RESOLVED_BY_HAND}'
              ELSE '{To.BANK}' END, -({amount_minor}))
    ) AS posting (account, amount_minor)
    WHERE back.returned_at IS NOT NULL AND {at} IS NOT NULL
    """  # noqa: S608 - made of our own constants


RETURNED = JournalSource("returned", "Transfer returned", _return_sql("back.returned_at", "back.amount_minor"))
# A payment that came back, or was recorded by mistake.
RETURN_FAILED = JournalSource(
    "return_failed",
    "Return not paid after all",
    _return_sql("CASE WHEN back.status = 'failed' THEN back.closed_at END", "-back.amount_minor"),
)
# Dealt with outside of Tonne, or a payout of the card gateway. A payment that was reversed leaves the bank only here:
# outgoing lines are not booked otherwise.
RESOLVED = JournalSource(
    "resolved",
    "Transfer resolved by hand",
    f"""
    SELECT transfer.mode, resolution.created_at AS at, resolution.id AS source_id, transfer.id AS subject,
           NULL AS organisation_id, transfer.currency, posting.account, posting.amount_minor
    FROM transfer_resolutions resolution
    JOIN bank_transfers transfer ON transfer.id = resolution.transfer_id
    CROSS JOIN LATERAL (
        SELECT sign(transfer.amount_minor)::bigint * resolution.amount_minor AS minor,
               CASE WHEN transfer.amount_minor > 0 THEN '{To.UNALLOCATED}' ELSE '{To.BANK}' END AS account
    ) AS resolved
    CROSS JOIN LATERAL (VALUES
        (resolved.account, resolved.minor),
        (CASE WHEN resolution.is_payout THEN '{To.PAYOUTS}' ELSE '{To.RESOLVED_BY_HAND}' END, -resolved.minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
# A refund without returns of transfers: sent by other means, as the payment was.
REFUNDED_BY_HAND = JournalSource(
    "refunded_by_hand",
    "Refund by bank settled by hand",
    f"""
    SELECT refund.mode, refund.succeeded_at AS at, refund.id AS source_id, refund.order_id AS subject,
           refund.organisation_id, refund.currency, posting.account, posting.amount_minor
    FROM refunds refund
    CROSS JOIN LATERAL (VALUES
        ('{To.RECEIVABLES}', refund.amount_minor),
        ('{To.SETTLED_BY_HAND}', -refund.amount_minor)
    ) AS posting (account, amount_minor)
    WHERE refund.method = 'bank' AND refund.succeeded_at IS NOT NULL AND refund.return_ids = '{{}}'
    """,  # noqa: S608 - made of our own constants
)
BANK_MONEY = (RECEIVED, ASSIGNED, SETTLED, DIFFERENCE, RETURNED, RETURN_FAILED, RESOLVED, REFUNDED_BY_HAND)
