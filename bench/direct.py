"""The limit of creating orders: the same statements with the same rows, sent to PostgreSQL by asyncpg and nothing else.

Ids, prices and documents are made before the clock starts, so that only the writing is measured.
"""

import asyncio
import contextlib
import hashlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import asyncpg
import uvloop

from bench.tenants import MODE, Tenant
from tonne.accounts.model import Terms
from tonne.app import Services
from tonne.base.clock import utc_now
from tonne.base.settings import Settings
from tonne.catalog.model import Catalogue
from tonne.db.pool import Connection, Database
from tonne.estimates.store import find_mass_grams
from tonne.orders.place_order import OrderRequest, Wanted, compose_order, place_order, price


@dataclass(frozen=True, slots=True, kw_only=True)
class Writes:
    url: str
    # Stands in the addresses of images, and so in the documents.
    server_port: int
    connections: int
    warm_up_s: float
    seconds: float
    # How many orders are made ready: enough for the whole time, or it ends early.
    orders: int
    tenants: Sequence[Tenant]
    metadata: str
    key_prefix: str


@dataclass(frozen=True, slots=True)
class Written:
    orders: int
    per_second: float


class _Statement(NamedTuple):
    sql: str
    values: tuple[object, ...]


class _Recorder:
    """Stands in for a connection and notes what placing an order would send."""

    def __init__(self) -> None:
        self.statements: list[_Statement] = []

    async def fetchval(self, sql: str, *values: object) -> bool:
        self.statements.append(_Statement(sql, values))
        return True

    async def execute(self, sql: str, *values: object) -> str:
        self.statements.append(_Statement(sql, values))
        return "INSERT 0 2"


def write(writes: Writes) -> Written:
    return uvloop.run(_write(writes))


async def _write(writes: Writes) -> Written:
    orders = await _make_ready(writes)
    connections = [await asyncpg.connect(writes.url, server_settings={"jit": "off"}) for _ in range(writes.connections)]
    prepared = [
        {statement.sql: await connection.prepare(statement.sql) for statement in orders[0]}
        for connection in connections
    ]
    tally = _Tally(writes, iter(orders))
    async with asyncio.TaskGroup() as group:
        for connection, statements in zip(connections, prepared, strict=True):
            group.create_task(_write_orders(connection, statements, tally))
    for connection in connections:
        await connection.close()
    return Written(tally.written, tally.in_time / (min(tally.until, tally.ended_at) - tally.since))


class _Tally:
    def __init__(self, writes: Writes, orders: Iterator[list[_Statement]]) -> None:
        self.orders = orders
        self.since = time.perf_counter() + writes.warm_up_s
        self.until = self.since + writes.seconds
        self.ended_at = self.until
        self.written = 0
        self.in_time = 0


async def _write_orders(connection: Connection, prepared: dict[str, Any], tally: _Tally) -> None:
    for statements in tally.orders:
        # A single statement is its own transaction: two round trips less is what the limit is entitled to.
        async with connection.transaction() if len(statements) > 1 else contextlib.nullcontext():
            for sql, values in statements:
                await prepared[sql].fetchval(*values)
        tally.written += 1
        now = time.perf_counter()
        if now >= tally.until:
            return
        tally.in_time += now >= tally.since
    tally.ended_at = min(tally.ended_at, time.perf_counter())


async def _make_ready(writes: Writes) -> list[list[_Statement]]:
    settings = Settings(port=writes.server_port)
    database = await Database(writes.url, settings).open()
    services = Services(database, settings)
    catalogue = await services.catalogues.current(MODE)
    async with database.connection() as connection:
        masses = {
            tenant.scope: await find_mass_grams(connection, tenant.scope, tenant.estimate_id)
            for tenant in writes.tenants
        }
    terms = {tenant.scope: await services.directory.terms_of(tenant.scope) for tenant in writes.tenants}
    await database.close()
    chance = random.Random(writes.key_prefix)
    orders = []
    for number in range(writes.orders):
        tenant = chance.choice(writes.tenants)
        wanted = Wanted(mass_grams=masses[tenant.scope], estimate_id=tenant.estimate_id)
        request = OrderRequest(wanted, f"{writes.key_prefix}{number:012d}", writes.metadata, b"")
        orders.append(await _record(tenant, request, terms[tenant.scope], catalogue))
    return orders


async def _record(tenant: Tenant, request: OrderRequest, terms: Terms, catalogue: Catalogue) -> list[_Statement]:
    digest = hashlib.sha256((request.idempotency_key or "").encode()).digest()
    priced = price(request.wanted, terms, catalogue)
    order = compose_order(tenant.scope, request, terms, priced=priced, now=utc_now())
    recorder = _Recorder()
    await place_order(recorder, order, digest, retry_after=timedelta(0))  # type: ignore[arg-type]
    return recorder.statements
