"""SQL of `supply_holds`."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection, columns, parameters_of
from tonne.platform.values.context import Mode, Scope
from tonne.selling.orders.model import Order, OrderKey


class Trust(StrEnum):
    """How sure it is that a customer will pay."""

    # The merchant's server made the checkout, or signed it.
    TRUSTED = "trusted"
    # The e-mail address has paid an order of this organisation before.
    KNOWN = "known"
    ANONYMOUS = "anonymous"


class Holder(Struct, frozen=True, kw_only=True):
    """A checkout at which a customer is about to pay. The hashes are of their network and of their e-mail address.

    `paid_grams` is what a known address has paid for. `order_id` is the order if there is one already: an earlier
    payment failed. `charges_before` counts its charges.
    """

    scope: Scope
    checkout_id: str
    trust: Trust
    client_hash: bytes
    email_hash: bytes
    paid_grams: int = 0
    order_id: str | None = None
    charges_before: int = 0


class HeldPart(NamedTuple):
    """Grams of a project that are held for a line, and the whole units that are reserved for them."""

    bundle_id: str
    project_id: str
    quantity_grams: int
    reserved_grams: int


DELETE_OWN = "DELETE FROM supply_holds WHERE account_id = $1 AND checkout_id = $2"
INSERT_HOLDS = """
INSERT INTO supply_holds (account_id, organisation_id, mode, expires_at, kind, checkout_id, trust, client_hash,
                          email_hash, order_id, charges_before, bundle_id, project_id, quantity_grams, reserved_grams)
SELECT $1, $2, $3, $4, 'checkout', $5, $6, $7, $8, $9, $10, bundle_id, project_id, quantity_grams, reserved_grams
FROM unnest($11::text[], $12::text[], $13::bigint[], $14::bigint[])
     AS part (bundle_id, project_id, quantity_grams, reserved_grams)
"""


async def replace_holds(
    tx: Connection, scope: Scope, holder: Holder, parts: Sequence[HeldPart], expires_at: datetime
) -> None:
    await tx.execute(DELETE_OWN, scope.account_id, holder.checkout_id)
    place = (scope.account_id, scope.organisation_id, scope.mode)
    held_by = parameters_of(holder, "checkout_id, trust, client_hash, email_hash, order_id, charges_before")
    held = columns(parts, "bundle_id, project_id, quantity_grams, reserved_grams")
    await tx.execute(INSERT_HOLDS, *place, expires_at, *held_by, *held)


NAME_ORDER = "UPDATE supply_holds SET order_id = $3 WHERE account_id = $1 AND checkout_id = $2"


async def name_order(tx: Connection, scope: Scope, checkout_id: str, order_id: str) -> None:
    """What the checkout holds is held for this order from now on."""
    await tx.execute(NAME_ORDER, scope.account_id, checkout_id, order_id)


INSERT_PROMISED = """
INSERT INTO supply_holds (account_id, checkout_id, organisation_id, mode, expires_at, kind, order_id, charges_before,
                          bundle_id, project_id, quantity_grams, reserved_grams)
SELECT $1, $2, $3, $4, $5, CASE WHEN $6::text IS NULL THEN 'quote' ELSE 'order' END, $6, 0, bundle_id, project_id,
       quantity_grams, reserved_grams
FROM unnest($7::text[], $8::text[], $9::bigint[], $10::bigint[])
     AS part (bundle_id, project_id, quantity_grams, reserved_grams)
