"""What `tonne doctor` warns of. Orders of test accounts wait for nobody but their developer."""

from tonne.db.waiting_check import WaitingCheck

WAITING = (
    WaitingCheck(
        "live orders get a price within an hour",
        "An order cannot be priced: the exchange rate is missing or too old, or the bundle is not on sale. It fails "
        "after TONNE_PRICING_GIVE_UP_S.",
        "Import the rate or the bundle with `tonne catalogue import`, or put the bundle on sale with `tonne catalogue "
        "enable`. `tonne order cancel` cancels the order.",
        """
        SELECT format('order %s of account %s, in %s, received at %s', id, account_id, currency,
                      to_char(created_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM orders WHERE mode = 'live' AND status = 'received' AND next_attempt_at IS NOT NULL
          AND created_at < $1::timestamptz - interval '1 hour'
        ORDER BY created_at
        """,
    ),
)
