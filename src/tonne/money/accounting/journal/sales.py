"""What selling books: invoices, credit notes, and the end of orders."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To


def _booked_at(document: str) -> str:
    """A document is booked in the month of its date of issue, which may be a day after it was stored."""
    return f"greatest({document}.created_at, {document}.issued_on::timestamp AT TIME ZONE 'UTC')"


_BOOKED = _booked_at("document")


def taxes_of(document: str) -> str:
    """SQL of the tax by code, and of what is not known by code. The suffix is that of an account."""
    return f"""(
    SELECT line.key AS code, ':' || line.key AS suffix, line.value::bigint AS minor
    FROM jsonb_each_text({document}.tax_lines) AS line
    UNION ALL
    SELECT '', '', coalesce({document}.tax_minor, 0) - coalesce(sum(line.value::bigint), 0)::bigint
    FROM jsonb_each_text({document}.tax_lines) AS line
)"""  # noqa: S608 - made of our own constants


_TAX_ACCOUNT = f"CASE document.tax_point WHEN 'invoice' THEN '{To.TAX}' ELSE '{To.TAX_NOT_DUE}' END || tax.suffix"
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
        SELECT {_TAX_ACCOUNT}, -tax.minor FROM {taxes_of("document")} AS tax
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
        SELECT {_TAX_ACCOUNT}, tax.minor FROM {taxes_of("document")} AS tax
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
# Which part of the tax of an invoice, less its credit notes, is due, and when the last part of it became due: by what
# was paid of it, or by the tax of its orders that are supplied.
_PAID = """(
    SELECT CASE WHEN invoice.status = 'paid' THEN 1
                WHEN invoice.credited_minor = invoice.total_minor THEN 0
                ELSE least(1, coalesce(sum(paid.amount_minor), 0) / (invoice.total_minor - invoice.credited_minor)) END,
           CASE WHEN invoice.settled_by_hand OR count(*) = 0 THEN invoice.settled_at
                ELSE max(paid.day)::timestamp AT TIME ZONE 'UTC' END
    FROM transfer_assignments paid WHERE paid.invoice_id = document.id)"""
_SUPPLIED = """(
    SELECT coalesce(sum(billed.tax_minor - credited.minor) FILTER (WHERE orders.supplied_on IS NOT NULL)
                    / nullif(sum(billed.tax_minor - credited.minor), 0), 0),
           max(orders.supplied_on)::timestamp AT TIME ZONE 'UTC'
    FROM invoice_orders billed
    JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(part.tax_minor), 0) AS minor
        FROM credit_note_orders part JOIN credit_notes note ON note.id = part.credit_note_id
        WHERE part.account_id = billed.account_id AND part.order_id = billed.order_id
          AND note.invoice_id = document.id AND note.taken_back_by IS NULL
    ) AS credited
    WHERE billed.invoice_id = document.id)"""
# The entry is the sum of all that became due so far: each later event adds a version with the difference.
TAX_DUE = JournalSource(
    "tax_due",
    "Tax of an invoice due",
    f"""
    SELECT document.mode, greatest(progress.at, corrected.at) AS at, document.id AS source_id,
           document.reference AS subject, document.organisation_id, document.currency, posting.account,
           posting.amount_minor
    FROM tax_documents document
    JOIN invoices invoice ON invoice.id = document.id
    CROSS JOIN LATERAL (
        SELECT part, at FROM {_PAID} AS paid (part, at) WHERE document.tax_point = 'payment'
        UNION ALL
        SELECT part, at FROM {_SUPPLIED} AS supplied (part, at) WHERE document.tax_point = 'supply'
    ) AS progress
    CROSS JOIN LATERAL (
        SELECT max({_booked_at("correction")}) AS at
        FROM credit_notes note
        JOIN tax_documents correction ON correction.id IN (note.id, note.taken_back_by)
        WHERE note.invoice_id = document.id
    ) AS corrected
    CROSS JOIN LATERAL (
        SELECT tax.suffix, round(sum(tax.minor) * progress.part)::bigint AS minor
        FROM (SELECT suffix, minor FROM {taxes_of("document")} AS own
              UNION ALL
              SELECT credited.suffix, -credited.minor
              FROM credit_notes note JOIN tax_documents correction ON correction.id = note.id
              CROSS JOIN LATERAL {taxes_of("correction")} AS credited
              WHERE note.invoice_id = document.id AND note.taken_back_by IS NULL) AS tax
        GROUP BY tax.suffix
    ) AS due
    CROSS JOIN LATERAL (VALUES
        ('{To.TAX_NOT_DUE}' || due.suffix, due.minor),
        ('{To.TAX}' || due.suffix, -due.minor)
    ) AS posting (account, amount_minor)
    WHERE document.tax_point <> 'invoice'
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
SALES = (INVOICED, CREDITED, TAX_DUE, COMPLETED, BILLING_ADJUSTED, CLOSED_FOR_NOTHING, CANCELLED, REDUCED)
