"""What selling books: invoices, credit notes, and the end of orders."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To

# A document is booked in the month of its date of issue, which may be a day after it was stored.
_BOOKED = "greatest(document.created_at, document.issued_on::timestamp AT TIME ZONE 'UTC')"
INVOICED = JournalSource(
    "invoiced",
    "Invoice issued",
    f"""
    SELECT document.mode, {_BOOKED} AS at, document.id AS source_id, document.reference AS subject,
           document.organisation_id, document.currency, posting.account, posting.amount_minor
    FROM tax_documents document
    CROSS JOIN LATERAL (VALUES
        ('{To.RECEIVABLES}', document.total_minor),
        ('{To.DEFERRED}', coalesce(document.tax_minor, 0) - document.total_minor),
        ('{To.TAX}', -coalesce(document.tax_minor, 0))
    ) AS posting (account, amount_minor)
    WHERE document.kind <> 'credit_note'
    """,  # noqa: S608 - made of our own constants
)
CREDITED = JournalSource(
    "credited",
    "Credit note issued",
    f"""
    SELECT document.mode, {_BOOKED} AS at, document.id AS source_id, document.reference AS subject,
           document.organisation_id, document.currency, posting.account, posting.amount_minor
    FROM tax_documents document
    JOIN credit_notes note ON note.id = document.id
    CROSS JOIN LATERAL (VALUES
        ('{To.REFUNDS}', document.total_minor - coalesce(document.tax_minor, 0)),
        ('{To.TAX}', coalesce(document.tax_minor, 0)),
        (CASE WHEN note.recovers THEN '{To.BAD_DEBTS}' ELSE '{To.RECEIVABLES}' END, -document.total_minor)
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
