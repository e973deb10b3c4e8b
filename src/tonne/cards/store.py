"""SQL of stored cards and of charges."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from tonne.base.scope import Mode, Scope
from tonne.cards.model import Attempt, Change, ChargeStatus, Tries
from tonne.db.pool import Connection
from tonne.gateways.card import Card, ChargeRequest, StoredCard
from tonne.orders.model import OrderKey, OrderStatus

# Cards of accounts.

STORE_CARD = """
INSERT INTO account_cards (account_id, organisation_id, mode, gateway, customer, method, brand, last_four, expires,
                           created_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (account_id) DO UPDATE
SET gateway = excluded.gateway, customer = excluded.customer, method = excluded.method, brand = excluded.brand,
    last_four = excluded.last_four, expires = excluded.expires, created_at = excluded.created_at
"""


async def store_card(tx: Connection, scope: Scope, card: StoredCard, *, gateway: str, now: datetime) -> None:
    await tx.execute(
        STORE_CARD,
        scope.account_id,
        scope.organisation_id,
        scope.mode,
        gateway,
        card.customer,
        card.method,
        card.brand,
        card.last_four,
        card.expires,
        now,
    )


FIND_CARD = "SELECT customer, method, brand, last_four, expires FROM account_cards WHERE account_id = $1"


async def find_card(connection: Connection, scope: Scope) -> StoredCard | None:
    row = await connection.fetchrow(FIND_CARD, scope.account_id)
    return None if row is None else StoredCard(*row)


REMOVE_CARD = "DELETE FROM account_cards WHERE account_id = $1 RETURNING last_four"


async def remove_card(tx: Connection, scope: Scope) -> str | None:
    """The last four digits of the card that was there."""
    last_four: str | None = await tx.fetchval(REMOVE_CARD, scope.account_id)
    return last_four


# Charges.


class ToCharge(NamedTuple):
    """An order, the card of its account if there is one, and what was tried so far.

    `is_open`: there is a charge of it that took its money, or may have.
    """

    account_id: str
    order_id: str
    organisation_id: str
    mode: str
    amount_minor: int
    currency: str
    gateway: str | None
    customer: str | None
    method: str | None
    attempts: int
    is_open: bool

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.account_id, self.order_id)


READ_TO_CHARGE = """
SELECT orders.account_id, orders.id AS order_id, orders.organisation_id, orders.mode,
       orders.total_cost_minor AS amount_minor, orders.currency, card.gateway, card.customer, card.method,
       charged.attempts, charged.is_open
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN orders ON orders.account_id = wanted.account_id AND orders.id = wanted.id
LEFT JOIN account_cards card ON card.account_id = orders.account_id
CROSS JOIN LATERAL (
    SELECT coalesce(max(attempt), 0) AS attempts,
           coalesce(bool_or(status IN ('pending', 'captured', 'mismatched')), false) AS is_open
    FROM charges WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id
) charged
"""


async def read_to_charge(tx: Connection, keys: Sequence[OrderKey]) -> list[ToCharge]:
    rows = await tx.fetch(READ_TO_CHARGE, [key.account_id for key in keys], [key.id for key in keys])
    return [ToCharge(**row) for row in rows]


# An order that somebody else has begun to charge a moment ago gets no second charge: constraints say so.
INSERT_CHARGES = """
INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, customer, method, amount_minor,
                     currency, status, created_at, next_attempt_at)
SELECT account_id, id, order_id, organisation_id, mode, attempt, gateway, customer, method, amount_minor, currency,
       'pending', $12, $13
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::smallint[], $7::text[], $8::text[],
            $9::text[], $10::bigint[], $11::text[])
     AS new (account_id, id, order_id, organisation_id, mode, attempt, gateway, customer, method, amount_minor,
             currency)
