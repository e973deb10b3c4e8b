"""SQL of orders that wait for a consolidated invoice, and of the groups in which they are collected."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import NamedTuple

import asyncpg
from msgspec import Struct

from tonne.money.invoices.documents.billed_sums import SummedLine
from tonne.money.invoices.model import BillableOrder, InvoiceBilling
from tonne.platform.db.database import Connection, columns, optional, parameters_of, value_of
from tonne.platform.values.amounts import GRAMS_PER_TONNE, TaxTreatment, half_up
from tonne.platform.values.context import Mode, new_id
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.selling.accounts.model import Billing, Fulfil, SmallCardOrders
from tonne.selling.orders.model import HoldReason, Order, OrderKey

# After the last small order of a test account, its collection is closed.
TEST_PAUSE = timedelta(seconds=5)


class GroupKey(NamedTuple):
    """Orders with the same key are billed together. The threshold is 0 for monthly billing.

    `account_id` is that of the account whose card pays; empty if the invoice is paid by bank transfer.
    """

    organisation_id: str
    mode: Mode
    currency: str
    billing: InvoiceBilling
    threshold_minor: int
    account_id: str = ""


class BillingGroup(Struct, frozen=True):
    """`order_count` and `exact_cost` are of the orders that wait, in millionths of a minor unit."""

    id: str
    organisation_id: str
    mode: Mode
    currency: str
    billing: InvoiceBilling
    threshold_minor: int
    account_id: str
    order_count: int
    exact_cost: int

    @property
    def is_paid_by_card(self) -> bool:
        return bool(self.account_id)

    @property
    def closes_by_itself(self) -> bool:
        """Some seconds after its last order, so that tests need not wait for the end of the month."""
        return self.billing is InvoiceBilling.COLLECTED and self.mode is Mode.TEST

    @property
    def is_full(self) -> bool:
        return 0 < self.threshold_minor <= half_up(self.exact_cost, GRAMS_PER_TONNE)


class _Unbilled(BillableOrder, frozen=True, kw_only=True):
    """`total_minor` is that of the order as it was placed; the exact sums are in millionths of a minor unit."""

    exact_cost: int
    exact_fee: int


class UnbilledOrder(_Unbilled, frozen=True, kw_only=True):
    """Without a group until `joins_at`, if it can be cancelled without a refund until then."""

    group_id: str | None
    joins_at: datetime


class OrderToBill(_Unbilled, frozen=True, kw_only=True):
    """An order that waits for its invoice, with the tax terms it was placed with."""

    treatment: TaxTreatment
    rate: Fraction
    language: str = DEFAULT_LANGUAGE
    supplied_on: date | None = None


class BillingSettings(Struct, frozen=True):
    """The settings of an account now."""

    billing: Billing
    billing_threshold_minor: int | None
    fulfil: Fulfil
    credit_limit_minor: int | None
    small_card_orders: SmallCardOrders


FIND_SETTINGS = """
SELECT id, billing, billing_threshold_minor, fulfil, credit_limit_minor, small_card_orders
FROM accounts WHERE id = ANY ($1::text[])
"""


async def find_billing_settings(connection: Connection, orders: Sequence[Order]) -> dict[str, BillingSettings]:
    """The settings of the accounts of these orders, by account."""
    rows = await connection.fetch(FIND_SETTINGS, sorted({order.scope.account_id for order in orders}))
    return {row["id"]: value_of(BillingSettings, row) for row in rows}


HAVE_UNBILLED = """
SELECT unbilled.order_id FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN unbilled_orders unbilled ON unbilled.account_id = keys.account_id AND unbilled.order_id = keys.id
"""


async def find_waiting(connection: Connection, keys: Sequence[OrderKey]) -> set[str]:
    """The ids of those orders that wait for a consolidated invoice."""
    rows = await connection.fetch(HAVE_UNBILLED, *columns(keys, "account_id, id"))
    return {row["order_id"] for row in rows}


# Due at once when the threshold is reached, else at the end of the month of the first order that waits. In test mode,
# every small order puts the end of its collection off.
ADD_TO_GROUP = """
INSERT INTO billing_groups AS grouped
       (id, organisation_id, mode, currency, billing, threshold_minor, account_id, order_count, exact_cost,
        next_attempt_at)
