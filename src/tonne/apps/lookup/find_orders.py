"""Finds orders for people, newest first: the one engine behind command line and dashboard.

A page reads at most `SCANNED` rows of an index. If too few of them match, the page is short and says from where to
continue: no combination of filters can make a page slow, however many orders there are.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection, columns, parameters_of
from tonne.platform.values.context import Mode, Tenant, replace
from tonne.platform.values.paging import START, Position
from tonne.selling.orders.model import OrderKey, OrderStatus, PaymentState
from tonne.selling.orders.order_filter import OrderFilter

SCANNED = 10_000
# A term may name the orders of an invoice or a customer, which may be very many. The newest are enough to find one.
MAX_NAMED = 2_000
_EARLIEST = datetime(1, 1, 1, tzinfo=UTC)
_FIELDS = """
id, mode, status, payment_state, created_at, quantity_grams, total_cost_minor, amount_due_minor, refunded_minor,
currency, payment_method, email, beneficiary, idempotency_key, offset_link_id, metadata, account_id, organisation_id,
status_changed_at, hold_reason, requested_quantity_grams, requested_value_minor, external_id, reference
"""
_FOUND = """
orders.id, orders.mode, orders.status, orders.payment_state, orders.created_at, orders.quantity_grams,
orders.total_cost_minor,
orders.total_cost_minor + orders.billing_adjustment_minor + orders.tax_minor AS amount_due_minor,
orders.refunded_minor,
orders.currency, orders.payment_method, orders.email, orders.beneficiary, orders.idempotency_key,
orders.offset_link_id, orders.metadata, orders.account_id, orders.organisation_id, orders.status_changed_at,
orders.hold_reason, orders.requested_quantity_grams, orders.requested_value_minor, orders.estimate_id,
orders.external_id, orders.reference
"""
_MATCHES = """
($1::text IS NULL OR found.organisation_id = $1) AND ($7::text IS NULL OR found.account_id = $7)
  AND ($8::text IS NULL OR found.status = $8) AND ($9::text IS NULL OR found.payment_state = $9)
  AND ($10::text IS NULL OR found.payment_method = $10)
  AND ($11::text IS NULL
       OR strpos(lower(concat_ws(' ', found.external_id, found.reference, found.metadata)), lower($11)) > 0)
  AND ($12::text IS NULL OR found.estimate_id = $12) AND ($13::text IS NULL OR found.offset_link_id = $13)
  AND ($14::text IS NULL OR (SELECT true FROM order_lines line
       WHERE line.account_id = found.account_id AND line.order_id = found.id AND line.bundle_id = $14 LIMIT 1) IS TRUE)
  AND ($15::text[] IS NULL OR NOT EXISTS (SELECT FROM unnest($15::text[], $16::text[]) AS keys (key, value)
       WHERE found.metadata::json ->> keys.key IS DISTINCT FROM keys.value))
