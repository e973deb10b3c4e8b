"""SQL of what a payer has to know: payments to confirm, orders whose card was declined, orders that failed."""

from dataclasses import dataclass
from datetime import datetime

from tonne.base.scope import Scope
from tonne.cards.declines import explain_decline
from tonne.db.pool import Connection


@dataclass(frozen=True, slots=True)
class UnpaidOrder:
    """`until`: the end of the time to confirm it, or when the card is charged next; None for a failed order."""

    id: str
    amount_minor: int
    currency: str
    code: str | None
    until: datetime | None

    @property
    def reason(self) -> str:
        return explain_decline(self.code)


LIST_TO_CONFIRM = """
SELECT charges.order_id AS id, charges.amount_minor, charges.currency, charges.code, charges.confirm_until AS until
FROM charges JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
WHERE charges.account_id = $1 AND charges.status = 'pending' AND charges.outcome = 'authentication_required'
  AND charges.confirm_until > $2 AND orders.status = 'placed'
ORDER BY charges.confirm_until, charges.order_id
"""


async def list_to_confirm(connection: Connection, scope: Scope, now: datetime) -> list[UnpaidOrder]:
    """Orders whose payment the payer has to confirm."""
    return [UnpaidOrder(**row) for row in await connection.fetch(LIST_TO_CONFIRM, scope.account_id, now)]


_LAST_CHARGE = """
JOIN LATERAL (
    SELECT charges.amount_minor, charges.currency, charges.code, charges.status, charges.outcome FROM charges
    WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id ORDER BY attempt DESC LIMIT 1
) charge ON charge.status = 'failed' AND charge.outcome IN ('declined', 'refused', 'not_found')"""
LIST_DECLINED = f"""
SELECT orders.id, charge.amount_minor, charge.currency, charge.code, orders.next_attempt_at AS until
FROM orders {_LAST_CHARGE}
WHERE orders.account_id = $1 AND orders.mode = $2 AND orders.status = 'placed' AND orders.offset_link_id IS NULL
  AND orders.payment_method = 'card' AND orders.next_attempt_at IS NOT NULL
ORDER BY orders.id
"""  # noqa: S608 - a constant


async def list_declined(connection: Connection, scope: Scope) -> list[UnpaidOrder]:
    """Orders whose card was declined and will be charged again."""
    return [UnpaidOrder(**row) for row in await connection.fetch(LIST_DECLINED, scope.account_id, scope.mode)]


LIST_FAILED = f"""
SELECT orders.id, charge.amount_minor, charge.currency, charge.code, NULL::timestamptz AS until
FROM orders {_LAST_CHARGE}
WHERE orders.account_id = $1 AND orders.status = 'failed' AND orders.offset_link_id IS NULL
  AND orders.payment_method = 'card' AND orders.status_changed_at >= $2
ORDER BY orders.id
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
