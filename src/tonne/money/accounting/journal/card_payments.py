"""What card payments book: captures, refunds, disputes and payouts."""

from tonne.money.accounting.journal.model import JournalSource
from tonne.money.accounting.journal.model import LedgerAccount as To
from tonne.money.cards.gateways.card import MODE_MISMATCH

# Money that pays for an order settles a receivable, and the document of the order makes it: tax is booked by documents
# only. A surplus payment pays for nothing: it came too late, a second time or with another amount. A payment of the
# gateway's other mode is no money.
CAPTURED = JournalSource(
    "captured",
    "Card payment captured",
    f"""
    SELECT charge.mode, charge.settled_at AS at, charge.id AS source_id, charge.order_id AS subject,
           charge.organisation_id, charge.captured_currency AS currency, posting.account, posting.amount_minor
    FROM charges charge
    CROSS JOIN LATERAL (VALUES
        ('{To.CARD_CLEARING}', charge.captured_minor),
        (CASE WHEN charge.is_surplus OR charge.status = 'mismatched' OR charge.accepted_at IS NOT NULL
              THEN '{To.UNALLOCATED}' ELSE '{To.RECEIVABLES}' END, -charge.captured_minor)
    ) AS posting (account, amount_minor)
    WHERE charge.order_id IS NOT NULL AND charge.captured_minor IS NOT NULL
      AND charge.code IS DISTINCT FROM '{MODE_MISMATCH}'
    """,  # noqa: S608 - made of our own constants
)
# The receivable is what the invoices were settled with. More was captured if an order was cancelled meanwhile.
CAPTURED_FOR_INVOICE = JournalSource(
    "captured_for_invoice",
    "Card payment of an invoice captured",
    f"""
    SELECT charge.mode, charge.settled_at AS at, charge.id AS source_id, invoice.reference AS subject,
           charge.organisation_id, charge.captured_currency AS currency, posting.account, posting.amount_minor
    FROM charges charge
    JOIN invoices invoice ON invoice.id = charge.invoice_id
    CROSS JOIN LATERAL (
        SELECT CASE WHEN charge.is_surplus OR charge.status = 'mismatched' THEN 0
                    ELSE coalesce(sum(paid.settled_minor), 0)::bigint END AS paid_minor
        FROM charge_invoices document JOIN invoices paid ON paid.id = document.invoice_id
        WHERE document.account_id = charge.account_id AND document.charge_id = charge.id
    ) AS money
    CROSS JOIN LATERAL (VALUES
        ('{To.CARD_CLEARING}', charge.captured_minor),
        ('{To.RECEIVABLES}', -money.paid_minor),
        ('{To.UNALLOCATED}', money.paid_minor - charge.captured_minor)
    ) AS posting (account, amount_minor)
    WHERE charge.captured_minor IS NOT NULL AND charge.code IS DISTINCT FROM '{MODE_MISMATCH}'
    """,  # noqa: S608 - made of our own constants
)
# What arrived above the amount of the order goes back. What is missing is a discount, which a credit note corrects.
ACCEPTED = JournalSource(
    "accepted",
    "Card payment with another amount accepted",
    f"""
    SELECT charge.mode, charge.accepted_at AS at, charge.id AS source_id, charge.order_id AS subject,
           charge.organisation_id, charge.captured_currency AS currency, posting.account, posting.amount_minor
    FROM charges charge
    CROSS JOIN LATERAL (VALUES
        ('{To.UNALLOCATED}', least(charge.captured_minor, charge.amount_minor)),
        ('{To.RECEIVABLES}', -least(charge.captured_minor, charge.amount_minor))
    ) AS posting (account, amount_minor)
    WHERE charge.accepted_at IS NOT NULL
    """,  # noqa: S608 - made of our own constants
)


# Refunds move money only: the credit note books revenue and tax. The gateway has not made a refund without its
# reference: somebody sent the money by other means.
def _refund_sql(at: str, sign: str) -> str:
    return f"""
    SELECT refund.mode, {at} AS at, refund.id AS source_id, refund.order_id AS subject,
           refund.organisation_id, refund.currency, posting.account, posting.amount_minor
    FROM refunds refund
    JOIN charges charge ON charge.account_id = refund.account_id AND charge.id = refund.charge_id
    CROSS JOIN LATERAL (VALUES
        (CASE WHEN refund.reference IS NULL AND starts_with(refund.id, 'rfd_') THEN '{To.SETTLED_BY_HAND}'
              ELSE '{To.CARD_CLEARING}' END, {sign} -refund.amount_minor),
        (CASE WHEN charge.is_surplus OR refund.purpose = 'surplus' THEN '{To.UNALLOCATED}' ELSE '{To.RECEIVABLES}' END,
         {sign} refund.amount_minor)
    ) AS posting (account, amount_minor)
    WHERE refund.succeeded_at IS NOT NULL AND {at} IS NOT NULL AND refund.method = 'card'
    """  # noqa: S608 - made of our own constants


REFUNDED = JournalSource("refunded", "Card payment refunded", _refund_sql("refund.succeeded_at", "1 *"))
REFUND_FAILED = JournalSource(
    "refund_failed",
    "Refund failed after it had succeeded",
    _refund_sql("CASE WHEN refund.state = 'failed' THEN refund.settled_at END", "-1 *"),
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
# What a surplus payment loses was no revenue, and orders that are not delivered were credited: both take the place of
# refunds, as far as these were not made as well. The rest is a loss.
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
        SELECT coalesce(sum(refunds.amount_minor), 0) AS minor FROM refunds
        WHERE refunds.account_id = charge.account_id AND refunds.charge_id = charge.id
          AND refunds.succeeded_at <= dispute.closed_at
    ) AS refunded
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(paid.amount_minor), 0)
               - coalesce(sum((SELECT sum(refunds.amount_minor) FROM refunds
                               WHERE refunds.account_id = paid.account_id AND refunds.charge_id = charge.id
                                 AND refunds.order_id = paid.order_id AND refunds.purpose <> 'surplus'
                                 AND refunds.succeeded_at <= dispute.closed_at)), 0) AS minor
        FROM charge_orders paid
        JOIN orders ON orders.account_id = paid.account_id AND orders.id = paid.order_id
        WHERE paid.account_id = charge.account_id AND paid.charge_id = charge.id
          AND orders.status IN ('cancelled', 'failed')
    ) AS ended
    CROSS JOIN LATERAL (
        SELECT CASE WHEN dispute.state = 'lost'
                    THEN least(dispute.taken_minor, greatest(0, CASE WHEN charge.is_surplus
                               THEN charge.captured_minor - refunded.minor ELSE ended.minor END))
                    ELSE 0 END::bigint AS returned_minor
    ) AS money
    CROSS JOIN LATERAL (VALUES
        (CASE dispute.state WHEN 'won' THEN '{To.CARD_CLEARING}' ELSE '{To.DISPUTE_LOSSES}' END,
         dispute.taken_minor - money.returned_minor),
        (CASE WHEN charge.is_surplus THEN '{To.UNALLOCATED}' ELSE '{To.RECEIVABLES}' END, money.returned_minor),
        ('{To.DISPUTED}', -dispute.taken_minor)
    ) AS posting (account, amount_minor)
    WHERE dispute.state <> 'opened'
    """,  # noqa: S608 - made of our own constants
)
_CAPTURES = (CAPTURED, CAPTURED_FOR_INVOICE, ACCEPTED)
CARD_PAYMENTS = (*_CAPTURES, REFUNDED, REFUND_FAILED, WITHDRAWN, DISPUTE_CLOSED, PAID_OUT)
