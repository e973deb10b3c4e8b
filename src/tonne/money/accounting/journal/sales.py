"""What selling books: invoices, credit notes, and the end of orders."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To

INVOICED = JournalSource(
    "invoiced",
    "Invoice issued",
    f"""
    SELECT invoice.mode, invoice.created_at AS at, invoice.id AS source_id, invoice.reference AS subject,
           invoice.organisation_id, invoice.currency, posting.account, posting.amount_minor
    FROM invoices invoice
    CROSS JOIN LATERAL (
        SELECT sum(billed.offset_minor + billed.fee_minor)::bigint AS net_minor FROM invoice_orders billed
        WHERE billed.invoice_id = invoice.id
    ) AS orders
    CROSS JOIN LATERAL (VALUES
        ('{To.RECEIVABLES}', invoice.total_minor),
        ('{To.DEFERRED}', -orders.net_minor),
        ('{To.TAX}', -coalesce(invoice.tax_minor, 0))
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
CREDITED = JournalSource(
    "credited",
    "Credit note issued",
    f"""
    SELECT note.mode, note.created_at AS at, note.id AS source_id, note.reference AS subject, note.organisation_id,
           note.currency, posting.account, posting.amount_minor
    FROM credit_notes note
    CROSS JOIN LATERAL (
        SELECT sum(credited.offset_minor + credited.fee_minor)::bigint AS net_minor FROM credit_note_orders credited
        WHERE credited.credit_note_id = note.id
    ) AS orders
    CROSS JOIN LATERAL (VALUES
        ('{To.REFUNDS}', orders.net_minor),
        ('{To.TAX}', coalesce(note.tax_minor, 0)),
        (CASE WHEN note.recovers THEN '{To.BAD_DEBTS}' ELSE '{To.RECEIVABLES}' END, -note.total_minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
COMPLETED = JournalSource(
    "completed",
    "Order complete",
    f"""
    SELECT orders.mode, orders.status_changed_at AS at, orders.id AS source_id, orders.id AS subject,
           orders.organisation_id, orders.currency, posting.account, posting.amount_minor
    FROM orders
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', orders.total_cost_minor),
        ('{To.OFFSETS}', -orders.offset_cost_minor),
        ('{To.FEES}', -orders.commission_minor)
    ) AS posting (account, amount_minor)
    WHERE orders.status = 'complete'
    """,  # noqa: S608 - made of our own constants
)
# An order that was billed or paid, and is not delivered: its deferred revenue covers the credit note or the refund.
CANCELLED = JournalSource(
    "cancelled",
    "Order cancelled",
    f"""
    SELECT orders.mode, orders.status_changed_at AS at, orders.id AS source_id, orders.id AS subject,
           orders.organisation_id, orders.currency, posting.account, posting.amount_minor
    FROM orders
    CROSS JOIN LATERAL (
        SELECT coalesce((SELECT sum(billed.offset_minor + billed.fee_minor) FROM invoice_orders billed
                         WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id), 0)
             + CASE WHEN EXISTS (SELECT FROM charges charge
                                 WHERE charge.account_id = orders.account_id AND charge.order_id = orders.id
                                   AND charge.status IN ('captured', 'refunded') AND NOT charge.is_surplus)
                    THEN orders.total_cost_minor ELSE 0 END AS net_minor
    ) AS deferred
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', deferred.net_minor::bigint),
        ('{To.REFUNDS}', -deferred.net_minor::bigint)
    ) AS posting (account, amount_minor)
    WHERE orders.status IN ('cancelled', 'failed')
    """,  # noqa: S608 - made of our own constants
)
SALES = (INVOICED, CREDITED, COMPLETED, CANCELLED)
