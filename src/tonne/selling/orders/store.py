"""SQL of orders and their lines."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from tonne.platform.db.database import Connection, Row, columns, optional, parameters_of
from tonne.platform.events.notification import Stream
from tonne.platform.values.context import Actor, Mode, Scope
from tonne.platform.values.erased import ERASED_DIGEST
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.orders.model import Order, OrderKey, OrderStatus, OrderTax
from tonne.selling.orders.totals.bundle_totals import count_lines, lock_pending
from tonne.selling.orders.totals.metadata_totals import move_values

# Columns of `order_lines` and `order_projects` without keys and positions: the fields of PricedLine and OrderProject.
LINE_COLUMNS = """bundle_id, bundle_name, primary_image, quantity_grams, unit_price_minor, gross_unit_price_minor, \
offset_cost_minor, insufficient_available_quantity"""
PROJECT_COLUMNS = """line_position, project_id, project_name, project_type, project_slug, project_logo, \
quantity_grams, unit_price_minor, offset_cost_minor, status"""

FIND_BY_KEY = "SELECT wire_document, request_digest FROM orders WHERE account_id = $1 AND idempotency_key = $2"


async def find_by_key(connection: Connection, scope: Scope, idempotency_key: str) -> tuple[bytes, bytes] | None:
    """The order's document and the digest of the request that placed it."""
    row = await connection.fetchrow(FIND_BY_KEY, scope.account_id, idempotency_key)
    return None if row is None else (row["wire_document"], row["request_digest"])


FIND_KEY_OF_ORDER = "SELECT placed_by_key FROM orders WHERE account_id = $1 AND id = $2"


async def find_key_of_order(connection: Connection, scope: Scope, order_id: str) -> str | None:
    """The API key that placed the order; None if a checkout did."""
    return optional(str, await connection.fetchval(FIND_KEY_OF_ORDER, scope.account_id, order_id))


FIND_BY_ID = "SELECT wire_document FROM orders WHERE account_id = $1 AND id = $2"


async def find_by_id(connection: Connection, scope: Scope, order_id: str) -> bytes | None:
    return optional(bytes, await connection.fetchval(FIND_BY_ID, scope.account_id, order_id))


COUNT_ORDERS_OF_LINK = """
SELECT count(*) FROM (SELECT FROM orders WHERE account_id = $1 AND offset_link_id = $2 LIMIT $3) AS found
"""


async def count_orders_of_link(connection: Connection, scope: Scope, offset_link_id: str, limit: int) -> int:
    """Counts up to `limit`, so that the time is bounded."""
    return int(await connection.fetchval(COUNT_ORDERS_OF_LINK, scope.account_id, offset_link_id, limit))


# Compare-and-set on the status.
MOVE_ORDER = """
UPDATE orders SET status = $3, payment_state = $4, refunded_minor = $5, failure_reason = $6, cancellation_reason = $7,
                  status_changed_at = $11, wire_document = $12, next_attempt_at = $13, fulfil_after = $8,
                  fulfil_manually = $9
WHERE account_id = $1 AND id = $2 AND status = $10 RETURNING true
"""


async def move_order(
    tx: Connection,
    order: Order,
    *,
    expected: OrderStatus,
    document: bytes,
    now: datetime,
    next_attempt_at: datetime | None,
) -> bool:
    """`order` is the new state. False if the stored status is not `expected`."""
    names = "scope.account_id, id, status, payment_state, refunded_minor, failure_reason, cancellation_reason, "
    names += "fulfil_after, fulfil_manually"
    values = parameters_of(order, names)
    return await tx.fetchval(MOVE_ORDER, *values, expected, now, document, next_attempt_at) is True


# For several orders. Only the last status of each is written, even if it makes several transitions. No credits are
# allocated to a paid order before its time, by any caller.
MOVE_ORDERS = """
UPDATE orders SET status = move.status, status_changed_at = $7, next_attempt_at = move.next_attempt_at,
                  wire_document = move.document, payment_state = move.payment_state,
                  refunded_minor = move.refunded_minor, failure_reason = move.failure_reason,
                  cancellation_reason = move.cancellation_reason, supplied_on = move.supplied_on,
                  fulfil_after = move.fulfil_after, fulfil_manually = move.fulfil_manually
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::timestamptz[], $8::text[], $9::bigint[],
            $10::text[], $11::text[], $12::date[], $13::timestamptz[], $14::boolean[])
     AS move (account_id, id, expected, status, document, next_attempt_at, payment_state, refunded_minor,
              failure_reason, cancellation_reason, supplied_on, fulfil_after, fulfil_manually)
WHERE orders.account_id = move.account_id AND orders.id = move.id AND orders.status = move.expected
  AND (orders.status <> 'paid' OR move.status = 'cancelled' OR coalesce(move.fulfil_after <= $7, true))
RETURNING orders.id
"""


