"""What selling books: invoices, credit notes, and the end of orders."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To

# A document is booked in the month of its date of issue, which may be a day after it was stored.
_BOOKED = "greatest(document.created_at, document.issued_on::timestamp AT TIME ZONE 'UTC')"
# By code, and what is not known by code.
_TAXES = f"""(
    SELECT '{To.TAX}:' || line.key AS account, line.value::bigint AS minor
    FROM jsonb_each_text(document.tax_lines) AS line (key, value)
    UNION ALL
    SELECT '{To.TAX}', coalesce(document.tax_minor, 0) - coalesce(sum(line.value::bigint), 0)::bigint
    FROM jsonb_each_text(document.tax_lines) AS line (key, value)
)"""  # noqa: S608 - made of our own constants
# An invoice that takes back a credit note is the opposite of it.
INVOICED = JournalSource(
    "invoiced",
    "Invoice issued",
    f"""
    SELECT document.mode, {_BOOKED} AS at, document.id AS source_id, document.reference AS subject,
           document.organisation_id, document.currency, posting.account, posting.amount_minor
    FROM tax_documents document
    CROSS JOIN LATERAL (
        VALUES ('{To.RECEIVABLES}', document.total_minor),
               (CASE WHEN document.corrects IS NULL THEN '{To.DEFERRED}' ELSE '{To.REFUNDS}' END,
                coalesce(document.tax_minor, 0) - document.total_minor)
        UNION ALL
        SELECT tax.account, -tax.minor FROM {_TAXES} AS tax
    ) AS posting (account, amount_minor)
    WHERE document.kind <> 'credit_note'
    """,  # noqa: S608 - made of our own constants
)
# A payment that was reversed after delivery is a loss already: the credit note only takes the tax off it.
CREDITED = JournalSource(
    "credited",
    "Credit note issued",
    f"""
    SELECT document.mode, {_BOOKED} AS at, document.id AS source_id, document.reference AS subject,
           document.organisation_id, document.currency, posting.account, posting.amount_minor
    FROM tax_documents document
    JOIN credit_notes note ON note.id = document.id
    CROSS JOIN LATERAL (
        VALUES ('{To.REFUNDS}',
                CASE note.cause WHEN 'dispute' THEN 0 ELSE document.total_minor - coalesce(document.tax_minor, 0) END),
               (CASE WHEN note.cause = 'dispute' THEN '{To.DISPUTE_LOSSES}'
                     WHEN note.recovers THEN '{To.BAD_DEBTS}' ELSE '{To.RECEIVABLES}' END,
                CASE note.cause WHEN 'dispute' THEN -coalesce(document.tax_minor, 0) ELSE -document.total_minor END)
        UNION ALL
        SELECT tax.account, tax.minor FROM {_TAXES} AS tax
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
# What billing it together with others took off an order is booked with its completion, or, if that came first, with the
# invoice: see `BILLING_ADJUSTED`.
_BILLED_BEFORE = "coalesce(orders.billed_at <= orders.status_changed_at, true)"
COMPLETED = JournalSource(
    "completed",
    "Order complete",
    f"""
    SELECT orders.mode, orders.status_changed_at AS at, orders.id AS source_id, orders.id AS subject,
           orders.organisation_id, orders.currency, posting.account, posting.amount_minor
    FROM orders
    CROSS JOIN LATERAL (
        SELECT CASE WHEN {_BILLED_BEFORE} THEN orders.billing_adjustment_minor ELSE 0 END AS adjustment_minor
    ) AS billed
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', orders.total_cost_minor + billed.adjustment_minor),
        ('{To.OFFSETS}', -orders.offset_cost_minor),
        ('{To.FEES}', -orders.commission_minor - billed.adjustment_minor)
    ) AS posting (account, amount_minor)
    WHERE orders.status = 'complete'
    """,  # noqa: S608 - made of our own constants
)
BILLING_ADJUSTED = JournalSource(
    "billing_adjusted",
    "Orders that were complete before they were billed together",
    f"""
    SELECT invoice.mode, {_BOOKED} AS at, invoice.id AS source_id, invoice.reference AS subject,
           invoice.organisation_id, invoice.currency, posting.account, posting.amount_minor
    FROM invoices invoice JOIN tax_documents document ON document.id = invoice.id
    CROSS JOIN LATERAL (
        SELECT sum(orders.billing_adjustment_minor)::bigint AS minor
        FROM invoice_orders billed
        JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
        WHERE billed.invoice_id = invoice.id AND orders.status = 'complete' AND NOT {_BILLED_BEFORE}
    ) AS adjusted
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', adjusted.minor),
        ('{To.FEES}', -adjusted.minor)
    ) AS posting (account, amount_minor)
    WHERE invoice.billing <> 'per_order' AND adjusted.minor <> 0
    """,  # noqa: S608 - made of our own constants
)
# With no document: see `_close_or_postpone` of the invoices.
CLOSED_FOR_NOTHING = JournalSource(
    "closed_for_nothing",
    "Complete order that rounds to nothing closed",
    f"""
    SELECT orders.mode, orders.billed_at AS at, orders.id AS source_id, orders.id AS subject,
           orders.organisation_id, orders.currency, posting.account, posting.amount_minor
    FROM orders
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', orders.billing_adjustment_minor),
        ('{To.SMALL_DIFFERENCES}', -orders.billing_adjustment_minor)
    ) AS posting (account, amount_minor)
    WHERE orders.status = 'complete' AND orders.billing_adjustment_minor = -orders.total_cost_minor
      AND NOT {_BILLED_BEFORE}
      AND NOT EXISTS (SELECT FROM invoice_orders billed
                      WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
    """,  # noqa: S608 - made of our own constants
)
# An order that was billed, and is not delivered: its deferred revenue covers the credit note.
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
               - coalesce((SELECT sum(reduction.net_minor) FROM order_reductions reduction
                           WHERE reduction.account_id = orders.account_id AND reduction.order_id = orders.id
                             AND reduction.was_billed), 0) AS net_minor
    ) AS deferred
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', deferred.net_minor::bigint),
        ('{To.REFUNDS}', -deferred.net_minor::bigint)
    ) AS posting (account, amount_minor)
    WHERE orders.status IN ('cancelled', 'failed')
    """,  # noqa: S608 - made of our own constants
)
# A part of an order that was billed is not delivered.
REDUCED = JournalSource(
    "reduced",
    "Order reduced",
    f"""
    SELECT reduction.mode, reduction.created_at AS at, reduction.id AS source_id, reduction.order_id AS subject,
           reduction.organisation_id, orders.currency, posting.account, posting.amount_minor
    FROM order_reductions reduction
    JOIN orders ON orders.account_id = reduction.account_id AND orders.id = reduction.order_id
    CROSS JOIN LATERAL (VALUES
        ('{To.DEFERRED}', reduction.net_minor),
        ('{To.REFUNDS}', -reduction.net_minor)
    ) AS posting (account, amount_minor)
    WHERE reduction.was_billed
    """,  # noqa: S608 - made of our own constants
)
SALES = (INVOICED, CREDITED, COMPLETED, BILLING_ADJUSTED, CLOSED_FOR_NOTHING, CANCELLED, REDUCED)
