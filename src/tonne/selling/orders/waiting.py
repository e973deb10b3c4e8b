"""The queues of orders, and what `tonne doctor` warns of. Orders of test accounts wait for nobody but a developer."""

from collections.abc import Sequence
from datetime import datetime

from tonne.platform.db.queues import MAX_COUNTED, Queue, Topic, WaitingCheck, queue_of
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.model import OrderStatus


def _orders_in(status: OrderStatus) -> Queue:
    return Queue(
        f"orders_{status}",
        f"""
        SELECT modes.mode, waiting.depth, waiting.since, waiting.due
        FROM (VALUES ('live'), ('test')) AS modes (mode)
        CROSS JOIN LATERAL (
            SELECT count(*) AS depth, min(status_changed_at) AS since, min(next_attempt_at) AS due
            FROM (SELECT orders.status_changed_at, orders.next_attempt_at FROM orders
                  WHERE orders.status = '{status}' AND orders.mode = modes.mode AND orders.next_attempt_at IS NOT NULL
                  ORDER BY orders.next_attempt_at LIMIT {MAX_COUNTED}) AS each
        ) AS waiting
        """,  # noqa: S608 - our own status
    )


QUEUES = (
    _orders_in(OrderStatus.RECEIVED),
    _orders_in(OrderStatus.PLACED),
    _orders_in(OrderStatus.PAID),
    _orders_in(OrderStatus.RETIRING),
    queue_of("order_mails", "order_mails ORDER BY due_at", due="due_at"),
)


def _server_missing(settings: Settings, _: datetime) -> Sequence[object]:
    return (not settings.smtp_url,)


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
        topic=Topic.ORDERS,
    ),
    WaitingCheck(
        "a mail server is set for live orders",
        "There are live orders, but invoices and certificates are only written to files in the data folder.",
        "Set TONNE_SMTP_URL and TONNE_MAIL_FROM, and restart Tonne.",
        """
        SELECT 'TONNE_SMTP_URL is not set' AS "where"
        WHERE $1::boolean AND EXISTS (SELECT FROM orders WHERE orders.mode = 'live')
        """,
        _server_missing,
        topic=Topic.MAILS,
    ),
    WaitingCheck(
        "mails about payments are composed within ten minutes",
        "No worker runs, or a mail cannot be composed. It is tried again every two minutes.",
        "Check that `tonne worker` is running. Its log has the error under `order_mail_not_composed`.",
        """
        SELECT format('%s of order %s of account %s, since %s', kind, order_id, account_id,
                      to_char(created_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM order_mails WHERE created_at < $1::timestamptz - interval '10 minutes'
        ORDER BY created_at
        """,
        topic=Topic.MAILS,
    ),
)
