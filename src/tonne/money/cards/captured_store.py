"""SQL of captured charges: what the gateway has, and when to compare it with the gateway's record."""

from collections.abc import Collection, Sequence
from datetime import datetime

import asyncpg
from msgspec import Struct

from tonne.money.cards.model import ChargeStatus
from tonne.platform.db.database import Connection, columns, optional, parameters_of, scope_of, value_of
from tonne.platform.values.context import Scope
from tonne.selling.orders.model import Order, OrderKey

# A charge for an invoice stands under the first of its orders where it does not pay for all of them.
_FIRST = """
coalesce(charges.order_id, (SELECT min(paid.order_id) FROM charge_orders paid
                            WHERE paid.account_id = charges.account_id AND paid.charge_id = charges.id))
"""
_CAPTURED = f"""
charges.account_id, charges.id, {_FIRST} AS order_id, charges.invoice_id, charges.organisation_id, charges.mode,
charges.gateway,
charges.reference, charges.status, charges.amount_minor, charges.currency, charges.captured_minor,
charges.captured_currency, charges.is_surplus, charges.code
"""


class CapturedCharge(Struct, frozen=True, kw_only=True):
    """A charge with money at the gateway. `captured_minor` is None if a mismatched amount was not recorded.

    With `invoice_id`, it pays for all orders of that invoice, and `order_id` is the first of them.
    """

    scope: Scope
    id: str
    order_id: str
    invoice_id: str | None = None
    gateway: str
    reference: str
    status: ChargeStatus
    amount_minor: int
    currency: str
    captured_minor: int | None
    captured_currency: str | None
    # It never paid for its order: captured too late, a second time, or with another amount.
    is_surplus: bool
    code: str | None

    @property
    def is_shared(self) -> bool:
        """Whether it has paid for all orders of an invoice."""
        return self.invoice_id is not None and not self.is_surplus and self.status is not ChargeStatus.MISMATCHED

    @property
    def order_key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.order_id)


def _captured(row: asyncpg.Record) -> CapturedCharge:
    return value_of(CapturedCharge, row, scope=scope_of(row))


# Of the charges for its invoice, the one that paid. A surplus one stands under the first order only.
FIND_CAPTURED = f"""
SELECT {_CAPTURED} FROM charges
WHERE charges.account_id = $1 AND charges.reference IS NOT NULL
  AND charges.id IN (SELECT paid.charge_id FROM charge_orders paid WHERE paid.account_id = $1 AND paid.order_id = $2)
  AND (charges.order_id IS NOT NULL
       OR charges.status <> 'mismatched' AND (NOT charges.is_surplus OR {_FIRST} = $2))
ORDER BY charges.id
"""  # noqa: S608 - a constant


async def find_captured(connection: Connection, order: Order) -> list[CapturedCharge]:
    """All charges of an order, and of its invoice, that took money, also those whose money went back."""
    return [_captured(row) for row in await connection.fetch(FIND_CAPTURED, order.scope.account_id, order.id)]


FIND_CHARGE = f"SELECT {_CAPTURED} FROM charges WHERE id = $1 AND reference IS NOT NULL"  # noqa: S608 - a constant


async def find_captured_any_account(connection: Connection, charge_id: str) -> CapturedCharge | None:
    """None also if the charge took no money."""
    return optional(_captured, await connection.fetchrow(FIND_CHARGE, charge_id))


LOCK_SHARED = """
SELECT id FROM charges WHERE account_id = $1 AND id = ANY ($2::text[]) ORDER BY id FOR NO KEY UPDATE
"""


async def lock_shared(tx: Connection, charges: Sequence[CapturedCharge]) -> None:
    """Lock those that pay for several orders: refunds of different orders change the same charge."""
    shared = [charge for charge in charges if charge.is_shared]
    if shared:
        await tx.fetch(LOCK_SHARED, shared[0].scope.account_id, [charge.id for charge in shared])


