"""SQL of checkouts. A checkout is found by the hash of the secret in its address."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg
import msgspec

from tonne.base.scope import Mode, Scope
from tonne.checkout.model import Checkout, CheckoutStatus
from tonne.db.pool import Connection
from tonne.orders.model import Order

INSERT_CHECKOUT = """
INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash, status,
                       requested_quantity_grams, requested_value_minor, bundle_selection, total_cost_minor, currency,
                       email, external_id, redirect_url, redirect_label, created_at, expires_at, next_attempt_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, 'open', $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $18)
"""


async def insert_checkout(
    tx: Connection, scope: Scope, checkout: Checkout, *, token_hash: bytes, temporary_id_hash: bytes
) -> None:
    await tx.execute(
        INSERT_CHECKOUT,
        scope.account_id,
        checkout.id,
        scope.organisation_id,
        scope.mode,
        checkout.offset_link_id,
        token_hash,
        temporary_id_hash,
        checkout.requested_quantity_grams,
        checkout.requested_value_minor,
        msgspec.json.encode(checkout.bundle_selection).decode(),
        checkout.total_cost_minor,
        checkout.currency,
        checkout.email,
        checkout.external_id,
        checkout.redirect_url,
        checkout.redirect_label,
        checkout.created_at,
        checkout.expires_at,
    )


FIND_CHECKOUT = """
SELECT account_id, id, organisation_id, mode, offset_link_id, status, requested_quantity_grams, requested_value_minor,
       bundle_selection, total_cost_minor, currency, email, external_id, redirect_url, redirect_label, order_id,
       created_at, expires_at
FROM checkouts WHERE token_hash = $1
"""


async def find_checkout(connection: Connection, secret_hash: bytes) -> Checkout | None:
    row = await connection.fetchrow(FIND_CHECKOUT, secret_hash)
    return None if row is None else _checkout(row)


LOCK_CHECKOUT = """
SELECT account_id, id, organisation_id, mode, offset_link_id, status, requested_quantity_grams, requested_value_minor,
       bundle_selection, total_cost_minor, currency, email, external_id, redirect_url, redirect_label, order_id,
       created_at, expires_at
FROM checkouts WHERE token_hash = $1 FOR UPDATE
"""


async def lock_checkout(tx: Connection, secret_hash: bytes) -> Checkout | None:
    """Two clicks, or two tabs, take turns from here on."""
    row = await tx.fetchrow(LOCK_CHECKOUT, secret_hash)
    return None if row is None else _checkout(row)


# Whoever wants to complete a flow with this reference takes turns, and always before any row is locked.
LOCK_REFERENCE = "SELECT pg_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 4))"


async def lock_reference(tx: Connection, scope: Scope, reference: str) -> None:
    await tx.execute(LOCK_REFERENCE, scope.account_id, reference)


LOCK_ORDERED = """
SELECT account_id, id, organisation_id, mode, offset_link_id, status, requested_quantity_grams, requested_value_minor,
       bundle_selection, total_cost_minor, currency, email, external_id, redirect_url, redirect_label, order_id,
       created_at, expires_at
FROM checkouts WHERE account_id = $1 AND offset_link_id = $2 AND external_id = $3 AND status = 'ordered' FOR UPDATE
"""


async def lock_ordered(tx: Connection, scope: Scope, offset_link_id: str, external_id: str) -> Checkout | None:
    """The checkout with this reference that has an order: there is at most one."""
    row = await tx.fetchrow(LOCK_ORDERED, scope.account_id, offset_link_id, external_id)
    return None if row is None else _checkout(row)


IS_PAID = """
SELECT EXISTS (
    SELECT FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
    WHERE checkouts.account_id = $1 AND checkouts.offset_link_id = $2 AND checkouts.external_id = $3
      AND checkouts.status = 'ordered' AND orders.status IN ('paid', 'retiring', 'complete'))
