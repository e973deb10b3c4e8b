"""Invariants of locked quotes."""

from tonne.platform.db.invariant import Invariant

# `locked` of quotes that were pruned is gone: nothing is left to compare.
INVARIANTS = (
    Invariant(
        "an order costs what its quote says",
        "An order with a locked quote has another price, fee, tax or quantity, or the quote names another order.",
        """
        SELECT format('order %s of account %s, quote %s', orders.id, orders.account_id, quotes.id) AS "where"
        FROM quotes
        CROSS JOIN LATERAL (SELECT convert_from(quotes.locked, 'UTF8')::json AS shown) price
        LEFT JOIN orders ON orders.account_id = quotes.account_id AND orders.id = quotes.order_id
        WHERE quotes.order_id IS NOT NULL
          AND NOT EXISTS (SELECT FROM order_reductions reduction
                          WHERE reduction.account_id = orders.account_id AND reduction.order_id = orders.id)
          AND (orders.quote_id, orders.quantity_grams, orders.offset_cost_minor, orders.commission_minor,
               orders.total_cost_minor)
              IS DISTINCT FROM
              (quotes.id, (price.shown #>> '{priced,quantity_grams}')::bigint,
               (price.shown #>> '{priced,offset_cost_minor}')::bigint,
               (price.shown #>> '{priced,commission_minor}')::bigint,
               (price.shown #>> '{priced,total_cost_minor}')::bigint)
        """,
    ),
    Invariant(
        "live quotes hold what they say",
        "A quote says that it holds supply, but nothing is held for it, or something else is held for a quote that "
        "does not exist.",
        """
        SELECT format('quote %s of account %s: %s g in the quote, %s g held', coalesce(quotes.id, hold.checkout_id),
                      coalesce(quotes.account_id, hold.account_id), quotes.held_grams, hold.grams) AS "where"
        FROM (SELECT quotes.account_id, quotes.id, quotes.held_grams
              FROM quotes LEFT JOIN orders ON orders.account_id = quotes.account_id AND orders.id = quotes.order_id
              WHERE quotes.is_holding AND quotes.mode = 'live'
                AND (quotes.order_id IS NULL AND quotes.expires_at > now()
                     OR orders.status IN ('received', 'placed', 'paid'))) quotes
        FULL JOIN (SELECT hold.account_id, hold.checkout_id, sum(hold.reserved_grams) AS grams,
                          bool_or(stored.id IS NULL) AS is_orphan
                   FROM supply_holds hold
                   LEFT JOIN quotes stored ON stored.account_id = hold.account_id AND stored.id = hold.checkout_id
                   WHERE hold.kind = 'quote' GROUP BY hold.account_id, hold.checkout_id) hold
          ON hold.account_id = quotes.account_id AND hold.checkout_id = quotes.id
        WHERE quotes.id IS NULL AND hold.is_orphan
           OR quotes.id IS NOT NULL AND quotes.held_grams IS DISTINCT FROM hold.grams
        """,
    ),
)