REQUEST_CHECKS = """
UPDATE charges SET check_at = least(check_at, $3)
WHERE (account_id, id) IN (
    SELECT account_id, id FROM charges WHERE gateway = $1 AND reference = ANY ($2::text[])
    ORDER BY account_id, id FOR NO KEY UPDATE)
RETURNING id
"""


async def request_checks_any_account(
    connection: Connection, gateway: str, references: Collection[str], now: datetime
) -> int:
    """Have these payments compared with the gateway's record. Returns how many of them are ours."""
    return len(await connection.fetch(REQUEST_CHECKS, gateway, list(references), now))


CLAIM_CHECKS = f"""
WITH due AS (
    SELECT account_id, id FROM charges WHERE check_at <= $1 AND reference IS NOT NULL
    ORDER BY check_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE charges SET check_at = $2
FROM due WHERE charges.account_id = due.account_id AND charges.id = due.id
RETURNING {_CAPTURED}
"""  # noqa: S608 - a constant


async def claim_checks(tx: Connection, now: datetime, held_until: datetime, *, limit: int) -> list[CapturedCharge]:
    return [_captured(row) for row in await tx.fetch(CLAIM_CHECKS, now, held_until, limit)]


# `held_until`: a later request to check the charge again must not be lost.
FINISH_CHECK = """
UPDATE charges SET check_at = $4 WHERE account_id = $1 AND id = $2 AND check_at = $3
"""


async def finish_check(tx: Connection, charge: CapturedCharge, held_until: datetime, next_at: datetime | None) -> None:
    await tx.execute(FINISH_CHECK, charge.scope.account_id, charge.id, held_until, next_at)


UPDATE_CAPTURED = """
UPDATE charges SET status = $3, captured_minor = $4, captured_currency = $5, is_surplus = $6,
                   check_at = coalesce($7, check_at),
                   refunded_at = CASE WHEN $3 = 'refunded' THEN coalesce(refunded_at, $8) END
WHERE account_id = $1 AND id = $2
"""


async def update_captured(
    tx: Connection, charge: CapturedCharge, *, now: datetime, check_at: datetime | None = None
) -> None:
    """Store the new state of a charge. The caller has locked its order."""
    names = "scope.account_id, id, status, captured_minor, captured_currency, is_surplus"
    await tx.execute(UPDATE_CAPTURED, *parameters_of(charge, names), check_at, now)


MARK_ACCEPTED = "UPDATE charges SET accepted_at = $3 WHERE account_id = $1 AND id = $2"


async def mark_accepted(tx: Connection, charge: CapturedCharge, now: datetime) -> None:
    """An operator lets a mismatched charge pay for its order. The caller has locked the order."""
    await tx.execute(MARK_ACCEPTED, charge.scope.account_id, charge.id, now)


SUM_DISCOUNTS = """
SELECT charges.order_id, charges.amount_minor - charges.captured_minor AS missing_minor
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN charges ON charges.account_id = keys.account_id AND charges.order_id = keys.id
WHERE charges.accepted_at IS NOT NULL AND charges.captured_minor < charges.amount_minor
"""


async def sum_discounts(connection: Connection, keys: Sequence[OrderKey]) -> dict[str, int]:
    """What arrived too little of those of these orders whose payment an operator accepted all the same, by order."""
    rows = await connection.fetch(SUM_DISCOUNTS, *columns(keys, "account_id, id"))
    return {row["order_id"]: row["missing_minor"] for row in rows}


WRITE_OFF = """
UPDATE charges SET status = 'failed', outcome = 'refused', reference = NULL, message = $3
WHERE account_id = $1 AND id = $2 AND status = 'mismatched' RETURNING true
"""


async def write_off(tx: Connection, charge: CapturedCharge, message: str) -> bool:
    """Record that a mismatched charge took no real money."""
    return await tx.fetchval(WRITE_OFF, charge.scope.account_id, charge.id, message) is True


def find_paying(charges: Sequence[CapturedCharge]) -> CapturedCharge | None:
    """The charge that paid for the order."""
    paid = (ChargeStatus.CAPTURED, ChargeStatus.REFUNDED)
    return next((each for each in charges if each.status in paid and not each.is_surplus), None)