VALUES ($1, $2, $3, $4, $5, $6::bigint, $7, $8, $9::numeric,
        CASE WHEN $6 > 0 AND round($9 / 1000000) >= $6 THEN $10::timestamptz ELSE $11::timestamptz END)
ON CONFLICT (organisation_id, mode, currency, billing, threshold_minor, account_id) DO UPDATE SET
    order_count = grouped.order_count + excluded.order_count,
    exact_cost = grouped.exact_cost + excluded.exact_cost,
    next_attempt_at = CASE WHEN $6 > 0 AND round((grouped.exact_cost + $9) / 1000000) >= $6 THEN $10::timestamptz
                           WHEN $3 = 'test' AND $5 = 'collected' THEN $11::timestamptz
                           ELSE least(grouped.next_attempt_at, $11::timestamptz) END
RETURNING id
"""


async def add_to_group_any_account(
    tx: Connection, key: GroupKey, exact_costs: Sequence[int], *, now: datetime, closes_at: datetime
) -> str:
    """Count orders with these costs; returns the id of the group, which is locked until the transaction ends."""
    counted = len(exact_costs), sum(exact_costs)
    return str(await tx.fetchval(ADD_TO_GROUP, new_id("bgr"), *key, *counted, now, closes_at))


_UNBILLED = """account_id, order_id, group_id, reference, placed_at, joins_at, quantity_grams, total_minor, \
exact_cost, exact_fee"""
INSERT_UNBILLED = f"""
INSERT INTO unbilled_orders ({_UNBILLED})
SELECT {_UNBILLED}
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::timestamptz[], $7::bigint[],
            $8::bigint[], $9::numeric[], $10::numeric[]) AS unbilled ({_UNBILLED})
"""  # noqa: S608 - columns above


async def insert_unbilled(tx: Connection, orders: Sequence[UnbilledOrder]) -> None:
    await tx.execute(INSERT_UNBILLED, *columns(orders, _UNBILLED))


REMOVE_UNBILLED = """
WITH removed AS (
    DELETE FROM unbilled_orders WHERE account_id = $1 AND order_id = $2 RETURNING group_id, exact_cost
), grouped AS (
    UPDATE billing_groups SET order_count = order_count - 1,
        exact_cost = billing_groups.exact_cost - removed.exact_cost,
        next_attempt_at = CASE WHEN order_count > 1 THEN next_attempt_at END
    FROM removed WHERE billing_groups.id = removed.group_id
)
SELECT true FROM removed
"""


async def remove_unbilled(tx: Connection, order: Order) -> bool:
    """A locked order is no longer billed. False if it does not wait for an invoice."""
    return await tx.fetchval(REMOVE_UNBILLED, order.scope.account_id, order.id) is True


REDUCE_UNBILLED = """
WITH old AS (SELECT group_id, exact_cost FROM unbilled_orders WHERE account_id = $1 AND order_id = $2 FOR UPDATE),
reduced AS (
    UPDATE unbilled_orders SET quantity_grams = $3, total_minor = $4, exact_cost = $5, exact_fee = $6
    WHERE account_id = $1 AND order_id = $2
)
UPDATE billing_groups SET exact_cost = billing_groups.exact_cost - old.exact_cost + $5
FROM old WHERE billing_groups.id = old.group_id
"""


async def reduce_unbilled(tx: Connection, order: Order) -> None:
    """A locked order, which was reduced, is billed with less, if it waits for an invoice."""
    names = "scope.account_id, id, priced.quantity_grams, priced.total_cost_minor, exact_cost, exact_fee"
    await tx.execute(REDUCE_UNBILLED, *parameters_of(order, names))


FIND_GROUP_OF = "SELECT group_id FROM unbilled_orders WHERE account_id = $1 AND order_id = $2"


async def find_group_of(connection: Connection, order: Order) -> str | None:
    """None also of an order that has not joined one yet."""
    return optional(str, await connection.fetchval(FIND_GROUP_OF, order.scope.account_id, order.id))


# A lease: if the worker dies, the groups are due again when it expires.
CLAIM_DUE = """
UPDATE billing_groups SET next_attempt_at = $2
FROM (SELECT id FROM billing_groups WHERE next_attempt_at <= $1
      ORDER BY next_attempt_at, id LIMIT $3 FOR UPDATE SKIP LOCKED) due