ON CONFLICT DO NOTHING
RETURNING id
"""


async def insert_charges(
    tx: Connection, attempts: Sequence[tuple[Attempt, int]], now: datetime, held_until: datetime
) -> set[str]:
    """Each with its number among the order's attempts; the ids of those that could be written."""
    requests = [attempt.request for attempt, _ in attempts]
    rows = await tx.fetch(
        INSERT_CHARGES,
        [request.account_id for request in requests],
        [request.id for request in requests],
        [request.order_id for request in requests],
        [attempt.organisation_id for attempt, _ in attempts],
        [request.mode for request in requests],
        [number for _, number in attempts],
        [attempt.gateway for attempt, _ in attempts],
        [request.card.customer for request in requests],
        [request.card.method for request in requests],
        [request.amount_minor for request in requests],
        [request.currency for request in requests],
        now,
        held_until,
    )
    return {row["id"] for row in rows}


# Pending charges whose turn it is: of a worker that has crashed, or with an unclear outcome. Here and below
# the status is a parameter: as a constant it would tempt the planner to read all of `charges_one_per_order`.
CLAIM_PENDING = """
WITH due AS (
    SELECT account_id, id, order_id FROM charges
    WHERE status = $5 AND mode = $1 AND next_attempt_at <= $2
    ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE charges SET next_attempt_at = $3
FROM due JOIN orders ON orders.account_id = due.account_id AND orders.id = due.order_id
WHERE charges.account_id = due.account_id AND charges.id = due.id
RETURNING charges.account_id, charges.id, charges.order_id, charges.organisation_id, charges.mode, charges.gateway,
          charges.customer, charges.method, charges.amount_minor, charges.currency, charges.created_at,
          charges.missing_since, orders.status AS order_status
"""


async def claim_pending_any_account(
    tx: Connection, mode: Mode, now: datetime, held_until: datetime, *, limit: int
) -> list[Attempt]:
    return [_attempt(row) for row in await tx.fetch(CLAIM_PENDING, mode, now, held_until, limit, ChargeStatus.PENDING)]


# Compare and set: whoever settles first has settled it. The expected status comes with each row: a single one the
# planner takes for rare, and would then compare each pending charge with each change. One exception: money turns up for
# a charge that was given up as never made, by a worker that slept for longer than we waited. An answer without money
# counts only for the card or page that was asked about: meanwhile a person may have been sent to a page that has turned
# up, and pay there.
SETTLE_CHARGES = """
UPDATE charges SET status = change.status, outcome = change.outcome, reference = change.reference, code = change.code,
                   message = change.message, settled_at = change.settled_at, missing_since = change.missing_since,
                   next_attempt_at = change.next_attempt_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::timestamptz[],
            $9::timestamptz[], $10::timestamptz[], $11::text[], $12::text[])
     AS change (account_id, id, status, outcome, reference, code, message, settled_at, next_attempt_at, missing_since,
                expected, method)
WHERE charges.account_id = change.account_id AND charges.id = change.id
  AND (charges.method = change.method OR change.reference IS NOT NULL)
  AND (charges.status = change.expected
       OR charges.status = 'failed' AND charges.outcome = 'not_found' AND change.reference IS NOT NULL)
RETURNING charges.id
"""


async def settle_charges(tx: Connection, changes: Sequence[Change]) -> set[str]:
    """The ids of those that were still open."""
    rows = await tx.fetch(
        SETTLE_CHARGES,
        [change.account_id for change in changes],
        [change.id for change in changes],
        [change.status for change in changes],
        [change.outcome for change in changes],
        [change.reference for change in changes],
        [change.code for change in changes],
        [change.message for change in changes],
        [change.settled_at for change in changes],
        [change.next_attempt_at for change in changes],
        [change.missing_since for change in changes],
        [ChargeStatus.PENDING] * len(changes),
        [change.method for change in changes],
    )
    return {row["id"] for row in rows}


