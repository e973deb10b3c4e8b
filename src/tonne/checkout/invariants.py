from tonne.db.invariant import Invariant

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
        SELECT format('checkout %s of account %s: %s %s for %s g shown, %s %s for %s g ordered', checkouts.id,
                      checkouts.account_id, checkouts.total_cost_minor + checkouts.tax_minor, checkouts.currency,
                      checkouts.quantity_grams, orders.total_cost_minor + coalesce(orders.tax_minor, 0),
                      orders.currency, orders.quantity_grams) AS "where"
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
)
