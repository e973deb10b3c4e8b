"""The queues of charges, and what `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime

from tonne.platform.db.queues import Topic, WaitingCheck, queue_of
from tonne.platform.settings.settings import Settings


def _gateway_missing(settings: Settings, _: datetime) -> Sequence[object]:
    return (not settings.stripe_secret_key,)


QUEUES = (
    # Without those that wait for their payer's confirmation: that may take days.
    queue_of(
        "charges",
        """
        charges WHERE next_attempt_at IS NOT NULL AND status = 'pending' AND confirm_until IS NULL
        ORDER BY next_attempt_at
        """,
    ),
)
WAITING = (
    WaitingCheck(
        "live charges have an outcome within two days",
        "It is not known whether a customer was charged. The worker asks the gateway again and again.",
        "Search for the order's id at the gateway. If the gateway cannot be reached, check TONNE_STRIPE_SECRET_KEY.",
        """
        SELECT format('charge %s of %s, since %s', id, coalesce('order ' || order_id, 'invoice ' || invoice_id),
                      to_char(created_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM charges WHERE mode = 'live' AND status = 'pending' AND confirm_until IS NULL
          AND created_at < $1::timestamptz - interval '2 days'
        ORDER BY created_at
        """,
        topic=Topic.PAYMENTS,
    ),
    WaitingCheck(
        "live payments are confirmed at least two days before the end",
        "A payer was mailed, but has not confirmed a payment (3-D Secure). Without a confirmation the order fails.",
        "Contact the payer. The mail is in `tonne mail list`; `tonne card link` prints the page on which to confirm "
        "the payment or to enter another card.",
        """
        SELECT format('charge %s of %s of account %s, until %s', id,
                      coalesce('order ' || order_id, 'invoice ' || invoice_id), account_id,
                      to_char(confirm_until, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM charges WHERE mode = 'live' AND status = 'pending'
          AND confirm_until < $1::timestamptz + interval '2 days'
        ORDER BY confirm_until
        """,
        topic=Topic.PAYMENTS,
    ),
    WaitingCheck(
        "someone is mailed about problems with live cards",
        "A payment of a live account has to be confirmed, or its card was declined, and nobody was mailed: the account "
        "has no address for it, and the organisation no admin.",
        "Set one with `tonne account update --card-email`, or add an admin with `tonne org add-admin`.",
        """
        SELECT format('account %s of %s', link.account_id, link.organisation_id) AS "where"
        FROM card_links link
        JOIN accounts ON accounts.organisation_id = link.organisation_id AND accounts.id = link.account_id
        WHERE link.mode = 'live' AND accounts.card_email IS NULL
          AND EXISTS (SELECT FROM charges WHERE charges.account_id = link.account_id
                      AND (charges.status = 'pending' AND charges.confirm_until IS NOT NULL
                           OR charges.status = 'failed' AND charges.settled_at > $1::timestamptz - interval '7 days'))
          AND NOT EXISTS (SELECT FROM organisation_admins admin WHERE admin.organisation_id = link.organisation_id)
        ORDER BY link.created_at
        """,
        topic=Topic.PAYMENTS,
    ),
    WaitingCheck(
        "a gateway is set for live orders by card",
        "Orders of live accounts that pay by card wait, because no card gateway is set.",
        "Set TONNE_STRIPE_SECRET_KEY, or let the account pay by invoice: `tonne account update`.",
        """
        SELECT format('account %s of %s', id, organisation_id) AS "where"
        FROM accounts WHERE $1::boolean AND mode = 'live' AND payment_method = 'card'
        ORDER BY created_at
        """,
        _gateway_missing,
        topic=Topic.PAYMENTS,
    ),
)