COUNT_TRIES = """
SELECT wanted.id, tried.tries,
       (SELECT count(*) FROM charges
        WHERE charges.account_id = wanted.account_id AND charges.order_id = wanted.id
          AND charges.attempt > tried.last_attempt AND charges.outcome = 'unavailable') AS unavailable
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
CROSS JOIN LATERAL (
    SELECT count(*) AS tries, coalesce(max(attempt), 0) AS last_attempt FROM charges
    WHERE charges.account_id = wanted.account_id AND charges.order_id = wanted.id
      AND charges.status = 'failed' AND charges.outcome <> 'unavailable'
) tried
"""


async def count_tries(tx: Connection, keys: Sequence[OrderKey]) -> dict[str, Tries]:
    """By the order's id."""
    rows = await tx.fetch(COUNT_TRIES, [key.account_id for key in keys], [key.id for key in keys])
    return {row["id"]: Tries(row["tries"], row["unavailable"]) for row in rows}


MAKE_DUE = """
UPDATE charges SET next_attempt_at = least(next_attempt_at, $3)
WHERE id = $1 AND gateway = $2 AND status = 'pending' RETURNING true
"""


async def make_due_any_account(connection: Connection, charge_id: str, gateway: str, now: datetime) -> bool:
    """False when there is no such charge whose outcome is open."""
    return await connection.fetchval(MAKE_DUE, charge_id, gateway, now) is True


# Refunds.

CLAIM_REFUNDS = """
WITH due AS (
    SELECT account_id, id FROM charges
    WHERE status = $4 AND next_attempt_at <= $1
    ORDER BY next_attempt_at LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE charges SET next_attempt_at = $2
FROM due WHERE charges.account_id = due.account_id AND charges.id = due.id
RETURNING charges.account_id, charges.id, charges.order_id, charges.gateway, charges.reference, charges.amount_minor,
          charges.currency, charges.settled_at
"""


class RefundDue(NamedTuple):
    account_id: str
    charge_id: str
    order_id: str
    gateway: str
    reference: str
    amount_minor: int
    currency: str
    due_since: datetime


async def claim_refunds_any_account(
    tx: Connection, now: datetime, held_until: datetime, *, limit: int
) -> list[RefundDue]:
    return [RefundDue(*row) for row in await tx.fetch(CLAIM_REFUNDS, now, held_until, limit, ChargeStatus.REFUND_DUE)]


SETTLE_REFUNDS = """
UPDATE charges SET status = CASE WHEN done.refunded_at IS NULL THEN 'refund_due' ELSE 'refunded' END,
                   refunded_at = done.refunded_at, next_attempt_at = done.next_attempt_at, message = done.message
FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::timestamptz[], $5::text[])
     AS done (account_id, id, refunded_at, next_attempt_at, message)
WHERE charges.account_id = done.account_id AND charges.id = done.id AND charges.status = 'refund_due'
"""


class RefundChange(NamedTuple):
    """`refunded_at` when it is done, else `next_attempt_at`."""

    due: RefundDue
    refunded_at: datetime | None
    next_attempt_at: datetime | None
    message: str | None


async def settle_refunds(tx: Connection, changes: Sequence[RefundChange]) -> None:
    await tx.execute(
        SETTLE_REFUNDS,
        [change.due.account_id for change in changes],
        [change.due.charge_id for change in changes],
        [change.refunded_at for change in changes],
        [change.next_attempt_at for change in changes],
        [change.message for change in changes],
    )


def _attempt(row: asyncpg.Record) -> Attempt:
    request = ChargeRequest(
        id=row["id"],
        order_id=row["order_id"],
        account_id=row["account_id"],
        mode=Mode(row["mode"]),
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        card=Card(row["customer"], row["method"]),
        description=describe_order(row["order_id"]),
    )
    return Attempt(
        row["organisation_id"],
        row["gateway"],
        request,
        row["created_at"],
        is_new=False,
        is_wanted=OrderStatus(row["order_status"]) is OrderStatus.PLACED,
        missing_since=row["missing_since"],
    )


def describe_order(order_id: str) -> str:
    """What the gateway shows with the charge. The same each time: it belongs to the request that an id stands for."""
    return f"Order {order_id}"