WHERE billing_groups.id = due.id RETURNING billing_groups.id
"""


async def claim_groups(connection: Connection, now: datetime, until: datetime, limit: int) -> list[str]:
    return sorted(row["id"] for row in await connection.fetch(CLAIM_DUE, now, until, limit))


_GROUP = "id, organisation_id, mode, currency, billing, threshold_minor, account_id, order_count, exact_cost"
LOCK_GROUP = f"SELECT {_GROUP} FROM billing_groups WHERE id = $1 FOR NO KEY UPDATE"  # noqa: S608 - columns above


async def lock_group_any_account(tx: Connection, group_id: str) -> BillingGroup:
    """Lock its orders before."""
    return _group(await tx.fetchrow(LOCK_GROUP, group_id))


FIND_GROUP = f"SELECT {_GROUP} FROM billing_groups WHERE id = $1"  # noqa: S608 - columns above


async def find_group_any_account(connection: Connection, group_id: str) -> BillingGroup:
    return _group(await connection.fetchrow(FIND_GROUP, group_id))


def _group(row: asyncpg.Record | None) -> BillingGroup:
    if row is None:
        raise LookupError("no such billing group")
    return value_of(BillingGroup, row, exact_cost=int(row["exact_cost"]))


LIST_KEYS = """
SELECT account_id, order_id FROM unbilled_orders
WHERE group_id = $1 AND ($2::timestamptz IS NULL OR joins_at < $2) ORDER BY joins_at, account_id, order_id LIMIT $3
"""


async def list_keys_to_bill_any_account(
    connection: Connection, group_id: str, before: datetime | None, limit: int
) -> list[OrderKey]:
    """The oldest orders of a group, those that joined it before a moment if one is given."""
    rows = await connection.fetch(LIST_KEYS, group_id, before, limit)
    return [OrderKey(row["account_id"], row["order_id"]) for row in rows]


SUM_UNBILLED = """
SELECT coalesce(round(sum(unbilled.exact_cost) / 1000000), 0)::bigint
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN unbilled_orders unbilled ON unbilled.account_id = keys.account_id AND unbilled.order_id = keys.id
"""


async def sum_unbilled(connection: Connection, keys: Sequence[OrderKey]) -> int:
    """What these orders cost together, without tax."""
    return int(await connection.fetchval(SUM_UNBILLED, *columns(keys, "account_id, id")))


IS_ANY_FULFILLED = """
SELECT EXISTS (SELECT FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
               JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
               WHERE orders.status <> 'placed')
