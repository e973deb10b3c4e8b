from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "every order of an offset link has a checkout",
        "An order of an offset link has no checkout, or one with another link or e-mail address.",
        """
        SELECT format('order %s of account %s', orders.id, orders.account_id) AS "where"
        FROM orders
        LEFT JOIN checkouts ON checkouts.account_id = orders.account_id AND checkouts.order_id = orders.id
        WHERE (orders.offset_link_id, orders.email) IS DISTINCT FROM (checkouts.offset_link_id, checkouts.email)
        """,
    ),
    Invariant(
        "a checkout's total and quantity are those of its order",
        "The customer was shown another total or quantity than the one charged.",
        """
        SELECT format('checkout %s of account %s: %s for %s g shown, %s for %s g ordered', checkouts.id,
                      checkouts.account_id,
                      money_text(checkouts.total_cost_minor + checkouts.tax_minor, checkouts.currency),
                      checkouts.quantity_grams,
                      money_text(orders.total_cost_minor + coalesce(orders.tax_minor, 0), orders.currency),
                      orders.quantity_grams) AS "where"
        FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
        WHERE (checkouts.total_cost_minor, checkouts.tax_minor, checkouts.currency)
              <> (orders.total_cost_minor, coalesce(orders.tax_minor, 0), orders.currency)
           OR checkouts.quantity_grams <> orders.quantity_grams
        """,
    ),
    Invariant(
        "expired checkouts are closed",
        "A checkout expired more than an hour ago and its order is still unpaid: is a worker running?",
        """
        SELECT format('checkout %s of account %s, expired at %s', checkouts.id, checkouts.account_id,
                      checkouts.expires_at) AS "where"
        FROM checkouts LEFT JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
        WHERE checkouts.status <> 'closed' AND checkouts.expires_at < now() - interval '1 hour'
          AND coalesce(orders.status, 'placed') = 'placed'
          AND NOT EXISTS (SELECT FROM charges WHERE charges.account_id = orders.account_id
                          AND charges.order_id = orders.id AND charges.status IN ('pending', 'mismatched'))
        """,
    ),
    Invariant(
        "the counts of offset links match the paid orders",
        "The page of an offset link shows wrong payments: orders were paid without being counted.",
        """
        SELECT format('offset link %s of account %s on %s: %s orders, %s g, paid amounts of %s are not counted',
                      offset_link_id, account_id, day, sum(paid), sum(paid_grams),
                      money_text(sum(paid_minor), (SELECT currency FROM accounts WHERE accounts.id = account_id)))
               AS "where"
        FROM (SELECT orders.account_id, orders.offset_link_id,
                     (coalesce(charges.accepted_at, charges.settled_at, orders.created_at) AT TIME ZONE 'UTC')::date
                         AS day,
                     1 AS paid, coalesce(orders.quantity_grams, 0) AS paid_grams,
                     coalesce(orders.total_cost_minor, 0) + coalesce(orders.tax_minor, 0) AS paid_minor
              FROM orders
              LEFT JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id
                               AND charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus
              WHERE orders.offset_link_id IS NOT NULL AND orders.payment_state <> 'unpaid'
              UNION ALL
              SELECT account_id, offset_link_id, day, -paid, -paid_grams, -paid_minor FROM offset_link_days
              UNION ALL
              SELECT account_id, offset_link_id, day, -paid, -paid_grams, -paid_minor FROM offset_link_deltas) counted
        GROUP BY account_id, offset_link_id, day
        HAVING sum(paid) <> 0 OR sum(paid_grams) <> 0 OR sum(paid_minor) <> 0
        """,
    ),
    Invariant(
        "holds that have ended are released",
        "Grams are still held an hour after the hold expired, or for an order that has them already: is a worker "
        "running?",
        """
        SELECT format('%s %s of account %s, %s g of project %s, until %s',
                      CASE WHEN quotes.id IS NULL THEN 'checkout' ELSE 'quote' END, hold.checkout_id, hold.account_id,
                      hold.reserved_grams, hold.project_id, hold.expires_at) AS "where"
        FROM supply_holds hold
        LEFT JOIN quotes ON quotes.account_id = hold.account_id AND quotes.id = hold.checkout_id
        LEFT JOIN orders ON orders.account_id = hold.account_id
                        AND orders.id = coalesce(hold.order_id, quotes.order_id)
        WHERE orders.status IN ('retiring', 'complete')
           OR hold.expires_at < now() - interval '1 hour' AND orders.status IS DISTINCT FROM 'paid'
              AND NOT (quotes.order_id IS NOT NULL AND orders.status IN ('received', 'placed'))
              AND NOT EXISTS (SELECT FROM charges WHERE charges.account_id = orders.account_id
                              AND charges.order_id = orders.id AND charges.status = 'pending')
        """,
    ),
    Invariant(
        "a hold names the order of its checkout",
        "Supply is held for a checkout, but not for its order: the order may be paid and not get it.",
        """
        SELECT format('checkout %s of account %s, order %s: %s is held for order %s', checkouts.id,
                      checkouts.account_id, coalesce(checkouts.order_id, '-'), hold.project_id,
                      coalesce(hold.order_id, '-')) AS "where"
        FROM supply_holds hold
        JOIN checkouts ON checkouts.account_id = hold.account_id AND checkouts.id = hold.checkout_id
        WHERE hold.order_id IS DISTINCT FROM checkouts.order_id
        """,
    ),
)