"""


async def insert_promised(
    tx: Connection,
    scope: Scope,
    holder_id: str,
    parts: Sequence[HeldPart],
    expires_at: datetime,
    *,
    order_id: str | None = None,
) -> None:
    """What is held for a quote, or for a paid order that is not fulfilled yet."""
    await tx.execute(
        INSERT_PROMISED,
        scope.account_id,
        holder_id,
        scope.organisation_id,
        scope.mode,
        expires_at,
        order_id,
        *columns(parts, "bundle_id, project_id, quantity_grams, reserved_grams"),
    )


DELETE_OF_ORDER = """
DELETE FROM supply_holds WHERE account_id = $1 AND order_id = $2 AND kind = 'order'
RETURNING bundle_id, project_id, quantity_grams, reserved_grams, expires_at
"""


async def take_of_order(tx: Connection, order: Order) -> tuple[list[HeldPart], datetime | None]:
    """Delete what is held for a locked paid order, and return it with the end of the hold."""
    rows = await tx.fetch(DELETE_OF_ORDER, order.scope.account_id, order.id)
    return [HeldPart(*row[:4]) for row in rows], rows[0]["expires_at"] if rows else None


READ_RESERVED = """
SELECT project_id, sum(reserved_grams)::bigint AS grams FROM supply_holds
WHERE mode = $1 AND project_id = ANY ($2::text[]) GROUP BY project_id
"""


async def read_reserved_any_account(tx: Connection, mode: Mode, project_ids: Iterable[str]) -> dict[str, int]:
    """The grams that checkouts and quotes have reserved, by project."""
    rows = await tx.fetch(READ_RESERVED, mode, list(project_ids))
    return {row["project_id"]: row["grams"] for row in rows}


class Held(NamedTuple):
    """Grams of a project that are reserved: in all; for quotes and paid orders; and by others who have not paid.

    Of these, all anonymous ones, the others of the same organisation, anonymous ones of the same network, and those
    with the same e-mail address that nobody vouched for. Whole units count: otherwise fractions could block many units.
    """

    total: int
    promised: int
    anonymous: int
    organisation: int
    client: int
    email: int


# Without what is paid: the limits are for customers who hold supply without paying. Quotes have a quota of their own.
READ_HELD = """
SELECT project_id, sum(grams)::bigint AS total,
       coalesce(sum(grams) FILTER (WHERE NOT is_unpaid), 0)::bigint AS promised,
       coalesce(sum(grams) FILTER (WHERE is_unpaid AND trust = 'anonymous'), 0)::bigint AS anonymous,
       coalesce(sum(grams) FILTER (WHERE is_unpaid AND trust <> 'anonymous' AND organisation_id = $4), 0)::bigint
           AS organisation,
       coalesce(sum(grams) FILTER (WHERE is_unpaid AND trust = 'anonymous' AND client_hash = $5), 0)::bigint AS client,
       coalesce(sum(grams) FILTER (WHERE is_unpaid AND trust <> 'trusted' AND email_hash = $6), 0)::bigint AS email
FROM (SELECT hold.project_id, hold.reserved_grams AS grams, hold.trust, hold.organisation_id, hold.client_hash,
             hold.email_hash, hold.trust IS NOT NULL AND orders.status IS DISTINCT FROM 'paid' AS is_unpaid
      FROM supply_holds hold
      LEFT JOIN orders ON orders.account_id = hold.account_id AND orders.id = hold.order_id
      WHERE hold.mode = $1 AND hold.project_id = ANY ($2::text[]) AND hold.checkout_id <> $3) AS each