"""
_BEFORE = "orders.mode = $2 AND (orders.created_at, orders.id) < ($3, $4) AND orders.created_at >= $5"
_NEWEST = f"""
      ORDER BY orders.created_at DESC, orders.id DESC LIMIT {SCANNED}) AS found
) AS scanned WHERE matches OR place = {SCANNED} LIMIT $6
"""
# What all lists select. The condition that names an index follows, then `_BEFORE` and `_NEWEST`.
_SCANNED = f"""
{_FIELDS}, place, matches FROM (
    SELECT {_FIELDS}, row_number() OVER () AS place, {_MATCHES} AS matches FROM (
      SELECT {_FOUND} FROM orders WHERE
"""  # noqa: S608 - constants


class FoundOrder(Struct, frozen=True, kw_only=True):
    id: str
    mode: str
    status: str
    payment_state: str
    created_at: datetime
    quantity_grams: int | None
    total_cost_minor: int | None
    # Null until the tax is known.
    amount_due_minor: int | None
    refunded_minor: int
    currency: str
    payment_method: str
    email: str | None
    beneficiary: str | None
    idempotency_key: str
    offset_link_id: str | None
    metadata: str
    account_id: str
    organisation_id: str
    status_changed_at: datetime
    hold_reason: str | None
    # One of the two is set. The quantity and the cost are null until the order is priced.
    requested_quantity_grams: int | None
    requested_value_minor: int | None
    external_id: str | None
    reference: str | None

    @property
    def shown_grams(self) -> int | None:
        return self.requested_quantity_grams if self.quantity_grams is None else self.quantity_grams


class ListedOrders(Struct, frozen=True):
    """`next` is where to continue, None after the last order. `is_short`: more orders may match than were read."""

    orders: list[FoundOrder]
    next: Position | None
    is_short: bool


# From the seventh parameter on.
_FILTERS = "account_id, status, payment_state, payment_method, metadata_part, estimate_id, offset_link_id, bundle_id"


def _values(filters: OrderFilter, start: Position, limit: int) -> tuple[object, ...]:
    """The parameters of the statements below."""
    before = filters.latest(start)
    return (
        filters.organisation_id,
        filters.mode,
        before.created_at,
        before.id,
        filters.created_after or _EARLIEST,
        limit,
        *parameters_of(filters, _FILTERS),
        *filters.metadata_arrays,
    )


async def list_page(
    connection: Connection, filters: OrderFilter, start: Position = START, *, limit: int
) -> ListedOrders:
    """One page of an organisation's orders."""
    if filters.organisation_id is None:
        raise LookupError("the filter names no organisation")
    values = _values(filters, start, limit + 1)
    return _page(await _list_of_organisation(connection, filters.organisation_id, filters, values), limit)


async def list_page_any_account(
    connection: Connection, filters: OrderFilter, start: Position = START, *, limit: int
) -> ListedOrders:
    """For the operator. An account is a filter only together with its organisation."""
    if filters.stuck_at is not None:
        return _page(await _list_stuck_any_account(connection, filters, start, limit + 1), limit)
    if filters.organisation_id is not None:
        return await list_page(connection, filters, start, limit=limit)
    return _page(await _list_any_account(connection, filters, _values(filters, start, limit + 1)), limit)


def _page(rows: Sequence[asyncpg.Record], limit: int) -> ListedOrders:
    orders = [FoundOrder(**{name: row[name] for name in _NAMES}) for row in rows if row["matches"]]
    if len(orders) > limit:
        last = orders[limit - 1]
        return ListedOrders(orders[:limit], Position(last.created_at, last.id), is_short=False)
    if rows and rows[-1]["place"] == SCANNED:
        return ListedOrders(orders, Position(rows[-1]["created_at"], rows[-1]["id"]), is_short=True)
    return ListedOrders(orders, None, is_short=False)


_NAMES = tuple(name.strip() for name in _FIELDS.split(","))

# In each statement below, the parameters are those of `_values`.
LIST_OF_ORGANISATION = f"SELECT {_SCANNED} orders.organisation_id = $1 AND {_BEFORE} {_NEWEST}"
# `<> 'complete'` says that the partial index can be used, whatever the parameter is.
LIST_OF_STATUS = f"""
SELECT {_SCANNED} orders.organisation_id = $1 AND orders.status = $8 AND orders.status <> 'complete'
  AND {_BEFORE} {_NEWEST}
"""
LIST_OF_PAYMENT_STATE = f"""
SELECT {_SCANNED} orders.organisation_id = $1 AND orders.payment_state = $9
  AND orders.payment_state IN ('refunded', 'disputed') AND {_BEFORE} {_NEWEST}
"""
LIST_OF_ACCOUNT = f"""
SELECT {_SCANNED} orders.account_id = $7 AND orders.organisation_id = $1 AND {_BEFORE} {_NEWEST}
"""


async def _list_of_organisation(
    connection: Connection, organisation_id: str, filters: OrderFilter, values: Sequence[object]
) -> list[asyncpg.Record]:
    """Through the index that fits the filters best."""
    statement = LIST_OF_ORGANISATION
    if filters.account_id is not None:
        statement = LIST_OF_ACCOUNT
    elif filters.status is not None and filters.status is not OrderStatus.COMPLETE:
        statement = LIST_OF_STATUS
    elif filters.payment_state in {PaymentState.REFUNDED, PaymentState.DISPUTED}:
        statement = LIST_OF_PAYMENT_STATE
    return await connection.fetch(statement, organisation_id, *values[1:])


LIST_ALL = f"SELECT {_SCANNED} {_BEFORE} {_NEWEST}"
LIST_OPEN = f"""
SELECT {_SCANNED} orders.status IN ('received', 'placed', 'paid', 'retiring') AND {_BEFORE} {_NEWEST}
"""


async def _list_any_account(
    connection: Connection, filters: OrderFilter, values: Sequence[object]
) -> list[asyncpg.Record]:
    is_open = filters.status in {OrderStatus.RECEIVED, OrderStatus.PLACED, OrderStatus.PAID, OrderStatus.RETIRING}
    return await connection.fetch(LIST_OPEN if is_open else LIST_ALL, *values)


# Placed orders of a checkout are cancelled by a job. Invoices have their own reminders: only old ones count.
LIST_STUCK = f"""
SELECT {_FIELDS}, place, matches FROM (
    SELECT {_FIELDS}, row_number() OVER () AS place, {_MATCHES} AND (
        found.status IN ('received', 'paid') AND found.status_changed_at < $17
        OR found.status = 'retiring' AND found.status_changed_at < $18
        OR found.status = 'placed' AND found.hold_reason IS NOT NULL
        OR found.status = 'placed' AND found.offset_link_id IS NULL
           AND found.status_changed_at < CASE found.payment_method WHEN 'card' THEN $18 ELSE $19 END::timestamptz
    ) AS matches FROM (
      SELECT {_FOUND} FROM orders
      WHERE orders.status IN ('received', 'placed', 'paid', 'retiring') AND {_BEFORE} {_NEWEST}
"""  # noqa: S608 - constants


async def _list_stuck_any_account(
    connection: Connection, filters: OrderFilter, start: Position, limit: int
) -> list[asyncpg.Record]:
    at = filters.stuck_at or _EARLIEST
    limits = (at - timedelta(hours=1), at - timedelta(days=1), at - timedelta(days=30))
    return await connection.fetch(LIST_STUCK, *_values(filters, start, limit), *limits)


# Newest first: ids begin with the time.
FIND_NAMED = """
SELECT account_id, id FROM (
    SELECT orders.account_id, orders.id FROM accounts
    JOIN orders ON orders.account_id = accounts.id AND orders.id = $3
    WHERE accounts.organisation_id = $1 AND accounts.mode = $2
    UNION SELECT orders.account_id, orders.id FROM accounts
    JOIN orders ON orders.account_id = accounts.id AND orders.idempotency_key = $3
    WHERE accounts.organisation_id = $1 AND accounts.mode = $2
    UNION SELECT orders.account_id, orders.id FROM accounts
    JOIN orders ON orders.account_id = accounts.id AND orders.external_id = $3
    WHERE accounts.organisation_id = $1 AND accounts.mode = $2
    UNION SELECT orders.account_id, orders.id FROM accounts
    JOIN orders ON orders.account_id = accounts.id AND orders.reference = $3
    WHERE accounts.organisation_id = $1 AND accounts.mode = $2
    UNION SELECT account_id, id FROM orders
    WHERE email IS NOT NULL AND lower(email) = lower($3) AND organisation_id = $1 AND mode = $2
    UNION SELECT account_id, order_id FROM certificates WHERE number = $4 AND organisation_id = $1 AND mode = $2
    UNION SELECT billed.account_id, billed.order_id FROM invoices
    JOIN invoice_orders billed ON billed.invoice_id = invoices.id
    WHERE invoices.id IN (SELECT $3 UNION ALL SELECT coalesce(note.invoice_id, named.id) FROM tax_documents named
                          LEFT JOIN credit_notes note ON note.id = named.corrects AND note.cause = 'replacement'
                          WHERE named.reference = upper($3))
      AND invoices.organisation_id = $1 AND invoices.mode = $2
) AS named ORDER BY id DESC LIMIT $5
"""


async def find_named(connection: Connection, tenant: Tenant, term: str, *, certificate: str) -> list[OrderKey]:
    """The orders that a term names: id, key, external id, reference, e-mail, or number of certificate or invoice.

    `certificate` is the term as the number of a certificate, in its usual form.
    """
    rows = await connection.fetch(FIND_NAMED, *tenant, term, certificate, MAX_NAMED)
    return [OrderKey(row["account_id"], row["id"]) for row in rows]


LIST_NAMED = f"""
SELECT {_FIELDS}, 0 AS place, matches FROM (
    SELECT {_FIELDS}, {_MATCHES} AS matches FROM (
        SELECT {_FOUND} FROM unnest($17::text[], $18::text[]) AS keys (account_id, id)
        JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
        WHERE {_BEFORE}) AS found
) AS named WHERE matches ORDER BY created_at DESC, id DESC LIMIT $6
"""  # noqa: S608 - constants


async def list_named(
    connection: Connection, keys: Sequence[OrderKey], filters: OrderFilter, start: Position = START, *, limit: int
) -> ListedOrders:
    """Those of the orders that match the filter."""
    rows = await connection.fetch(LIST_NAMED, *_values(filters, start, limit + 1), *columns(keys, "account_id, id"))
    return _page(rows, limit)


async def list_newest_any_account(
    connection: Connection, filters: OrderFilter, limit: int, keys: Sequence[OrderKey] | None = None
) -> list[FoundOrder]:
    """At most `limit`, of both modes unless the filter names one. With `keys`, only these orders."""
    found: list[FoundOrder] = []
    for mode in Mode if filters.mode is None else (filters.mode,):
        of_mode, left = replace(filters, mode=mode), limit
        start: Position | None = START
        while start is not None and left > 0:
            page = (
                await list_page_any_account(connection, of_mode, start, limit=left)
                if keys is None
                else await list_named(connection, keys, of_mode, start, limit=left)
            )
            found += page.orders
            left, start = left - len(page.orders), page.next
    return sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)[:limit]


# Each part uses an index: what is unique per account only is looked up once per account.
FIND_KEYS = """
SELECT orders.account_id, orders.id FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.id = $1
UNION SELECT orders.account_id, orders.id
FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.idempotency_key = $1
UNION SELECT orders.account_id, orders.id
FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.external_id = $1
UNION SELECT orders.account_id, orders.id
FROM accounts JOIN orders ON orders.account_id = accounts.id AND orders.reference = $1
UNION SELECT account_id, id FROM orders WHERE email IS NOT NULL AND lower(email) = lower($1)
UNION SELECT account_id, order_id FROM certificates WHERE number = upper($1)
UNION SELECT charges.account_id, paid.order_id FROM charges
      JOIN charge_orders paid ON paid.account_id = charges.account_id AND paid.charge_id = charges.id
      WHERE charges.id = $1 OR charges.reference = $1
UNION SELECT billed.account_id, billed.order_id FROM invoices
      JOIN invoice_orders billed ON billed.invoice_id = invoices.id
      WHERE invoices.id IN (SELECT $1 UNION ALL SELECT coalesce(note.invoice_id, named.id) FROM tax_documents named
                            LEFT JOIN credit_notes note ON note.id = named.corrects AND note.cause = 'replacement'
                            WHERE named.reference = upper($1))
UNION SELECT billed.account_id, billed.order_id FROM bank_transfers transfer
      JOIN invoice_orders billed ON billed.invoice_id = transfer.invoice_id
      WHERE transfer.id = $1 OR transfer.reference = $1
UNION SELECT account_id, order_id FROM checkouts WHERE id = $1 AND order_id IS NOT NULL
"""


async def find_keys_any_account(connection: Connection, term: str) -> list[OrderKey]:
    """The orders that a term names: an id, e-mail address, key, external id, certificate, invoice or reference.

    The id may be the order's, or that of a charge, invoice, transfer or checkout.
    """
    return [OrderKey(row["account_id"], row["id"]) for row in await connection.fetch(FIND_KEYS, term)]