"""


async def is_paid(connection: Connection, scope: Scope, offset_link_id: str, external_id: str) -> bool:
    """Whether the flow with this reference has been completed."""
    return await connection.fetchval(IS_PAID, scope.account_id, offset_link_id, external_id) is True


SET_ORDERED = """
UPDATE checkouts SET status = 'ordered', order_id = $3, total_cost_minor = $4, next_attempt_at = $5
WHERE account_id = $1 AND id = $2
"""


async def set_ordered(tx: Connection, scope: Scope, checkout_id: str, order: Order, look_at: datetime) -> None:
    total_cost_minor = 0 if order.priced is None else order.priced.total_cost_minor
    await tx.execute(SET_ORDERED, scope.account_id, checkout_id, order.id, total_cost_minor, look_at)


EXTEND = "UPDATE checkouts SET expires_at = greatest(expires_at, $3) WHERE account_id = $1 AND id = $2"


async def extend(tx: Connection, scope: Scope, checkout_id: str, until: datetime) -> None:
    await tx.execute(EXTEND, scope.account_id, checkout_id, until)


CLOSE = "UPDATE checkouts SET status = 'closed', next_attempt_at = NULL WHERE account_id = $1 AND id = $2"


async def close(tx: Connection, scope: Scope, checkout_id: str) -> None:
    await tx.execute(CLOSE, scope.account_id, checkout_id)


FIND_PAYMENT = """
SELECT orders.wire_document
FROM checkouts
JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
JOIN charges ON charges.account_id = orders.account_id AND charges.order_id = orders.id AND charges.status = 'captured'
WHERE checkouts.temporary_id_hash = $1 AND checkouts.organisation_id = $2 AND checkouts.mode = $3
  AND charges.settled_at > $4
"""


async def find_payment(connection: Connection, scope: Scope, id_hash: bytes, paid_after: datetime) -> bytes | None:
    """The order, as the interface shows it, whose payment has this temporary id."""
    document: bytes | None = await connection.fetchval(
        FIND_PAYMENT, id_hash, scope.organisation_id, scope.mode, paid_after
    )
    return document


# Closing what nobody finished.


class DueCheckout(NamedTuple):
    """`order_id` is None while nothing is ordered."""

    scope: Scope
    id: str
    order_id: str | None
    expires_at: datetime


CLAIM_OPEN = """
SELECT account_id, id, organisation_id, mode, order_id, expires_at FROM checkouts
WHERE status = 'open' AND next_attempt_at <= $1
ORDER BY next_attempt_at LIMIT $2 FOR UPDATE SKIP LOCKED
"""


async def claim_open_any_account(tx: Connection, now: datetime, limit: int) -> list[DueCheckout]:
    """Expired checkouts without an order."""
    return [_due_checkout(row) for row in await tx.fetch(CLAIM_OPEN, now, limit)]


DELETE_CHECKOUTS = """
DELETE FROM checkouts USING unnest($1::text[], $2::text[]) AS wanted (account_id, id)
WHERE checkouts.account_id = wanted.account_id AND checkouts.id = wanted.id
"""


async def delete_checkouts(tx: Connection, checkouts: Sequence[DueCheckout]) -> None:
    """Nothing was ordered, so there is no reason to keep the e-mail address."""
    await tx.execute(DELETE_CHECKOUTS, [each.scope.account_id for each in checkouts], [each.id for each in checkouts])


CLAIM_UNPAID = """
SELECT checkouts.account_id, checkouts.id, checkouts.organisation_id, checkouts.mode, checkouts.order_id,
       checkouts.expires_at
FROM checkouts JOIN orders ON orders.account_id = checkouts.account_id AND orders.id = checkouts.order_id
WHERE checkouts.status = 'ordered' AND checkouts.next_attempt_at <= $1
  AND orders.status IN ('placed', 'cancelled', 'failed')
ORDER BY checkouts.next_attempt_at LIMIT $2 FOR UPDATE OF checkouts SKIP LOCKED
"""


async def claim_unpaid_any_account(tx: Connection, now: datetime, limit: int) -> list[DueCheckout]:
    return [_due_checkout(row) for row in await tx.fetch(CLAIM_UNPAID, now, limit)]


def _due_checkout(row: asyncpg.Record) -> DueCheckout:
    scope = Scope(row["organisation_id"], row["account_id"], Mode(row["mode"]))
    return DueCheckout(scope, row["id"], row["order_id"], row["expires_at"])


LOOK_AGAIN = "UPDATE checkouts SET next_attempt_at = $3 WHERE account_id = $1 AND id = $2"


async def look_again(tx: Connection, scope: Scope, checkout_id: str, at: datetime) -> None:
    await tx.execute(LOOK_AGAIN, scope.account_id, checkout_id, at)


def _checkout(row: asyncpg.Record) -> Checkout:
    values = dict(row)
    scope = Scope(values.pop("organisation_id"), values.pop("account_id"), Mode(values.pop("mode")))
    selection = msgspec.json.decode(values.pop("bundle_selection") or "[]")
    return Checkout(scope=scope, status=CheckoutStatus(values.pop("status")), bundle_selection=selection, **values)
