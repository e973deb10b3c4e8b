"""SQL of `charges`."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg
from msgspec import Struct

from tonne.money.cards.gateways.card import ChargeRequest, HostedPage, PaymentSource, StoredCard
from tonne.money.cards.gateways.metered_gateway import GATEWAY_OF
from tonne.money.cards.model import ChargeAttempt, ChargeStatus, ChargeUpdate, TryCounts
from tonne.platform.db.database import Connection, columns, optional
from tonne.platform.values.context import Mode, Scope, new_id, replace
from tonne.selling.orders.model import Order, OrderKey

# Values of the column `source`, by the type of a payment source.
_SOURCES = {StoredCard: "stored_card", HostedPage: "hosted_page", type(None): "none"}
# The columns that `read_attempt` reads: of a charge, and with the reference of its invoice.
CHARGE_COLUMNS = """
account_id, id, order_id, invoice_id, organisation_id, mode, gateway, source, customer, method, session_id,
amount_minor, currency, created_at, missing_since, confirm_until
"""
# The CASE spares most charges a look into the other table.
INVOICE_REFERENCE = """
CASE WHEN charges.invoice_id IS NOT NULL
     THEN (SELECT string_agg(document.reference, ', ' ORDER BY document.reference) FROM charge_invoices document
           WHERE document.account_id = charges.account_id AND document.charge_id = charges.id) END AS invoice_reference
"""
ATTEMPT = f"{', '.join(f'charges.{name.strip()}' for name in CHARGE_COLUMNS.split(','))}, {INVOICE_REFERENCE}"


def read_attempt(
    row: asyncpg.Record, *, is_new: bool = False, is_wanted: bool = True, is_replaced: bool = False
) -> ChargeAttempt:
    source: PaymentSource = None
    if row["source"] == _SOURCES[StoredCard]:
        source = StoredCard(row["customer"], row["method"])
    elif row["source"] == _SOURCES[HostedPage]:
        source = HostedPage(row["session_id"])
    request = ChargeRequest(
        id=row["id"],
        order_id=row["order_id"],
        invoice_id=row["invoice_id"],
        invoice_reference=row["invoice_reference"],
        account_id=row["account_id"],
        mode=Mode(row["mode"]),
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        source=source,
    )
    return ChargeAttempt(
        row["organisation_id"],
        row["gateway"],
        request,
        row["created_at"],
        is_new=is_new,
        is_wanted=is_wanted,
        missing_since=row["missing_since"],
        confirm_until=row["confirm_until"],
        is_replaced=is_replaced,
    )


class ChargeableOrder(Struct, frozen=True, kw_only=True):
    """An order with the payment source and gateway of its next charge.

    `attempts` counts its charges so far. `has_open_charge`: one of them has taken the money, or may have. `is_untaxed`:
    it waits for an invoice, and is paid with other orders by one charge for that.
    """

    scope: Scope
    id: str
    amount_minor: int
    currency: str
    gateway: str
    source: PaymentSource
    attempts: int
    has_open_charge: bool
    is_untaxed: bool = False
    # Other orders of the account are billed together, or were.
    may_be_billed: bool = False

    @property
    def key(self) -> OrderKey:
        return OrderKey(self.scope.account_id, self.id)

    def paid_with(self, source: StoredCard | HostedPage) -> "ChargeableOrder":
        """The same order with another source than the account's stored card."""
        return replace(self, gateway=GATEWAY_OF[self.scope.mode], source=source)


READ_CHARGEABLE = """
SELECT orders.account_id, orders.id, orders.organisation_id, orders.mode, orders.currency,
       orders.total_cost_minor + coalesce(orders.tax_minor, 0) AS amount_due_minor,
       card.gateway, card.customer, card.method, charged.attempts, charged.has_open_charge,
       orders.tax_minor IS NULL AS is_untaxed,
       EXISTS (SELECT FROM card_invoices billed WHERE billed.account_id = orders.account_id)
           OR EXISTS (SELECT FROM orders other WHERE other.account_id = orders.account_id
                        AND other.tax_minor IS NULL AND other.status = 'placed')
           OR EXISTS (SELECT FROM orders other WHERE other.account_id = orders.account_id
                        AND other.payment_state = 'unpaid' AND other.status IN ('paid', 'retiring', 'complete'))
           AS may_be_billed
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
LEFT JOIN account_cards card ON card.account_id = orders.account_id
CROSS JOIN LATERAL (
    SELECT coalesce(max(attempt), 0) AS attempts,
           coalesce(bool_or(status IN ('pending', 'captured', 'mismatched')), false) AS has_open_charge
    FROM charges WHERE charges.account_id = orders.account_id AND charges.order_id = orders.id
) charged
"""


async def read_chargeable(tx: Connection, keys: Sequence[OrderKey]) -> list[ChargeableOrder]:
    rows = await tx.fetch(READ_CHARGEABLE, *columns(keys, "account_id, id"))
    return [_chargeable(row) for row in rows]