"""


async def is_any_fulfilled(connection: Connection, keys: Sequence[OrderKey]) -> bool:
    """Whether one of these unbilled orders was fulfilled before it is paid."""
    return await connection.fetchval(IS_ANY_FULFILLED, *columns(keys, "account_id, id")) is True


FIND_TREATMENTS = """
SELECT DISTINCT orders.tax_treatment, orders.language FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
"""


async def find_treatments(connection: Connection, keys: Sequence[OrderKey]) -> set[tuple[TaxTreatment, str]]:
    """How these orders are taxed, and their languages."""
    rows = await connection.fetch(FIND_TREATMENTS, *columns(keys, "account_id, id"))
    return {(TaxTreatment(row["tax_treatment"]), row["language"]) for row in rows}


LIST_UNBILLED = """
SELECT unbilled.account_id, unbilled.order_id, unbilled.reference, unbilled.placed_at, unbilled.quantity_grams,
       unbilled.total_minor, unbilled.exact_cost, unbilled.exact_fee, orders.tax_treatment AS treatment,
       orders.tax_rate AS rate, orders.language, orders.supplied_on
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN unbilled_orders unbilled ON unbilled.account_id = keys.account_id AND unbilled.order_id = keys.id
JOIN orders ON orders.account_id = unbilled.account_id AND orders.id = unbilled.order_id
ORDER BY unbilled.account_id, unbilled.placed_at, unbilled.order_id
"""


async def list_unbilled(tx: Connection, keys: Sequence[OrderKey]) -> list[OrderToBill]:
    """Those of these locked orders that still wait. By account, oldest first."""
    return [
        value_of(
            OrderToBill,
            row,
            rate=Fraction(row["rate"]),
            exact_cost=int(row["exact_cost"]),
            exact_fee=int(row["exact_fee"]),
        )
        for row in await tx.fetch(LIST_UNBILLED, *columns(keys, "account_id, id"))
    ]


REMOVE_BILLED = """
DELETE FROM unbilled_orders USING unnest($1::text[], $2::text[]) AS keys (account_id, id)
WHERE unbilled_orders.account_id = keys.account_id AND unbilled_orders.order_id = keys.id
"""


async def remove_billed(tx: Connection, keys: Sequence[OrderKey]) -> None:
    """Refresh their group afterwards."""
    await tx.execute(REMOVE_BILLED, *columns(keys, "account_id, id"))


# Recounted, and due at the end of the month of the oldest order that is left; in test mode, small ones soon.
REFRESH_GROUP = """
UPDATE billing_groups SET order_count = left_over.orders, exact_cost = left_over.exact_cost,
    next_attempt_at = CASE WHEN threshold_minor > 0 AND round(left_over.exact_cost / 1000000) >= threshold_minor THEN $2
                           WHEN left_over.orders > 0 AND mode = 'test' AND billing = 'collected' THEN $4
                           ELSE left_over.month_end + $3 END
FROM (SELECT count(*) AS orders, coalesce(sum(exact_cost), 0) AS exact_cost,
             (date_trunc('month', min(joins_at) AT TIME ZONE 'UTC') + interval '1 month') AT TIME ZONE 'UTC'
                 AS month_end
      FROM unbilled_orders WHERE group_id = $1) AS left_over
WHERE billing_groups.id = $1
"""


async def refresh_group_any_account(tx: Connection, group_id: str, now: datetime, grace: timedelta) -> None:
    await tx.execute(REFRESH_GROUP, group_id, now, grace, now + TEST_PAUSE)


POSTPONE_GROUP = "UPDATE billing_groups SET next_attempt_at = $2 WHERE id = $1 AND order_count > 0"


async def postpone_group_any_account(tx: Connection, group_id: str, until: datetime) -> None:
    await tx.execute(POSTPONE_GROUP, group_id, until)


NOTE_HOLD = "UPDATE billing_groups SET hold_reason = $2 WHERE id = $1 AND hold_reason IS DISTINCT FROM $2"


async def note_hold_any_account(tx: Connection, group_id: str, reason: HoldReason | None) -> None:
    """What the invoice of the group waits for although it is due."""
    await tx.execute(NOTE_HOLD, group_id, reason)


class LineTotal(SummedLine, frozen=True, kw_only=True):
    """What was ordered of a bundle at one price and with one tax."""

    description: str
    treatment: TaxTreatment
    rate: Fraction


SUM_LINES = """
SELECT line.bundle_name AS description, line.unit_price_minor, line.gross_unit_price_minor,
       orders.tax_treatment AS treatment, orders.tax_rate AS rate, sum(line.quantity_grams)::bigint AS quantity_grams
FROM unnest($1::text[], $2::text[]) AS billed (account_id, id)
JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.id
JOIN order_lines line ON line.account_id = billed.account_id AND line.order_id = billed.id
GROUP BY line.bundle_id, line.bundle_name, line.unit_price_minor, line.gross_unit_price_minor, orders.tax_treatment,
         orders.tax_rate
ORDER BY line.bundle_name, line.bundle_id, line.unit_price_minor, line.gross_unit_price_minor, orders.tax_treatment,
         orders.tax_rate
"""


async def sum_lines(connection: Connection, keys: Sequence[OrderKey]) -> list[LineTotal]:
    """The lines of these orders, summed by bundle, price and tax terms."""
    rows = await connection.fetch(SUM_LINES, *columns(keys, "account_id, id"))
    return [value_of(LineTotal, row, rate=Fraction(row["rate"])) for row in rows]
