"""The limit of creating orders: asyncpg sends the same statements with the same rows to PostgreSQL.

Ids, prices and documents are made before the clock starts, so that only the writing is measured.
"""

import asyncio
import contextlib
import hashlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import asyncpg
import uvloop

from bench.requests import METADATA
from bench.tenants import MODE, Tenant
from tonne.accounts.model import Terms
from tonne.app import Services
from tonne.base.clock import utc_now
from tonne.base.idempotency import Idempotency
from tonne.base.settings import Settings
from tonne.catalog.model import Catalogue
from tonne.catalog.price import PriceRequest
from tonne.db.pool import Connection, Database
from tonne.estimates.store import find_mass_grams
from tonne.orders.place_order import OrderRequest, place_order


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectWrites:
    url: str
    # Part of the image addresses in the documents.
    server_port: int
    connections: int
    warm_up_s: float
    seconds: float
    # How many orders are prepared. If they are used up, the measurement ends early.
    orders: int
    tenants: Sequence[Tenant]
    key_prefix: str


class _Statement(NamedTuple):
    sql: str
    values: tuple[object, ...]


class _Recorder:
    """Replaces the connection and records the statements of an order."""

    def __init__(self) -> None:
        self.statements: list[_Statement] = []

    async def fetchval(self, sql: str, *values: object) -> bool:
        self.statements.append(_Statement(sql, values))
        return True

    async def execute(self, sql: str, *values: object) -> str:
        self.statements.append(_Statement(sql, values))
        return "INSERT 0 2"


def write_orders(writes: DirectWrites) -> tuple[int, float]:
    """How many orders were written in all, and how many per second after the warm-up."""
    return uvloop.run(_Run(writes).run())


class _Run:
    def __init__(self, writes: DirectWrites) -> None:
        self._writes = writes
        self._written = self._in_time = 0

    async def run(self) -> tuple[int, float]:
        writes = self._writes
        orders = await _prepare(writes)
        connections = [
            await asyncpg.connect(writes.url, server_settings={"jit": "off"}) for _ in range(writes.connections)
        ]
        prepared = [
            {statement.sql: await connection.prepare(statement.sql) for statement in orders[0]}
            for connection in connections
        ]
        self._orders = iter(orders)
        self._since = time.perf_counter() + writes.warm_up_s
        self._until = self._ended_at = self._since + writes.seconds
        async with asyncio.TaskGroup() as group:
            for connection, statements in zip(connections, prepared, strict=True):
                group.create_task(self._write(connection, statements))
        for connection in connections:
            await connection.close()
        return self._written, self._in_time / (self._ended_at - self._since)

    async def _write(self, connection: Connection, prepared: dict[str, Any]) -> None:
        for statements in self._orders:
            # A single statement needs no explicit transaction, which saves the limit two round trips.
            async with connection.transaction() if len(statements) > 1 else contextlib.nullcontext():
                for sql, values in statements:
                    await prepared[sql].fetchval(*values)
            self._written += 1
            now = time.perf_counter()
            if now >= self._until:
                return
            self._in_time += now >= self._since
        self._ended_at = min(self._ended_at, time.perf_counter())


async def _prepare(writes: DirectWrites) -> list[list[_Statement]]:
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
    rng = random.Random(writes.key_prefix)
    orders = []
    for number in range(writes.orders):
        tenant = rng.choice(writes.tenants)
        key = f"{writes.key_prefix}{number:012d}"
        request = OrderRequest(
            wanted=PriceRequest(mass_grams=masses[tenant.scope]),
            idempotency=Idempotency(key, hashlib.sha256(key.encode()).digest()),
            metadata=METADATA,
        )
        orders.append(await _record(tenant, request, terms[tenant.scope], catalogue))
    return orders


async def _record(tenant: Tenant, request: OrderRequest, terms: Terms, catalogue: Catalogue) -> list[_Statement]:
    recorder = _Recorder()
    await place_order(
        recorder,  # type: ignore[arg-type]
        tenant.scope,
        request,
        terms,
        catalogue,
        now=utc_now(),
        retry_after=timedelta(0),
    )
    return recorder.statements