def _chargeable(row: asyncpg.Record) -> ChargeableOrder:
    mode = Mode(row["mode"])
    return ChargeableOrder(
        scope=Scope(row["organisation_id"], row["account_id"], mode),
        id=row["id"],
        amount_minor=row["amount_due_minor"],
        currency=row["currency"],
        gateway=row["gateway"] or GATEWAY_OF[mode],
        source=None if row["gateway"] is None else StoredCard(row["customer"], row["method"]),
        attempts=row["attempts"],
        has_open_charge=row["has_open_charge"],
        is_untaxed=row["is_untaxed"],
        may_be_billed=row["may_be_billed"],
    )


# ON CONFLICT: another worker has just opened a charge for the order. `charges_one_per_order` allows only one.
INSERT_CHARGES = f"""
WITH opened AS (
    INSERT INTO charges (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, customer, method,
                         amount_minor, currency, status, created_at, next_attempt_at)
    SELECT account_id, id, order_id, organisation_id, mode, attempt, gateway, source, customer, method, amount_minor,
           currency, 'pending', $1, $2
    FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::smallint[], $9::text[], $10::text[],
                $11::text[], $12::text[], $13::bigint[], $14::text[])
         AS new (account_id, id, order_id, organisation_id, mode, attempt, gateway, source, customer, method,
                 amount_minor, currency)
    ON CONFLICT DO NOTHING
    RETURNING {CHARGE_COLUMNS}
), paid AS (
    INSERT INTO charge_orders (account_id, charge_id, order_id, amount_minor)
    SELECT account_id, id, order_id, amount_minor FROM opened
)
SELECT {CHARGE_COLUMNS}, NULL AS invoice_reference FROM opened
"""  # noqa: S608 - a constant


async def insert_charges(
    tx: Connection, orders: Sequence[ChargeableOrder], now: datetime, held_until: datetime
) -> list[ChargeAttempt]:
    """Insert a pending charge for each order, at least one, and return the new charges."""
    rows = []
    for order in orders:
        scope, source = order.scope, order.source
        customer, method = (source.customer, source.method) if isinstance(source, StoredCard) else (None, None)
        rows.append(
            (
                *(scope.account_id, new_id("chg"), order.id, scope.organisation_id, scope.mode, order.attempts + 1),
                *(order.gateway, _SOURCES[type(source)], customer, method, order.amount_minor, order.currency),
            )
        )
    return [
        read_attempt(row, is_new=True)
        for row in await tx.fetch(INSERT_CHARGES, now, held_until, *zip(*rows, strict=True))
    ]


# Pending charges that are due: their worker crashed, or their result is unclear. Here and below the status is a
# parameter: as a constant it would make the planner scan all of `charges_one_per_order`.
CLAIM_PENDING = f"""
WITH due AS (
    SELECT account_id, id, order_id FROM charges
    WHERE status = $5 AND mode = $1 AND next_attempt_at <= $2 AND order_id IS NOT NULL
    ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED
)
UPDATE charges SET next_attempt_at = $3
FROM due JOIN orders ON orders.account_id = due.account_id AND orders.id = due.order_id
LEFT JOIN account_cards card ON card.account_id = due.account_id
WHERE charges.account_id = due.account_id AND charges.id = due.id
RETURNING {ATTEMPT}, orders.status = 'placed' AS is_wanted,
          charges.confirm_until IS NOT NULL AND orders.offset_link_id IS NULL AND card.created_at > charges.created_at
              AND card.method <> charges.method IS TRUE AS is_replaced
"""  # noqa: S608 - a constant


async def claim_pending(
    tx: Connection, mode: Mode, now: datetime, held_until: datetime, *, limit: int
) -> list[ChargeAttempt]:
    rows = await tx.fetch(CLAIM_PENDING, mode, now, held_until, limit, ChargeStatus.PENDING)
    return [read_attempt(row, is_wanted=row["is_wanted"], is_replaced=row["is_replaced"]) for row in rows]


_OF_ORDER = """
charges.account_id = $1
AND charges.id IN (SELECT paid.charge_id FROM charge_orders paid WHERE paid.account_id = $1 AND paid.order_id = $2)
"""
FIND_PENDING = f"""
SELECT {ATTEMPT} FROM charges WHERE {_OF_ORDER} AND status = 'pending'
"""  # noqa: S608 - a constant


async def find_pending(connection: Connection, order: Order) -> ChargeAttempt | None:
    """The pending charge of an order, or of its invoice: there is at most one."""
    return optional(read_attempt, await connection.fetchrow(FIND_PENDING, order.scope.account_id, order.id))


FIND_LAST_DECLINE = f"""
SELECT code, message FROM charges
WHERE {_OF_ORDER} AND status = 'failed' ORDER BY attempt DESC LIMIT 1
"""  # noqa: S608 - a constant


class Decline(NamedTuple):
    code: str | None
    message: str | None


async def find_last_decline(connection: Connection, order: Order) -> Decline | None:
    """Why the last charge of an order, or of its invoice, failed."""
    row = await connection.fetchrow(FIND_LAST_DECLINE, order.scope.account_id, order.id)
    return None if row is None else Decline(**row)