class Moved(NamedTuple):
    order: Order
    expected: OrderStatus
    document: bytes
    next_attempt_at: datetime | None


async def move_orders(tx: Connection, moves: Sequence[Moved], now: datetime) -> set[str]:
    """The ids of the orders that had the expected status."""
    rows = await tx.fetch(
        MOVE_ORDERS,
        *columns(moves, "order.scope.account_id, order.id, expected, order.status, document, next_attempt_at"),
        now,
        *columns(moves, "order.payment_state, order.refunded_minor, order.failure_reason, order.cancellation_reason"),
        *columns(moves, "order.supplied_on, order.fulfil_after, order.fulfil_manually"),
    )
    return {row["id"] for row in rows}


# Only documents that differ: rewriting an order that looks the same would cost a row version.
REWRITE_DOCUMENTS = """
UPDATE orders SET wire_document = changed.document, payment_state = changed.payment_state,
                  refunded_minor = changed.refunded_minor, beneficiary = changed.beneficiary,
                  tax_treatment = changed.tax_treatment, tax_rate = changed.tax_rate, tax_minor = changed.tax_minor,
                  hold_reason = changed.hold_reason, certificate_due_on = changed.certificate_due_on
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[], $8::date[],
            $9::text[], $10::numeric[], $11::bigint[], $12::bytea[])
     AS changed (account_id, id, status, payment_state, refunded_minor, beneficiary, hold_reason, certificate_due_on,
                 tax_treatment, tax_rate, tax_minor, document)
WHERE orders.account_id = changed.account_id AND orders.id = changed.id AND orders.status = changed.status
  AND orders.wire_document <> changed.document
RETURNING orders.organisation_id, orders.mode
"""


async def rewrite_documents(tx: Connection, orders: Sequence[Order], documents: Sequence[bytes]) -> set[Stream]:
    """Each order with its new document, and the columns that may change while the status does not.

    Returns the streams of those that changed.
    """
    names = "scope.account_id, id, status, payment_state, refunded_minor, beneficiary, hold_reason, certificate_due_on"
    rows = await tx.fetch(
        REWRITE_DOCUMENTS,
        *columns(orders, names),
        [order.tax.treatment for order in orders],
        [_numeric(order.tax.rate) for order in orders],
        [order.tax.tax_minor for order in orders],
        documents,
    )
    return _streams(rows)


def _streams(rows: Iterable[Row]) -> set[Stream]:
    return {Stream(row["organisation_id"], Mode(row["mode"])) for row in rows}


FIND_DOCUMENTS = """
SELECT orders.account_id, orders.id, orders.wire_document FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
"""


async def find_documents(connection: Connection, keys: Sequence[OrderKey]) -> dict[OrderKey, bytes]:
    rows = await connection.fetch(FIND_DOCUMENTS, *columns(keys, "account_id, id"))
    return {OrderKey(row["account_id"], row["id"]): row["wire_document"] for row in rows}


class Billed(NamedTuple):
    account_id: str
    id: str
    tax_minor: int
    adjustment_minor: int
    document: bytes


STORE_BILLED = """
UPDATE orders SET tax_minor = billed.tax_minor, billing_adjustment_minor = billed.adjustment_minor, billed_at = $1,
                  wire_document = billed.document
FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bytea[])
     AS billed (account_id, id, tax_minor, adjustment_minor, document)
WHERE orders.account_id = billed.account_id AND orders.id = billed.id RETURNING orders.organisation_id, orders.mode
"""


async def store_billed(tx: Connection, orders: Sequence[Billed], now: datetime) -> set[Stream]:
    """Sets what was not known when these locked orders were placed. Returns their streams."""
    names = "account_id, id, tax_minor, adjustment_minor, document"
    return _streams(await tx.fetch(STORE_BILLED, now, *columns(orders, names)))


