"""What must hold of refunds and disputes, and of what two people approve together."""

from tonne.platform.db.invariant import Invariant
from tonne.selling.orders.window_store import REDUCED

INVARIANTS = (
    Invariant(
        "what was approved has an approval",
        "A refund or a write-off counts as approved by a user who did not approve it. The audit log shows who changed "
        "it, unless somebody wrote to the database.",
        """
        SELECT format('%s %s: %s', approved.kind, approved.id, approved.approved_by) AS "where"
        FROM (SELECT 'refund' AS kind, id, approved_by FROM refunds WHERE approved_by IS NOT NULL AND repeats IS NULL
              UNION ALL
              SELECT 'write_off', id, approved_by FROM write_offs WHERE approved_by IS NOT NULL) approved
        WHERE NOT EXISTS (SELECT FROM approvals
                          WHERE approvals.kind = approved.kind AND approvals.subject_id = approved.id
                            AND approvals.approved_by = approved.approved_by)
        """,
    ),
    Invariant(
        "no more is refunded than was captured",
        "The refunds of a charge exceed what was captured; or one is to be sent although disputes took the money back.",
        """
        SELECT format('charge %s of %s: %s captured, %s refunded, %s disputed', charges.id,
                      coalesce(charges.order_id, charges.invoice_id),
                      money_text(coalesce(charges.captured_minor, 0), charges.currency),
                      money_text(refunded.amount_minor, charges.currency),
                      money_text(disputed.amount_minor, charges.currency)) AS "where"
        FROM charges
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_minor), 0) AS amount_minor,
                   coalesce(bool_or(state IN ('approval', 'due')), false) AS is_to_be_sent
            FROM refunds
            WHERE refunds.account_id = charges.account_id AND refunds.charge_id = charges.id
              AND state IN ('approval', 'due', 'pending', 'succeeded')) refunded
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(withdrawn_minor), 0) AS amount_minor FROM disputes
            WHERE disputes.account_id = charges.account_id AND disputes.charge_id = charges.id) disputed
        WHERE refunded.amount_minor + CASE WHEN refunded.is_to_be_sent THEN disputed.amount_minor ELSE 0 END
              > coalesce(charges.captured_minor, 0)
        """,
    ),
    Invariant(
        "an order's refunds by bank do not exceed what was paid",
        "More is being returned by bank transfer than was paid for the order.",
        f"""
        SELECT format('order %s of account %s: %s paid, %s refunded', orders.id, orders.account_id,
                      money_text(paid.amount_minor, orders.currency),
                      money_text(refunded.amount_minor, orders.currency)) AS "where"
        FROM orders JOIN (
            SELECT account_id, order_id, sum(amount_minor) AS amount_minor FROM refunds
            WHERE method = 'bank' AND state IN ('approval', 'due', 'pending', 'succeeded')
            GROUP BY account_id, order_id) refunded
          ON refunded.account_id = orders.account_id AND refunded.order_id = orders.id
        LEFT JOIN {REDUCED} reduced ON reduced.account_id = orders.account_id AND reduced.order_id = orders.id
        CROSS JOIN LATERAL (
            SELECT orders.total_cost_minor + orders.billing_adjustment_minor + coalesce(orders.tax_minor, 0)
                       + coalesce(reduced.paid_minor, 0) - coalesce(sum(credited.total_minor), 0) AS amount_minor
            FROM credit_note_orders credited JOIN credit_notes note ON note.id = credited.credit_note_id
            WHERE credited.account_id = orders.account_id AND credited.order_id = orders.id
              AND note.cause = 'correction') paid
        WHERE refunded.amount_minor > paid.amount_minor
        """,  # noqa: S608 - a constant
    ),
    Invariant(
        "an order's refunded amount is the sum of its refunds",
        "The refunded amount that clients see differs from the refunds that succeeded.",
        """
        SELECT format('order %s of account %s: %s shown, %s refunded', orders.id, orders.account_id,
                      money_text(orders.refunded_minor, orders.currency),
                      money_text(coalesce(refunded.amount_minor, 0), orders.currency)) AS "where"
        FROM orders LEFT JOIN (
            SELECT account_id, order_id, sum(amount_minor) AS amount_minor FROM refunds
            WHERE state = 'succeeded' AND purpose NOT IN ('surplus', 'reduction')
            GROUP BY account_id, order_id) refunded
          ON refunded.account_id = orders.account_id AND refunded.order_id = orders.id
        WHERE orders.refunded_minor
              <> least(coalesce(refunded.amount_minor, 0),
                       orders.total_cost_minor + orders.billing_adjustment_minor + coalesce(orders.tax_minor, 0))
        """,
    ),
    Invariant(
        "every refund is credited on the document of its order",
        "Money went back, and no credit note says so: the tax of it stays booked.",
        """
        SELECT format('order %s of account %s: %s refunded, %s credited', refunded.order_id, refunded.account_id,
                      money_text(refunded.minor, refunded.currency),
                      money_text(coalesce(credited.minor, 0), refunded.currency)) AS "where"
        FROM (SELECT account_id, order_id, min(currency) AS currency, sum(amount_minor)::bigint AS minor FROM refunds
              WHERE state = 'succeeded' AND purpose NOT IN ('surplus', 'reduction')
              GROUP BY account_id, order_id) refunded
        CROSS JOIN LATERAL (
            SELECT sum(part.total_minor)::bigint AS minor
            FROM credit_note_orders part JOIN credit_notes note ON note.id = part.credit_note_id
            WHERE part.account_id = refunded.account_id AND part.order_id = refunded.order_id
              AND note.cause <> 'reduction' AND note.taken_back_by IS NULL) credited
        WHERE refunded.minor > coalesce(credited.minor, 0)
          AND EXISTS (SELECT FROM invoice_orders billed
                      WHERE billed.account_id = refunded.account_id AND billed.order_id = refunded.order_id)
        """,
    ),
    Invariant(
        "every dispute that was lost is credited, or its tax was decided to stay",
        "A payment was lost, and no credit note says so: its tax stays booked, and nobody decided that it should.",
        """
        SELECT format('dispute %s, order %s: %s lost, %s of %s credited', disputes.id, orders.id,
                      money_text(disputes.withdrawn_minor, disputes.currency),
                      money_text(credited.minor, disputes.currency),
                      money_text(billed.total_minor, disputes.currency)) AS "where"
        FROM disputes
        JOIN charges ON charges.account_id = disputes.account_id AND charges.id = disputes.charge_id
        JOIN charge_orders paid ON paid.account_id = charges.account_id AND paid.charge_id = charges.id
        JOIN orders ON orders.account_id = paid.account_id AND orders.id = paid.order_id
        JOIN invoice_orders billed ON billed.account_id = orders.account_id AND billed.order_id = orders.id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(part.total_minor), 0) AS minor
            FROM credit_note_orders part JOIN credit_notes note ON note.id = part.credit_note_id
            WHERE part.account_id = billed.account_id AND part.order_id = billed.order_id
              AND note.invoice_id = billed.invoice_id AND note.taken_back_by IS NULL) credited
        WHERE disputes.state = 'lost' AND disputes.withdrawn_minor > 0 AND NOT charges.is_surplus
          AND orders.status NOT IN ('retiring', 'complete') AND credited.minor < billed.total_minor
        UNION ALL
        SELECT format('dispute %s: %s lost, the tax was decided to be credited', disputes.id,
                      money_text(disputes.withdrawn_minor, disputes.currency))
        FROM disputes
        WHERE disputes.state = 'lost' AND disputes.tax_decision = 'credited' AND NOT EXISTS (
            SELECT FROM charge_orders paid
            JOIN credit_note_orders part ON part.account_id = paid.account_id AND part.order_id = paid.order_id
            JOIN credit_notes note ON note.id = part.credit_note_id AND note.cause = 'dispute'
            WHERE paid.account_id = disputes.account_id AND paid.charge_id = disputes.charge_id)
        """,
    ),
    Invariant(
        "no more goes back for a reduction than it took off",
        "A refund or a credit note of an order that was reduced exceeds what was taken off it, or is another order's.",
        """
        SELECT format('reduction %s of order %s: %s taken off, %s refunded, %s credited', reduction.id,
                      reduction.order_id, money_text(off.minor, orders.currency),
                      money_text(coalesce(refund.amount_minor, 0), orders.currency),
                      money_text(coalesce(note.total_minor, 0), orders.currency)) AS "where"
        FROM order_reductions reduction
        JOIN orders ON orders.account_id = reduction.account_id AND orders.id = reduction.order_id
        CROSS JOIN LATERAL (SELECT reduction.net_minor + coalesce(reduction.tax_minor, 0) AS minor) off
        LEFT JOIN refunds refund ON refund.account_id = reduction.account_id AND refund.id = reduction.refund_id
        LEFT JOIN credit_notes note ON note.refund_id = reduction.refund_id AND note.cause = 'reduction'
        WHERE refund.amount_minor > off.minor OR note.total_minor > off.minor
           OR (refund.order_id, refund.purpose) <> (reduction.order_id, 'reduction')
        """,
    ),
    Invariant(
        "an order's payment state agrees with its disputes and refunds",
        "The payment state that clients see is not the one that follows from refunds and disputes.",
        """
        SELECT format('order %s of account %s is %s', orders.id, orders.account_id, orders.payment_state) AS "where"
        FROM orders LEFT JOIN (
            SELECT DISTINCT disputes.account_id, disputes.order_id FROM disputes
            JOIN charges ON charges.account_id = disputes.account_id AND charges.id = disputes.charge_id
            WHERE disputes.state <> 'won' AND NOT charges.is_surplus AND disputes.order_id IS NOT NULL
            UNION
            SELECT billed.account_id, billed.order_id FROM disputes
            JOIN charges ON charges.account_id = disputes.account_id AND charges.id = disputes.charge_id
            JOIN charge_orders billed ON billed.account_id = charges.account_id AND billed.charge_id = charges.id
            JOIN orders paid ON paid.account_id = billed.account_id AND paid.id = billed.order_id
            WHERE disputes.state <> 'won' AND NOT charges.is_surplus AND disputes.order_id IS NULL
              AND paid.payment_state <> 'unpaid') disputed
          ON disputed.account_id = orders.account_id AND disputed.order_id = orders.id
        WHERE (orders.payment_state = 'disputed') <> (disputed.order_id IS NOT NULL)
           OR orders.payment_state = 'refunded' AND orders.refunded_minor = 0
        """,
    ),
    Invariant(
        "an order knows whether its payment is disputed",
        "Credits of a disputed order are on the list of retirements, or those of another order are missing there.",
        """
        SELECT format('order %s of account %s: %s', orders.id, orders.account_id,
                      CASE WHEN orders.has_open_dispute THEN 'no dispute is open' ELSE 'a dispute is open' END)
               AS "where"
        FROM orders
        WHERE orders.status IN ('paid', 'retiring') AND orders.has_open_dispute <> EXISTS (
            SELECT FROM disputes
            JOIN charges ON charges.account_id = disputes.account_id AND charges.id = disputes.charge_id
            WHERE disputes.account_id = orders.account_id AND disputes.state = 'opened' AND NOT charges.is_surplus
              AND (disputes.order_id = orders.id
                   OR disputes.order_id IS NULL AND orders.payment_state <> 'unpaid' AND EXISTS (
                       SELECT FROM charge_orders paid WHERE paid.account_id = charges.account_id
                         AND paid.charge_id = charges.id AND paid.order_id = orders.id)))
        """,
    ),
    Invariant(
        "a charge is refunded when nothing is left of it",
        "The status of a charge does not agree with the refunds that succeeded.",
        """
        SELECT format('charge %s of %s is %s, %s of %s are refunded', charges.id,
                      coalesce(charges.order_id, charges.invoice_id),
                      charges.status, money_text(refunded.amount_minor, charges.captured_currency),
                      money_text(charges.captured_minor, charges.captured_currency)) AS "where"
        FROM charges CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_minor), 0) AS amount_minor FROM refunds
            WHERE refunds.account_id = charges.account_id AND refunds.charge_id = charges.id AND state = 'succeeded'
        ) refunded
        WHERE charges.status IN ('captured', 'refund_due', 'refunded')
          AND (charges.status = 'refunded') <> (refunded.amount_minor >= charges.captured_minor)
        """,
    ),
    Invariant(
        "what is left of an unneeded payment is being refunded",
        "A payment that no order needs is neither refunded nor about to be.",
        """
        SELECT format('charge %s of order %s, which is %s', charges.id, orders.id, orders.status) AS "where"
        FROM charges JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(amount_minor), 0) AS amount_minor FROM refunds
            WHERE refunds.account_id = charges.account_id AND refunds.charge_id = charges.id
              AND state IN ('approval', 'due', 'pending', 'succeeded')) refunded
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(withdrawn_minor), 0) AS amount_minor FROM disputes
            WHERE disputes.account_id = charges.account_id AND disputes.charge_id = charges.id) disputed
        WHERE charges.status IN ('captured', 'refund_due', 'refunded') AND charges.check_at IS NULL
          AND (charges.is_surplus OR orders.status IN ('cancelled', 'failed'))
          AND refunded.amount_minor + disputed.amount_minor < charges.captured_minor
        """,
    ),
    Invariant(
        "every refund by card that is not over is due",
        "A refund was requested, but no worker will make it.",
        """
        SELECT format('refund %s of order %s is %s', id, order_id, state) AS "where"
        FROM refunds
        WHERE method = 'card' AND next_attempt_at IS NULL
          AND (state = 'due' OR state = 'pending' AND purpose IN ('cancellation', 'goodwill'))
        """,
    ),
    Invariant(
        "every failed refund of ours is repeated",
        "A refund failed, and no other attempt was planned.",
        """
        SELECT format('refund %s of order %s', failed.id, failed.order_id) AS "where"
        FROM refunds failed LEFT JOIN refunds next ON next.repeats = failed.id
        WHERE failed.state = 'failed' AND failed.requested_by <> 'system:check_payments' AND next.id IS NULL
        """,
    ),
    Invariant(
        "every refund of the simulated gateway is recorded",
        "The simulated gateway has refunded money that is not recorded here.",
        """
        SELECT format('refund %s of %s', simulated.id, simulated.reference) AS "where"
        FROM simulated_refunds simulated
        JOIN charges ON charges.reference = simulated.reference AND charges.gateway = 'simulated'
        LEFT JOIN refunds ON refunds.id = simulated.id OR refunds.reference = 'sim_' || simulated.id
        WHERE simulated.status = 'refunded' AND charges.check_at IS NULL
          AND coalesce(refunds.state, 'none') NOT IN ('due', 'pending', 'succeeded')
        """,
    ),
)