GROUP BY project_id
"""


async def read_held(tx: Connection, scope: Scope, holder: Holder, project_ids: Iterable[str]) -> dict[str, Held]:
    """By project, without what the holder itself holds."""
    owners = (holder.checkout_id, scope.organisation_id, holder.client_hash, holder.email_hash)
    rows = await tx.fetch(READ_HELD, scope.mode, list(project_ids), *owners)
    return {row["project_id"]: Held(*row[1:]) for row in rows}


# Instead of a trust: held for paid orders that are not fulfilled yet.
FOR_ORDERS = "order"
SUM_BY_TRUST = """
SELECT coalesce(hold.trust, hold.kind) AS trust, sum(hold.reserved_grams)::bigint AS grams
FROM supply_holds hold LEFT JOIN orders ON orders.account_id = hold.account_id AND orders.id = hold.order_id
WHERE hold.mode = 'live' AND (hold.kind = 'order' OR hold.kind = 'checkout' AND orders.status IS DISTINCT FROM 'paid')
GROUP BY 1
"""


async def sum_by_trust_any_account(connection: Connection) -> dict[str, int]:
    """Grams that unpaid live checkouts hold, and live orders that are not fulfilled yet."""
    rows = await connection.fetch(SUM_BY_TRUST)
    return dict.fromkeys((*Trust, FOR_ORDERS), 0) | {row["trust"]: row["grams"] for row in rows}


FIND_OVERHELD = """
SELECT hold.project_id
FROM (SELECT project_id, sum(reserved_grams) AS grams FROM supply_holds WHERE mode = $1 GROUP BY project_id) hold
LEFT JOIN (SELECT project_id, sum(quantity_grams - allocated_grams) AS grams FROM lots WHERE mode = $1
           GROUP BY project_id) lot USING (project_id)
WHERE hold.grams > coalesce(lot.grams, 0)
"""


async def find_overheld_any_account(tx: Connection, mode: Mode) -> list[str]:
    """The projects of which more grams are held than are free. Call it after lots were changed, to undo the change."""
    return [row["project_id"] for row in await tx.fetch(FIND_OVERHELD, mode)]


# The newest holds first: their customers are the furthest from having paid.
DELETE_OVERHELD = """
DELETE FROM supply_holds WHERE (account_id, checkout_id, bundle_id, project_id) IN (
    SELECT hold.account_id, hold.checkout_id, hold.bundle_id, hold.project_id
    FROM (SELECT account_id, checkout_id, bundle_id, project_id,
                 sum(reserved_grams) OVER (PARTITION BY project_id ORDER BY expires_at, checkout_id, bundle_id) AS grams
          FROM supply_holds WHERE mode = $1) hold
    LEFT JOIN (SELECT project_id, sum(quantity_grams - allocated_grams) AS grams FROM lots WHERE mode = $1
               GROUP BY project_id) lot USING (project_id)
    WHERE hold.grams > coalesce(lot.grams, 0))
RETURNING checkout_id
"""
SUM_RESERVED = """
SELECT lost.id, coalesce(sum(hold.reserved_grams), 0)::bigint AS grams
FROM unnest($2::text[]) AS lost (id) LEFT JOIN supply_holds hold ON hold.mode = $1 AND hold.checkout_id = lost.id
GROUP BY lost.id ORDER BY lost.id
"""


async def delete_overheld(tx: Connection, mode: Mode) -> dict[str, int]:
    """Release holds of grams that no longer exist. Returns what is left to the checkouts and quotes that lost a hold.

    Their orders wait for supply if paid.
    """
    lost = {row["checkout_id"] for row in await tx.fetch(DELETE_OVERHELD, mode)}
    return {row["id"]: row["grams"] for row in await tx.fetch(SUM_RESERVED, mode, list(lost))}


IS_REMOVED_PROJECT_HELD = """
SELECT EXISTS (
    SELECT FROM supply_holds hold WHERE hold.mode = $1 AND NOT EXISTS (
        SELECT FROM bundle_projects member
        WHERE member.mode = hold.mode AND member.bundle_id = hold.bundle_id AND member.project_id = hold.project_id))