SET_BENEFICIARY = """
UPDATE orders SET beneficiary = $3, beneficiary_kind = $4, beneficiary_is_public = $5
WHERE account_id = $1 AND id = $2
"""


async def set_beneficiary(tx: Connection, order: Order) -> None:
    """The name of a locked order. Rewrite its JSON afterwards."""
    names = "scope.account_id, id, beneficiary, beneficiary_kind, beneficiary_is_public"
    await tx.execute(SET_BENEFICIARY, *parameters_of(order, names))


STORE_PAYMENT = """
UPDATE orders SET payment_state = $3, refunded_minor = $4, wire_document = $5 WHERE account_id = $1 AND id = $2
"""


async def store_payment(tx: Connection, order: Order, document: bytes) -> None:
    """Updates the document of a locked order whose status does not change."""
    await tx.execute(
        STORE_PAYMENT, order.scope.account_id, order.id, order.payment_state, order.refunded_minor, document
    )


SET_EMAIL = "UPDATE orders SET email = $3, wire_document = $4 WHERE account_id = $1 AND id = $2"


async def set_email(tx: Connection, order: Order, document: bytes) -> None:
    await tx.execute(SET_EMAIL, order.scope.account_id, order.id, order.email, document)


# The digest of the request is overwritten: it was computed from the data.
ERASE_PERSON = """
UPDATE orders SET email = $3, beneficiary = $4, beneficiary_is_public = $5, metadata = $6, idempotency_key = $7,
                  external_id = $8, reference = $9, cancel_reason = $10, request_digest = $11, wire_document = $12
WHERE account_id = $1 AND id = $2
"""


async def erase_person(tx: Connection, order: Order, cancel_reason: str | None, document: bytes) -> None:
    """Store a locked order without the data of a person."""
    await move_values(tx, order, order.metadata)
    names = "scope.account_id, id, email, beneficiary, beneficiary_is_public, metadata, idempotency_key, external_id, "
    names += "reference"
    await tx.execute(ERASE_PERSON, *parameters_of(order, names), cancel_reason, ERASED_DIGEST, document)


SET_CANCELLATION = "UPDATE orders SET cancelled_by = $3, cancel_reason = $4 WHERE account_id = $1 AND id = $2"


async def note_cancellation(tx: Connection, order: Order, *, actor: Actor, reason: str | None) -> None:
    await tx.execute(SET_CANCELLATION, order.scope.account_id, order.id, str(actor), reason)


# For a received order. Applies once: lines never change afterwards.
PRICE_ORDER = f"""
WITH priced AS (
    UPDATE orders SET quantity_grams = $3, offset_cost_minor = $4, total_cost_minor = $5, commission_minor = $6,
        fee_rate = $7, exchange_rate = $8, exchange_rate_source = $9, exchange_rate_as_of = $10, tax_treatment = $19,
        tax_rate = $20, tax_minor = $21
    WHERE account_id = $1 AND id = $2 AND quantity_grams IS NULL
    RETURNING account_id, id
)
INSERT INTO order_lines (account_id, order_id, {LINE_COLUMNS}, position)
SELECT priced.account_id, priced.id, line.*
FROM priced, unnest($11::text[], $12::text[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[],
                    $17::bigint[], $18::boolean[]) WITH ORDINALITY AS line
"""  # noqa: S608 - a constant


async def price_order(tx: Connection, order: Order) -> None:
    await tx.execute(
        PRICE_ORDER,
        order.scope.account_id,
        order.id,
        *price_columns(order.priced),
        *columns(order.lines, LINE_COLUMNS),
        *tax_columns(order.tax),
    )


INSERT_PROJECTS = f"""
INSERT INTO order_projects (account_id, order_id, position, {PROJECT_COLUMNS})
SELECT account_id, order_id, position, {PROJECT_COLUMNS}
FROM unnest($1::text[], $2::text[], $3::smallint[], $4::smallint[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::bigint[], $11::bigint[], $12::bigint[], $13::text[])
     AS new (account_id, order_id, position, {PROJECT_COLUMNS})
"""  # noqa: S608 - a constant


