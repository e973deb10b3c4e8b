"""Read orders from their columns, as use cases and jobs need them. Endpoints return `wire_document` instead."""

import json
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import asyncpg

from tonne.platform.db.database import Connection, columns, scope_of, value_of
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Scope
from tonne.selling.catalogue.model import ExchangeRate
from tonne.selling.catalogue.prices.pricing import Priced, PricedLine
from tonne.selling.orders import model
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.store import LINE_COLUMNS, PROJECT_COLUMNS

# The currency of the catalogue matters only to an order with an exchange rate. LEFT JOIN: an order may be placed before
# the first import.
LOAD_ORDERS = """
SELECT orders.account_id, orders.id, orders.organisation_id, orders.mode, orders.idempotency_key, orders.type,
       orders.status, orders.currency, orders.payment_method, orders.requested_quantity_grams,
       orders.requested_value_minor, orders.bundle_selection, orders.quantity_grams, orders.offset_cost_minor,
       orders.total_cost_minor, orders.commission_minor, orders.fee_rate, orders.exchange_rate,
       orders.exchange_rate_source, orders.exchange_rate_as_of, orders.estimate_id, orders.offset_link_id, orders.email,
       accounts.beneficiary AS account_beneficiary,
       orders.metadata, orders.created_at, orders.payment_state, orders.tax_treatment, orders.tax_rate,
       orders.tax_minor, orders.billing_adjustment_minor, orders.billed_at IS NOT NULL AS was_billed_together,
       orders.refunded_minor, orders.failure_reason, orders.cancellation_reason,
       CASE WHEN orders.status = 'placed' THEN orders.hold_reason END AS hold_reason,
       orders.beneficiary_kind, orders.beneficiary_is_public, orders.language,
       orders.quantity_trunc, orders.quote_id, orders.external_id, orders.external_id_verified, orders.reference,
       orders.supplied_on, orders.certificate_due_on, orders.fulfil_after, orders.fulfil_manually,
       accounts.fulfil_delay, coalesce(orders.beneficiary, accounts.beneficiary) AS beneficiary,
       catalogues.currency AS catalogue_currency, accounts.auto_advance,
       accounts.simulated_supply_grams, accounts.receipt_email, document.shown ->> 'certificate' AS certificate_url,
       document.shown ->> 'public_certificate_url' AS public_certificate_url
FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN orders ON orders.account_id = keys.account_id AND orders.id = keys.id
JOIN accounts ON accounts.organisation_id = orders.organisation_id AND accounts.id = orders.account_id
LEFT JOIN catalogues ON catalogues.mode = orders.mode
LEFT JOIN LATERAL (
    SELECT convert_from(orders.wire_document, 'UTF8')::json AS shown WHERE orders.status = 'complete'
) document ON true
"""
LOAD_LINES = f"""
SELECT order_id, {LINE_COLUMNS} FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN order_lines line ON line.account_id = keys.account_id AND line.order_id = keys.id
ORDER BY order_id, position
"""  # noqa: S608 - a constant
LOAD_PROJECTS = f"""
SELECT order_id, {PROJECT_COLUMNS} FROM unnest($1::text[], $2::text[]) AS keys (account_id, id)
JOIN order_projects project ON project.account_id = keys.account_id AND project.order_id = keys.id
ORDER BY order_id, position
"""  # noqa: S608 - a constant


async def load_orders(connection: Connection, keys: Sequence[model.OrderKey]) -> list[model.Order]:
    """In the order of `keys`. Raises LookupError when one is missing, or its account is."""
    orders = await _load(connection, keys)
    if missing := [key.id for key in keys if key.id not in orders]:
        raise LookupError(f"no order {', '.join(missing)}, or no account of it")
    return [orders[key.id] for key in keys]


async def load_order(connection: Connection, scope: Scope, order_id: str) -> model.Order | None:
    return (await _load(connection, [model.OrderKey(scope.account_id, order_id)])).get(order_id)


async def require_order(connection: Connection, scope: Scope, order_id: str) -> model.Order:
    """Raises OrderNotFound."""
    order = await load_order(connection, scope, order_id)
    if order is None:
        raise OrderNotFound
    return order


async def _load(connection: Connection, keys: Sequence[model.OrderKey]) -> dict[str, model.Order]:
    requested = columns(keys, "account_id, id")
    rows = await connection.fetch(LOAD_ORDERS, *requested)
    lines: defaultdict[str, list[PricedLine]] = defaultdict(list)
    for line in await connection.fetch(LOAD_LINES, *requested):
        lines[line["order_id"]].append(value_of(PricedLine, line))
    projects: defaultdict[str, list[model.OrderProject]] = defaultdict(list)
    if any(
        model.OrderStatus(row["status"]) in {model.OrderStatus.RETIRING, model.OrderStatus.COMPLETE} for row in rows
    ):
        for project in await connection.fetch(LOAD_PROJECTS, *requested):
            projects[project["order_id"]].append(value_of(model.OrderProject, project))
    return {row["id"]: _order(row, tuple(lines[row["id"]]), tuple(projects[row["id"]])) for row in rows}


def _order(row: asyncpg.Record, lines: tuple[PricedLine, ...], projects: tuple[model.OrderProject, ...]) -> model.Order:
    selection = row["bundle_selection"]
    return value_of(
        model.Order,
        row,
        scope=scope_of(row),
        bundle_selection=None if selection is None else json.loads(selection),
        priced=_priced(row, lines),
        tax=model.OrderTax(TaxTreatment(row["tax_treatment"]), Fraction(row["tax_rate"]), row["tax_minor"]),
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
    return value_of(Priced, row, fee_rate=Fraction(row["fee_rate"]), exchange=exchange, lines=lines)