"""


async def is_removed_project_held_any_account(tx: Connection, mode: Mode) -> bool:
    """Whether grams are held of a project that its bundle no longer has. The order could never get them."""
    return await tx.fetchval(IS_REMOVED_PROJECT_HELD, mode) is True


class HeldForOrder(NamedTuple):
    """`order_id` is None while the checkout or quote has no order yet."""

    order_id: str | None
    bundle_id: str
    project_id: str
    reserved_grams: int


READ_HOLDS = """
SELECT coalesce(hold.order_id, quotes.order_id) AS order_id, hold.bundle_id, hold.project_id, hold.reserved_grams
FROM supply_holds hold
LEFT JOIN quotes ON quotes.account_id = hold.account_id AND quotes.id = hold.checkout_id
WHERE hold.mode = $1 AND hold.project_id = ANY ($2::text[])
"""


async def read_holds_any_account(tx: Connection, mode: Mode, project_ids: Iterable[str]) -> list[HeldForOrder]:
    """Call it after the lots are locked: then no hold can be added until the transaction ends."""
    return [HeldForOrder(**row) for row in await tx.fetch(READ_HOLDS, mode, list(project_ids))]


DELETE_OF_ORDERS = """
DELETE FROM supply_holds USING unnest($1::text[], $2::text[]) AS allocated (account_id, id)
WHERE supply_holds.account_id = allocated.account_id AND supply_holds.order_id = allocated.id
"""
DELETE_OF_QUOTED_ORDERS = """
DELETE FROM supply_holds USING unnest($1::text[], $2::text[]) AS allocated (account_id, id), orders
WHERE orders.account_id = allocated.account_id AND orders.id = allocated.id
  AND supply_holds.account_id = orders.account_id AND supply_holds.checkout_id = orders.quote_id
"""


async def delete_of_orders(tx: Connection, keys: Sequence[OrderKey]) -> None:
    """What was held for these orders by their checkouts or quotes."""
    await tx.execute(DELETE_OF_ORDERS, *columns(keys, "account_id, id"))
    await tx.execute(DELETE_OF_QUOTED_ORDERS, *columns(keys, "account_id, id"))


# The charge of a checkout with an order may be open: then the worker releases the hold.
DELETE_UNORDERED = """
DELETE FROM supply_holds WHERE account_id = $1 AND checkout_id = $2 AND expires_at = $3 AND order_id IS NULL
"""


async def delete_unordered(tx: Connection, scope: Scope, checkout_id: str, expires_at: datetime) -> None:
    await tx.execute(DELETE_UNORDERED, scope.account_id, checkout_id, expires_at)


class HeldUntil(NamedTuple):
    """What a checkout holds. A later hold of the same checkout expires at another time."""

    account_id: str
    checkout_id: str
    expires_at: datetime


# The hold of a quote that was used lasts until its order has its supply or has ended. SKIP LOCKED: the checkout is
# being paid again, or the order is being allocated.
RELEASE_ENDED = """
DELETE FROM supply_holds WHERE (account_id, checkout_id, bundle_id, project_id) IN (
    SELECT hold.account_id, hold.checkout_id, hold.bundle_id, hold.project_id
    FROM supply_holds hold
    LEFT JOIN quotes ON quotes.account_id = hold.account_id AND quotes.id = hold.checkout_id
    LEFT JOIN orders ON orders.account_id = hold.account_id AND orders.id = coalesce(hold.order_id, quotes.order_id)
    WHERE orders.status IN ('cancelled', 'failed', 'retiring', 'complete')
       OR coalesce(hold.order_id, quotes.order_id) IS NULL AND hold.expires_at <= $1
       OR (hold.account_id, hold.checkout_id, hold.expires_at) IN (
           SELECT account_id, id, expires_at FROM unnest($2::text[], $3::text[], $4::timestamptz[])
                                                  AS unpaid (account_id, id, expires_at))
    FOR UPDATE OF hold SKIP LOCKED)
RETURNING checkout_id
"""


async def release_ended(tx: Connection, now: datetime, unpaid: Sequence[HeldUntil]) -> list[str]:
    """Delete these holds, and those that expired or whose order has ended; returns the ids of checkouts and quotes."""
    rows = await tx.fetch(RELEASE_ENDED, now, *columns(unpaid, "account_id, checkout_id, expires_at"))
    return sorted({row["checkout_id"] for row in rows})