RECORD_PAGE = """
UPDATE charges SET session_id = $3 WHERE account_id = $1 AND id = $2 AND status = 'pending' RETURNING true
"""


async def record_page(connection: Connection, charge: ChargeRequest, session_id: str) -> bool:
    """Record the id of the page on which a charge is paid; false if the charge is no longer pending."""
    return await connection.fetchval(RECORD_PAGE, charge.account_id, charge.id, session_id) is True


# Compare-and-set: only the first update of a pending charge takes effect. The expected status is passed per row: for a
# single value the planner expects few rows and would compare each pending charge with each update. Exception: a
# capture also applies to a charge recorded as never made, if a delayed worker has sent it after all. A result without
# money applies only if it is about the page recorded now: a person may have been sent to a page recorded meanwhile.
# Such a late capture does not pay for an order that has another open charge by now: both could take the money. It is
# mismatched, so that a person decides.
SETTLE_CHARGES = """
UPDATE charges SET status = CASE WHEN charges.status = 'failed' AND new.status = 'captured' AND EXISTS (
                                     SELECT FROM charge_orders paid
                                     JOIN charge_orders again ON again.order_id = paid.order_id
                                     JOIN charges other ON other.account_id = again.account_id
                                                       AND other.id = again.charge_id
                                     WHERE paid.account_id = charges.account_id AND paid.charge_id = charges.id
                                       AND other.id <> charges.id
                                       AND other.status IN ('pending', 'captured'))
                                 THEN 'mismatched' ELSE new.status END,
                   outcome = new.outcome, reference = new.reference, code = new.code,
                   message = new.message, settled_at = new.settled_at, missing_since = new.missing_since,
                   next_attempt_at = new.next_attempt_at, confirm_until = new.confirm_until,
                   captured_minor = new.captured_minor, captured_currency = new.captured_currency,
                   is_surplus = new.is_surplus, check_at = new.check_at,
                   card_country = coalesce(new.card_country, charges.card_country)
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::timestamptz[], $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::bigint[], $14::text[],
            $15::boolean[], $16::timestamptz[], $17::text[], $18::text[])
     AS new (account_id, id, session_id, status, outcome, reference, code, message, settled_at, next_attempt_at,
             missing_since, confirm_until, captured_minor, captured_currency, is_surplus, check_at, expected,
             card_country)
WHERE charges.account_id = new.account_id AND charges.id = new.id
  AND (charges.session_id IS NOT DISTINCT FROM new.session_id OR new.reference IS NOT NULL)
  AND (charges.status = new.expected
       OR charges.status = 'failed' AND charges.outcome = 'not_found' AND new.reference IS NOT NULL)
RETURNING charges.id, charges.status
"""


async def settle_charges(tx: Connection, updates: Sequence[ChargeUpdate]) -> dict[str, ChargeStatus]:
    """Apply updates, at least one, and return the charges to which they applied with their status."""
    rows = [
        (
            *(new.account_id, new.id, new.session_id, new.status, new.outcome, new.reference, new.code, new.message),
            *(new.settled_at, new.next_attempt_at, new.missing_since, new.confirm_until, new.captured_minor),
            *(new.captured_currency, new.is_surplus, new.check_at, ChargeStatus.PENDING, new.card_country),
        )
        for new in updates
    ]
    settled = await tx.fetch(SETTLE_CHARGES, *zip(*rows, strict=True))
    return {row["id"]: ChargeStatus(row["status"]) for row in settled}


# Only of the card that was tried last: a payer who enters another card gets all its attempts.
COUNT_TRIES = """
SELECT keys.id, tried.tries,
       (SELECT count(*) FROM charges
        WHERE charges.account_id = keys.account_id AND charges.order_id = keys.id
          AND charges.attempt > tried.last_attempt AND charges.outcome = 'unavailable') AS unavailable
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
LEFT JOIN LATERAL (
    SELECT method FROM charges
    WHERE charges.account_id = keys.account_id AND charges.order_id = keys.id ORDER BY attempt DESC LIMIT 1
) last ON true
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE charges.method IS NOT DISTINCT FROM last.method) AS tries,
           coalesce(max(attempt), 0) AS last_attempt
    FROM charges
    WHERE charges.account_id = keys.account_id AND charges.order_id = keys.id
      AND charges.status = 'failed' AND charges.outcome NOT IN ('unavailable', 'replaced')
) tried
"""


async def count_tries(tx: Connection, keys: Sequence[OrderKey]) -> dict[str, TryCounts]:
    """The counts by order id."""
    rows = await tx.fetch(COUNT_TRIES, *columns(keys, "account_id, id"))
    return {row["id"]: TryCounts(row["tries"], row["unavailable"]) for row in rows}


MAKE_DUE = """
UPDATE charges SET next_attempt_at = least(next_attempt_at, $3)
WHERE id = $1 AND gateway = $2 AND status = 'pending' RETURNING true
"""


async def make_due_any_account(connection: Connection, charge_id: str, gateway: str, now: datetime) -> bool:
    """Have a pending charge looked up now; false if there is no such pending charge."""
    return await connection.fetchval(MAKE_DUE, charge_id, gateway, now) is True
