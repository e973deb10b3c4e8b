"""What card payments book: captures, refunds, disputes and payouts."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To
from tonne.money.cards.gateways.card import MODE_MISMATCH

# A surplus payment pays for nothing: it came too late, a second time or with another amount. If an operator accepts
# another amount than was asked for, the difference is a discount. A payment of the gateway's other mode is no money.
CAPTURED = JournalSource(
    "captured",
    "Card payment captured",
    f"""
    SELECT charge.mode, charge.settled_at AS at, charge.id AS source_id, charge.order_id AS subject,
           charge.organisation_id, charge.captured_currency AS currency, posting.account, posting.amount_minor
    FROM charges charge
    JOIN orders ON orders.account_id = charge.account_id AND orders.id = charge.order_id
    CROSS JOIN LATERAL (
        SELECT NOT charge.is_surplus AND charge.status <> 'mismatched' AND charge.accepted_at IS NULL AS pays
    ) AS order_
    CROSS JOIN LATERAL (VALUES
        ('{To.CARD_CLEARING}', charge.captured_minor),
        ('{To.UNALLOCATED}', CASE WHEN pays THEN 0 ELSE -charge.captured_minor END),
        ('{To.DEFERRED}', CASE WHEN pays THEN -orders.total_cost_minor ELSE 0 END),
        ('{To.TAX}', CASE WHEN pays THEN -orders.tax_minor ELSE 0 END)
    ) AS posting (account, amount_minor)
    WHERE charge.captured_minor IS NOT NULL AND charge.code IS DISTINCT FROM '{MODE_MISMATCH}'
    """,  # noqa: S608 - made of our own constants
)
# The receivable is what the invoice was settled with. More was captured if an order was cancelled meanwhile.
CAPTURED_FOR_INVOICE = JournalSource(
    "captured_for_invoice",
    "Card payment of an invoice captured",
    f"""
    SELECT charge.mode, charge.settled_at AS at, charge.id AS source_id, invoice.reference AS subject,
           charge.organisation_id, charge.captured_currency AS currency, posting.account, posting.amount_minor
    FROM charges charge
    JOIN invoices invoice ON invoice.id = charge.invoice_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN charge.is_surplus OR charge.status = 'mismatched' THEN 0 ELSE invoice.settled_minor END
                   AS paid_minor
    ) AS money
    CROSS JOIN LATERAL (VALUES
        ('{To.CARD_CLEARING}', charge.captured_minor),
        ('{To.RECEIVABLES}', -money.paid_minor),
        ('{To.UNALLOCATED}', money.paid_minor - charge.captured_minor)
    ) AS posting (account, amount_minor)
    WHERE charge.captured_minor IS NOT NULL AND charge.code IS DISTINCT FROM '{MODE_MISMATCH}'
    """,  # noqa: S608 - made of our own constants
)
ACCEPTED = JournalSource(
    "accepted",
    "Card payment with another amount accepted",
    f"""
    SELECT charge.mode, charge.accepted_at AS at, charge.id AS source_id, charge.order_id AS subject,
           charge.organisation_id, charge.captured_currency AS currency, posting.account, posting.amount_minor
    FROM charges charge
    JOIN orders ON orders.account_id = charge.account_id AND orders.id = charge.order_id
    CROSS JOIN LATERAL (VALUES
        ('{To.UNALLOCATED}', charge.captured_minor),
        ('{To.DEFERRED}', -orders.total_cost_minor),
        ('{To.TAX}', -orders.tax_minor),
        ('{To.REFUNDS}', charge.amount_minor - charge.captured_minor)
    ) AS posting (account, amount_minor)
    WHERE charge.accepted_at IS NOT NULL
    """,  # noqa: S608 - made of our own constants
)


# The tax on several refunds of an order is rounded on their running sum, so that a full refund returns all of it. A
# refund that fails after it succeeded is taken off that sum. What arrived above the amount of the order has no tax. The
# gateway has not made a refund without its reference: somebody sent the money by other means. Of an order on an
# invoice, the credit note books revenue and tax.
def _refund_sql(condition: str) -> str:
    return f"""
    SELECT refund.mode, refund.at, refund.id AS source_id, refund.order_id AS subject,
           refund.organisation_id, refund.currency, posting.account, posting.amount_minor
    FROM (
        SELECT paid.mode, paid.at, paid.id, paid.order_id, paid.organisation_id, paid.currency, paid.amount_minor,
               paid.is_surplus, paid.is_by_hand, paid.is_billed,
               round(least(paid.refunded_minor, paid.due_minor) * paid.tax_share)
                   - round(least(paid.refunded_minor - paid.taxed_minor, paid.due_minor) * paid.tax_share)
                   AS tax_minor
        FROM (
            SELECT refunds.mode, event.at, refunds.id, refunds.order_id, refunds.organisation_id, refunds.currency,
                   event.amount_minor, event.taxed_minor, charge.amount_minor AS due_minor,
                   charge.is_surplus OR charge.invoice_id IS NOT NULL AND refunds.purpose = 'surplus' AS is_surplus,
                   charge.invoice_id IS NOT NULL AS is_billed,
                   refunds.reference IS NULL AND starts_with(refunds.id, 'rfd_') AS is_by_hand,
                   sum(event.taxed_minor) OVER (
                       PARTITION BY refunds.charge_id ORDER BY event.at, refunds.id, event.amount_minor DESC
                   ) AS refunded_minor,
                   CASE WHEN charge.is_surplus OR charge.invoice_id IS NOT NULL THEN 0
                        ELSE orders.tax_minor::numeric / charge.amount_minor END AS tax_share
            FROM refunds
            JOIN charges charge ON charge.account_id = refunds.account_id AND charge.id = refunds.charge_id
            JOIN orders ON orders.account_id = refunds.account_id AND orders.id = refunds.order_id
            CROSS JOIN LATERAL (
                SELECT moved.at, moved.amount_minor,
                       CASE WHEN refunds.purpose = 'surplus' THEN 0 ELSE moved.amount_minor END AS taxed_minor
                FROM (VALUES (refunds.succeeded_at, refunds.amount_minor),
                             (CASE WHEN refunds.state = 'failed' THEN refunds.settled_at END, -refunds.amount_minor)
                ) AS moved (at, amount_minor)
            ) AS event
            WHERE refunds.succeeded_at IS NOT NULL AND event.at IS NOT NULL AND refunds.method = 'card'
        ) AS paid
    ) AS refund
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN refund.is_by_hand THEN '{To.SETTLED_BY_HAND}' ELSE '{To.CARD_CLEARING}' END, -refund.amount_minor),
        ('{To.UNALLOCATED}', CASE WHEN refund.is_surplus THEN refund.amount_minor ELSE 0 END),
        ('{To.RECEIVABLES}', CASE WHEN refund.is_billed AND NOT refund.is_surplus THEN refund.amount_minor ELSE 0 END),
        ('{To.REFUNDS}', CASE WHEN refund.is_surplus OR refund.is_billed THEN 0
                              ELSE refund.amount_minor - refund.tax_minor::bigint END),
        ('{To.TAX}', refund.tax_minor::bigint)
    ) AS posting (account, amount_minor)
    WHERE {condition}
    """  # noqa: S608 - made of our own constants


REFUNDED = JournalSource("refunded", "Card payment refunded", _refund_sql("refund.amount_minor > 0"))
REFUND_FAILED = JournalSource(
    "refund_failed", "Refund failed after it had succeeded", _refund_sql("refund.amount_minor < 0")
)
PAID_OUT = JournalSource(
    "paid_out",
    "Payout of the card gateway",
    f"""
    SELECT payout.mode, payout.paid_on::timestamp AT TIME ZONE 'UTC' AS at, payout.id AS source_id,
           payout.payout_id AS subject, NULL AS organisation_id, payout.currency, posting.account, posting.amount_minor
    FROM gateway_payouts payout
    CROSS JOIN LATERAL (VALUES
        ('{To.PAYOUTS}', payout.amount_minor),
        ('{To.GATEWAY_FEES}', payout.fee_minor),
        ('{To.CARD_CLEARING}', -payout.amount_minor - payout.fee_minor)
    ) AS posting (account, amount_minor)
    """,  # noqa: S608 - made of our own constants
)
WITHDRAWN = JournalSource(
    "withdrawn",
    "Payment withdrawn because of a dispute",
    f"""
    SELECT dispute.mode, dispute.taken_at AS at, dispute.id AS source_id,
           coalesce(dispute.order_id, dispute.charge_id) AS subject,
           dispute.organisation_id, dispute.currency, posting.account, posting.amount_minor
    FROM disputes dispute
    CROSS JOIN LATERAL (VALUES
        ('{To.DISPUTED}', dispute.taken_minor),
        ('{To.CARD_CLEARING}', -dispute.taken_minor)
    ) AS posting (account, amount_minor)
    WHERE dispute.taken_at IS NOT NULL
    """,  # noqa: S608 - made of our own constants
)
# A surplus payment was no revenue: losing it is no loss, as far as it was not refunded as well.
DISPUTE_CLOSED = JournalSource(
    "dispute_closed",
    "Dispute closed",
    f"""
    SELECT dispute.mode, dispute.closed_at AS at, dispute.id AS source_id,
           coalesce(dispute.order_id, dispute.charge_id) AS subject,
           dispute.organisation_id, dispute.currency, posting.account, posting.amount_minor
    FROM disputes dispute
    JOIN charges charge ON charge.account_id = dispute.account_id AND charge.id = dispute.charge_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN dispute.state = 'lost' AND charge.is_surplus
                    THEN least(dispute.taken_minor, greatest(0, charge.captured_minor - coalesce(sum(amount_minor), 0)))
                    ELSE 0 END::bigint AS surplus_minor
        FROM refunds
        WHERE refunds.account_id = charge.account_id AND refunds.charge_id = charge.id
          AND refunds.succeeded_at <= dispute.closed_at
    ) AS money
    CROSS JOIN LATERAL (VALUES
        (CASE dispute.state WHEN 'won' THEN '{To.CARD_CLEARING}' ELSE '{To.DISPUTE_LOSSES}' END,
         dispute.taken_minor - money.surplus_minor),
        ('{To.UNALLOCATED}', money.surplus_minor),
        ('{To.DISPUTED}', -dispute.taken_minor)
    ) AS posting (account, amount_minor)
    WHERE dispute.state <> 'opened'
    """,  # noqa: S608 - made of our own constants
)
_CAPTURES = (CAPTURED, CAPTURED_FOR_INVOICE, ACCEPTED)
CARD_PAYMENTS = (*_CAPTURES, REFUNDED, REFUND_FAILED, WITHDRAWN, DISPUTE_CLOSED, PAID_OUT)
