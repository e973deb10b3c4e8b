"""SQL of what a payer has to know: payments to confirm, orders whose card was declined, orders that failed."""

from datetime import datetime

from msgspec import Struct

from tonne.money.cards.charges import explain_decline
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope


class UnpaidOrder(Struct, frozen=True):
    """`until`: the end of the time to confirm it, or when the card is charged next; None for a failed order.

    With `invoice`, the number of an invoice, this is the payment for all its orders, and `id` is the first of them.
    """

    id: str
    amount_minor: int
    currency: str
    code: str | None
    until: datetime | None
    invoice: str | None = None
    order_count: int = 1

    @property
    def label(self) -> str:
        """For people: the id of the order, or `invoice TN-LIVE-000123 (300 orders)`."""
        if self.invoice is None:
            return self.id
        return f"invoice {self.invoice} ({self.order_count:,} order{'' if self.order_count == 1 else 's'})"

    @property
    def reason(self) -> str:
        return explain_decline(self.code)


# The first order of an invoice has a page on which its payer confirms the charge for all of them. Small ones may be
# fulfilled already.
_FIRST_UNPAID = """
CROSS JOIN LATERAL (
    SELECT min(orders.id) AS id, sum(paid.amount_minor)::bigint AS amount_minor, count(*)::integer AS order_count
    FROM charge_orders paid
    JOIN orders ON orders.account_id = paid.account_id AND orders.id = paid.order_id
    WHERE paid.account_id = charge.account_id AND paid.charge_id = charge.id
      AND orders.payment_state = 'unpaid' AND orders.status NOT IN ('cancelled', 'failed')
) first"""
_INVOICES = """
CROSS JOIN LATERAL (
    SELECT string_agg(each.reference, ', ' ORDER BY each.reference) AS reference,
           sum(each.order_count)::integer AS order_count
    FROM charge_invoices each WHERE each.account_id = charge.account_id AND each.charge_id = charge.id
) document"""
LIST_TO_CONFIRM = f"""
SELECT charges.order_id AS id, charges.amount_minor, charges.currency, charges.code, charges.confirm_until AS until,
       NULL AS invoice, 1 AS order_count
FROM charges JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
WHERE charges.account_id = $1 AND charges.status = 'pending' AND charges.outcome = 'authentication_required'
  AND charges.confirm_until > $2 AND orders.status = 'placed' AND orders.offset_link_id IS NULL
UNION ALL
SELECT first.id, charge.amount_minor, charge.currency, charge.code, charge.confirm_until, document.reference,
       document.order_count
FROM charges charge {_INVOICES} {_FIRST_UNPAID}
WHERE charge.account_id = $1 AND charge.invoice_id IS NOT NULL
  AND charge.status = 'pending' AND charge.outcome = 'authentication_required'
  AND charge.confirm_until > $2 AND first.id IS NOT NULL
ORDER BY until, id
"""  # noqa: S608 - a constant


async def list_to_confirm(connection: Connection, scope: Scope, now: datetime) -> list[UnpaidOrder]:
    """Orders whose payment the payer has to confirm."""
    return [UnpaidOrder(**row) for row in await connection.fetch(LIST_TO_CONFIRM, scope.account_id, now)]


_LAST_CHARGE = """
JOIN LATERAL (
    SELECT charges.amount_minor, charges.currency, charges.code, charges.status, charges.outcome FROM charges
    WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id ORDER BY attempt DESC LIMIT 1
) charge ON charge.status = 'failed' AND charge.outcome IN ('declined', 'refused', 'not_found')"""
# A charge for several invoices is named once: with the first of them.
_LAST_INVOICE_CHARGE = f"""
JOIN LATERAL (
    SELECT charges.account_id, charges.id, charges.amount_minor, charges.currency, charges.code, charges.status,
           charges.outcome
    FROM charges WHERE charges.invoice_id = due.invoice_id ORDER BY attempt DESC LIMIT 1
) charge ON charge.status = 'failed' AND charge.outcome IN ('declined', 'refused', 'not_found')
{_INVOICES}"""  # noqa: S608 - a constant
LIST_DECLINED = f"""
SELECT orders.id, charge.amount_minor, charge.currency, charge.code, orders.next_attempt_at AS until,
       NULL AS invoice, 1 AS order_count
FROM orders {_LAST_CHARGE}
WHERE orders.account_id = $1 AND orders.mode = $2 AND orders.status = 'placed' AND orders.offset_link_id IS NULL
  AND orders.payment_method = 'card' AND orders.next_attempt_at IS NOT NULL
UNION ALL
SELECT first.id, CASE WHEN due.is_given_up THEN first.amount_minor ELSE charge.amount_minor END, charge.currency,
       charge.code, due.next_attempt_at, document.reference,
       CASE WHEN due.is_given_up THEN first.order_count ELSE document.order_count END
FROM card_invoices due {_LAST_INVOICE_CHARGE} {_FIRST_UNPAID}
WHERE due.account_id = $1 AND due.mode = $2 AND (due.next_attempt_at IS NOT NULL OR due.is_given_up)
  AND first.id IS NOT NULL
ORDER BY id
"""  # noqa: S608 - a constant


async def list_declined(connection: Connection, scope: Scope) -> list[UnpaidOrder]:
    """Orders whose card was declined and will be charged again; without `until`, only with another card."""
    return [UnpaidOrder(**row) for row in await connection.fetch(LIST_DECLINED, scope.account_id, scope.mode)]


# An operator may have cancelled all orders of an invoice instead: those have not failed.
LIST_FAILED = f"""
SELECT orders.id, charge.amount_minor, charge.currency, charge.code, NULL::timestamptz AS until,
       NULL AS invoice, 1 AS order_count
FROM orders {_LAST_CHARGE}
WHERE orders.account_id = $1 AND orders.status = 'failed' AND orders.offset_link_id IS NULL
  AND orders.payment_method = 'card' AND orders.status_changed_at >= $2
UNION ALL
SELECT failed.id, charge.amount_minor, charge.currency, charge.code, NULL, document.reference, document.order_count
FROM card_invoices due {_LAST_INVOICE_CHARGE}
CROSS JOIN LATERAL (
    SELECT min(orders.id) AS id FROM charge_orders paid
    JOIN orders ON orders.account_id = paid.account_id AND orders.id = paid.order_id
    WHERE paid.account_id = charge.account_id AND paid.charge_id = charge.id AND orders.status = 'failed'
      AND orders.status_changed_at >= $2
) failed
WHERE due.account_id = $1 AND failed.id IS NOT NULL AND NOT due.is_given_up
ORDER BY id
"""  # noqa: S608 - a constant


async def list_failed(connection: Connection, scope: Scope, since: datetime) -> list[UnpaidOrder]:
    """Orders that failed since then because of their card."""
    return [UnpaidOrder(**row) for row in await connection.fetch(LIST_FAILED, scope.account_id, since)]


MAKE_CONFIRMATIONS_DUE = """
UPDATE charges SET next_attempt_at = $2 WHERE account_id = $1 AND status = 'pending' AND confirm_until IS NOT NULL
"""


async def make_confirmations_due(tx: Connection, scope: Scope, now: datetime) -> None:
    """Have the worker look at the charges that wait for a confirmation: the account has another card."""
    await tx.execute(MAKE_CONFIRMATIONS_DUE, scope.account_id, now)
