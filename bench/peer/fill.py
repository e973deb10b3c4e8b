"""Gives the peer the tenants, the catalogue and the orders that Tonne has."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import create_async_engine

from bench.peer.app import driver_url
from bench.peer.catalogue import Account
from bench.peer.orders import EVENT_FIELDS, OrderFields, events_of, order_document
from bench.peer.pricing import RATE_UNIT, PricedLine
from bench.peer.tables import Base, OrderLineRow, OrderRow
from bench.tenants import MODE
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection
from tonne.platform.http.authenticator import hash_key
from tonne.platform.values.context import Scope
from tonne.selling.catalogue.selection import resolve_default

_BATCH = 1_000


async def create_tables(url: str) -> None:
    engine = create_async_engine(driver_url(url))
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    await engine.dispose()


async def copy_tenants(
    services: Services, tenants: Sequence[tuple[Scope, str]], peer: Connection
) -> dict[str, Account]:
    """Copy the accounts with these API keys, estimates and bundles. Returns the accounts by id."""
    catalogue = await services.catalogues.current(MODE)
    accounts = [await _account(services, scope) for scope, _ in tenants]
    async with services.database.connection() as connection:
        estimates = await connection.fetch("SELECT account_id, id, mass_grams FROM estimates")
    bundles = [
        (each.id, each.name, each.primary_image, each.unit_price_minor, each.free_grams, each.enabled)
        for each in catalogue.bundles.values()
    ]
    await peer.copy_records_to_table("bundles", records=bundles)
    await peer.copy_records_to_table("estimates", records=map(tuple, estimates))
    await peer.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    await peer.executemany(INSERT_ACCOUNT, accounts)
    keys = [(hash_key(key.encode()), scope.account_id, None) for scope, key in tenants]
    await peer.copy_records_to_table("api_keys", records=keys)
    return {account.id: account for account in accounts}


INSERT_ACCOUNT = "INSERT INTO accounts VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"


async def _account(services: Services, scope: Scope) -> Account:
    terms = await services.directory.terms_of(scope)
    shares = resolve_default(terms.default_selection, await services.catalogues.current(MODE))
    return Account(
        scope.account_id,
        scope.organisation_id,
        terms.currency,
        terms.beneficiary,
        terms.payment_method,
        int(terms.fee_rate * RATE_UNIT),
        int(terms.tax.rate * RATE_UNIT),
        [(share.bundle.id, share.weight) for share in shares],
    )


# The peer has the names of Tonne's columns, with one exception.
_ORDER_COLUMNS = [column.name for column in OrderRow.__table__.columns]
_LINE_COLUMNS = [column.name for column in OrderLineRow.__table__.columns]
_OUTBOX_COLUMNS = ["organisation_id", "account_id", "created_at", *EVENT_FIELDS]
LIST_ORDERS = f"SELECT {', '.join(_ORDER_COLUMNS)} FROM orders ORDER BY created_at, id".replace(
    "order_metadata", "metadata AS order_metadata"
)
LIST_LINES = f"SELECT {', '.join(_LINE_COLUMNS)} FROM order_lines ORDER BY account_id, order_id, position"


async def copy_orders(tonne: Connection, peer: Connection, accounts: dict[str, Account]) -> None:
    """Copy all orders of Tonne with their lines, and write their events."""
    orders = await tonne.fetch(LIST_ORDERS)
    lines = await tonne.fetch(LIST_LINES)
    of_order: dict[str, list[PricedLine]] = {}
    for line in lines:
        of_order.setdefault(line["order_id"], []).append(PricedLine(*[line[name] for name in PricedLine._fields]))
    await _copy(peer, "orders", _ORDER_COLUMNS, orders)
    await _copy(peer, "order_lines", _LINE_COLUMNS, lines)
    for start in range(0, len(orders), _BATCH):
        events = []
        for order in orders[start : start + _BATCH]:
            document = order_document([order[name] for name in OrderFields._fields], of_order[order["id"]])
            account, placed = accounts[order["account_id"]], orjson.dumps(document)
            own = (account.organisation_id, account.id, order["created_at"])
            events += [(*own, *event) for event in events_of(account, document, placed)]
        await peer.copy_records_to_table("outbox", columns=_OUTBOX_COLUMNS, records=events)
    await peer.execute("VACUUM ANALYZE")


async def _copy(peer: Connection, table: str, columns: list[str], rows: Iterable[Any]) -> None:
    records = [[row[name] for name in columns] for row in rows]
    await peer.copy_records_to_table(table, columns=columns, records=records)
