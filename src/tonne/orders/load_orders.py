"""Orders as values, from their columns: what workers and moves of status need."""

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

import asyncpg

from tonne.accounts.model import PaymentMethod
from tonne.base.scope import Mode, Scope
from tonne.catalog.model import ExchangeRate
from tonne.catalog.pricing import Priced, PricedLine
from tonne.db.pool import Connection
from tonne.orders.model import Order, OrderProject, OrderStatus, OrderType


class OrderKey(NamedTuple):
    account_id: str
    id: str


LOAD_ORDERS = """
SELECT orders.account_id, orders.id, orders.organisation_id, orders.mode, orders.idempotency_key, orders.type,
       orders.status, orders.currency, orders.payment_method, orders.requested_quantity_grams,
       orders.requested_value_minor, orders.bundle_selection, orders.quantity_grams, orders.offset_cost_minor,
       orders.total_cost_minor, orders.commission_minor, orders.fee_rate, orders.exchange_rate,
       orders.exchange_rate_source, orders.exchange_rate_as_of, orders.estimate_id, orders.offset_link_id, orders.email,
       orders.metadata, orders.created_at, catalogues.currency AS catalogue_currency, accounts.auto_advance
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN orders ON orders.account_id = wanted.account_id AND orders.id = wanted.id
JOIN accounts ON accounts.organisation_id = orders.organisation_id AND accounts.id = orders.account_id
JOIN catalogues ON catalogues.mode = orders.mode
"""
LOAD_LINES = """
SELECT line.order_id, line.bundle_id, line.bundle_name, line.primary_image, line.quantity_grams, line.unit_price_minor,
       line.gross_unit_price_minor, line.offset_cost_minor, line.insufficient_available_quantity
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN order_lines line ON line.account_id = wanted.account_id AND line.order_id = wanted.id
ORDER BY line.order_id, line.position
"""
LOAD_PROJECTS = """
SELECT project.order_id, project.line_position, project.project_id, project.project_name, project.project_type,
       project.project_slug, project.quantity_grams, project.unit_price_minor, project.offset_cost_minor
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
JOIN order_projects project ON project.account_id = wanted.account_id AND project.order_id = wanted.id
ORDER BY project.order_id, project.position
"""


async def load_orders(connection: Connection, keys: Sequence[OrderKey]) -> list[Order]:
    """In the order of `keys`; what is not there is left out."""
    accounts, ids = [key.account_id for key in keys], [key.id for key in keys]
    rows = {row["id"]: row for row in await connection.fetch(LOAD_ORDERS, accounts, ids)}
    lines: defaultdict[str, list[PricedLine]] = defaultdict(list)
    for order_id, *line in await connection.fetch(LOAD_LINES, accounts, ids):
        lines[order_id].append(PricedLine(*line))
    projects: defaultdict[str, list[OrderProject]] = defaultdict(list)
    if any(OrderStatus(row["status"]) is OrderStatus.RETIRING for row in rows.values()):
        for order_id, *project in await connection.fetch(LOAD_PROJECTS, accounts, ids):
            projects[order_id].append(OrderProject(*project))
    return [_order(rows[id_], tuple(lines[id_]), tuple(projects[id_])) for id_ in ids if id_ in rows]


async def load_order(connection: Connection, scope: Scope, order_id: str) -> Order | None:
    found = await load_orders(connection, [OrderKey(scope.account_id, order_id)])
    return found[0] if found else None


LOCK_ORDER = "SELECT true FROM orders WHERE account_id = $1 AND id = $2 FOR UPDATE"


async def lock_order(tx: Connection, scope: Scope, order_id: str) -> Order | None:
    """The order, which nobody else can move until the transaction ends."""
    await tx.execute(LOCK_ORDER, scope.account_id, order_id)
    return await load_order(tx, scope, order_id)


# Locks due orders that no other worker has, whatever their account: those that waited longest first.
CLAIM_DUE = """
SELECT account_id, id FROM orders
WHERE status = $1 AND mode = $2 AND next_attempt_at <= $3 AND ($5::text IS NULL OR payment_method = $5)
ORDER BY next_attempt_at LIMIT $4 FOR UPDATE SKIP LOCKED
"""


async def claim_due_any_account(
    tx: Connection,
    status: OrderStatus,
    mode: Mode,
    now: datetime,
    *,
    limit: int,
    payment_method: PaymentMethod | None = None,
) -> list[OrderKey]:
    rows = await tx.fetch(CLAIM_DUE, status, mode, now, limit, payment_method)
    return [OrderKey(row["account_id"], row["id"]) for row in rows]


POSTPONE = """
UPDATE orders SET next_attempt_at = $4
FROM unnest($1::text[], $2::text[]) AS wanted (account_id, id)
WHERE orders.account_id = wanted.account_id AND orders.id = wanted.id AND orders.status = $3
"""


async def postpone(tx: Connection, keys: Sequence[OrderKey], status: OrderStatus, until: datetime | None) -> None:
    """Look at these again at `until`, or only when something else says so."""
    await tx.execute(POSTPONE, [key.account_id for key in keys], [key.id for key in keys], status, until)


def _order(row: asyncpg.Record, lines: tuple[PricedLine, ...], projects: tuple[OrderProject, ...]) -> Order:
    selection = row["bundle_selection"]
    return Order(
        scope=Scope(row["organisation_id"], row["account_id"], Mode(row["mode"])),
        id=row["id"],
        idempotency_key=row["idempotency_key"],
        type=OrderType(row["type"]),
        status=OrderStatus(row["status"]),
        currency=row["currency"],
        payment_method=PaymentMethod(row["payment_method"]),
        requested_quantity_grams=row["requested_quantity_grams"],
        requested_value_minor=row["requested_value_minor"],
        bundle_selection=None if selection is None else json.loads(selection),
        priced=_priced(row, lines),
        estimate_id=row["estimate_id"],
        offset_link_id=row["offset_link_id"],
        email=row["email"],
        metadata=row["metadata"],
        created_at=row["created_at"],
        auto_advance=row["auto_advance"],
        projects=projects,
    )


def _priced(row: asyncpg.Record, lines: tuple[PricedLine, ...]) -> Priced | None:
    if row["quantity_grams"] is None:
        return None
    exchange = None
    if row["exchange_rate"] is not None:
        exchange = ExchangeRate(
            base=row["catalogue_currency"],
            quote=row["currency"],
            rate=row["exchange_rate"],
            source=row["exchange_rate_source"],
            as_of=row["exchange_rate_as_of"],
        )
    return Priced(
        currency=row["currency"],
        fee_rate=Fraction(row["fee_rate"]),
        exchange=exchange,
        quantity_grams=row["quantity_grams"],
        offset_cost_minor=row["offset_cost_minor"],
        commission_minor=row["commission_minor"],
        total_cost_minor=row["total_cost_minor"],
        lines=lines,
    )