async def insert_projects(tx: Connection, orders: Sequence[Order]) -> None:
    """The projects that supply was allocated from."""
    rows = [(order.key, position) for order in orders for position in range(1, len(order.projects) + 1)]
    projects = [project for order in orders for project in order.projects]
    await tx.execute(
        INSERT_PROJECTS,
        *columns([key for key, _ in rows], "account_id, id"),
        [position for _, position in rows],
        *columns(projects, PROJECT_COLUMNS),
    )


DELETE_PROJECTS = "DELETE FROM order_projects WHERE account_id = $1 AND order_id = $2"


async def replace_projects(tx: Connection, order: Order) -> None:
    """Store the projects of a locked order that was supplied from other lots."""
    await lock_pending(tx, order)
    await count_lines(tx, order, times=-1)
    await tx.execute(DELETE_PROJECTS, order.scope.account_id, order.id)
    await insert_projects(tx, [order])
    await count_lines(tx, order, times=1)


class RetiredProject(NamedTuple):
    """Every gram that a line of an order has of the project is retired."""

    account_id: str
    order_id: str
    line_position: int
    project_id: str


NOTE_RETIRED = """
UPDATE order_projects SET status = 'retired'
WHERE (account_id, order_id, position) IN (
    SELECT project.account_id, project.order_id, project.position
    FROM unnest($1::text[], $2::text[], $3::smallint[], $4::text[])
         AS retired (account_id, order_id, line_position, project_id)
    JOIN order_projects project USING (account_id, order_id, line_position, project_id)
    WHERE project.status = 'allocated'
    ORDER BY project.account_id, project.order_id, project.position FOR NO KEY UPDATE OF project)
"""


async def note_retired(tx: Connection, retired: Sequence[RetiredProject]) -> None:
    """Clients see it when the JSON of the orders is written next."""
    await tx.execute(NOTE_RETIRED, *columns(retired, "account_id, order_id, line_position, project_id"))


def price_columns(priced: Priced | None) -> tuple[object, ...]:
    if priced is None:
        return (None,) * 8
    exchange = priced.exchange
    return (
        priced.quantity_grams,
        priced.offset_cost_minor,
        priced.total_cost_minor,
        priced.commission_minor,
        _numeric(priced.fee_rate),
        None if exchange is None else exchange.rate,
        None if exchange is None else exchange.source,
        None if exchange is None else exchange.as_of,
    )


def tax_columns(tax: OrderTax) -> tuple[object, ...]:
    return tax.treatment, _numeric(tax.rate), tax.tax_minor


def _numeric(rate: Fraction) -> Decimal:
    return Decimal(rate.numerator) / rate.denominator


COUNT_ORDERS = "SELECT count(*) FROM orders"


async def count_orders(connection: Connection) -> int:
    return int(await connection.fetchval(COUNT_ORDERS))


# A batch is read by its key, so that it takes the same time whether or not its orders contain the bytes.
LOCK_DOCUMENTS = """
WITH batch AS MATERIALIZED (
    SELECT account_id, id, wire_document FROM orders WHERE (account_id, id) > ($1, $2)
    ORDER BY account_id, id LIMIT $3 FOR NO KEY UPDATE
)
SELECT account_id, id, CASE WHEN position($4::bytea IN wire_document) > 0 THEN wire_document END AS document
FROM batch ORDER BY account_id, id
"""


async def lock_documents_any_account(
    tx: Connection, after: OrderKey, part: bytes, limit: int
) -> list[tuple[OrderKey, bytes | None]]:
    """The next orders in the order of their keys, with the JSON of those that contain `part`."""
    rows = await tx.fetch(LOCK_DOCUMENTS, *after, limit, part)
    return [(OrderKey(row["account_id"], row["id"]), row["document"]) for row in rows]


STORE_DOCUMENTS = """
UPDATE orders SET wire_document = item.document
FROM unnest($1::text[], $2::text[], $3::bytea[]) AS item (account_id, id, document)
WHERE orders.account_id = item.account_id AND orders.id = item.id RETURNING orders.organisation_id, orders.mode
"""


async def store_documents(tx: Connection, keys: Sequence[OrderKey], documents: Sequence[bytes]) -> set[Stream]:
    """Returns the streams of the orders."""
    return _streams(await tx.fetch(STORE_DOCUMENTS, *columns(keys, "account_id, id"), documents))
