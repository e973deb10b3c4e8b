from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no order is charged twice",
        "An order was charged more than once, and the surplus was not refunded.",
        """
        SELECT format('order %s of account %s: charges %s', order_id, account_id, string_agg(id, ', ' ORDER BY attempt))
               AS "where"
        FROM charges WHERE status IN ('captured', 'mismatched') AND order_id IS NOT NULL
        GROUP BY account_id, order_id HAVING count(*) > 1
        """,
    ),
    Invariant(
        "every charge captured at the simulated gateway is recorded",
        "The gateway captured a charge that is not recorded here, or is recorded as failed.",
        """
        SELECT format('charge %s: %s', simulated.id, coalesce('recorded as ' || charges.status, 'not on record'))
               AS "where"
        FROM simulated_charges simulated LEFT JOIN charges ON charges.id = simulated.id
        WHERE simulated.status = 'captured' AND simulated.refunded_minor < simulated.amount_minor
          AND coalesce(charges.status, 'none') NOT IN ('pending', 'captured', 'refund_due', 'refunded', 'mismatched')
        """,
    ),
    Invariant(
        "every recorded charge exists at the simulated gateway",
        "A recorded charge is unknown to the gateway, or has another amount there.",
        """
        SELECT format('charge %s of %s is %s with %s, at the gateway %s', charges.id,
                      coalesce(charges.order_id, charges.invoice_id), charges.status,
                      money_text(charges.captured_minor, charges.captured_currency),
                      coalesce(format('%s with %s, %s of it refunded', simulated.status,
                                      money_text(simulated.amount_minor, simulated.currency),
                                      money_text(simulated.refunded_minor, simulated.currency)), 'unknown')) AS "where"
        FROM charges LEFT JOIN simulated_charges simulated ON simulated.id = charges.id
        WHERE charges.gateway = 'simulated' AND charges.status IN ('captured', 'refund_due', 'refunded')
          AND ((simulated.status, simulated.reference, simulated.amount_minor, simulated.currency)
                   IS DISTINCT FROM ('captured', charges.reference, charges.captured_minor, charges.captured_currency)
               OR (charges.status = 'refunded' AND simulated.refunded_minor <> charges.captured_minor))
        """,
    ),
    Invariant(
        "the orders of a charge sum to it",
        "A charge is recorded with other orders or invoices than it is for.",
        """
        SELECT format('charge %s of %s, orders: %s', charges.id, money_text(charges.amount_minor, charges.currency),
                      coalesce(money_text(sum(paid.amount_minor), charges.currency), 'none')) AS "where"
        FROM charges
        LEFT JOIN charge_orders paid ON paid.account_id = charges.account_id AND paid.charge_id = charges.id
        GROUP BY charges.account_id, charges.id
        HAVING sum(paid.amount_minor) IS DISTINCT FROM charges.amount_minor
        """,
    ),
    Invariant(
        "no charge is captured for an unpaid order",
        "A charge is captured although its order failed or is still unpaid.",
        """
        SELECT format('charge %s of order %s, which is %s', charges.id, orders.id, orders.status) AS "where"
        FROM charges JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
        WHERE charges.status = 'captured' AND orders.status IN ('received', 'placed', 'failed')
        """,
    ),
    Invariant(
        "no charge is captured in the other mode than its order's",
        "A payment of Stripe's test mode cannot pay for a live order: check TONNE_STRIPE_SECRET_KEY, cancel the order.",
        """
        SELECT format('charge %s of the %s order or invoice %s of account %s, see %s at %s', id, mode,
                      coalesce(order_id, invoice_id), account_id,
                      reference, gateway) AS "where"
        FROM charges WHERE status = 'mismatched' AND code = 'mode_mismatch'
        """,
    ),
    Invariant(
        "every pending charge is due",
        "A charge is pending, but no worker will process it.",
        """
        SELECT format('charge %s of %s is %s', id, coalesce(order_id, invoice_id), status) AS "where"
        FROM charges WHERE status = 'pending' AND next_attempt_at IS NULL
        """,
    ),
)
