"""The limit of creating orders: asyncpg sends the same statements with the same rows to PostgreSQL.

Ids, prices and documents are made before the clock starts, so that only the writing is measured.
"""

import asyncio
import contextlib
import hashlib
import random
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import asyncpg

from bench.environment import METADATA, SECRET_KEY
from bench.tenants import MASS_GRAMS, MODE, Tenant
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.estimates.store import FIND_MASS
from tonne.selling.orders.placing.place_order import OrderRequest, place_order


class _Statement(NamedTuple):
    sql: str
    values: tuple[object, ...]


class _Recorder:
    """Replaces the connection and records the statements that write an order."""

    def __init__(self) -> None:
        self.statements: list[_Statement] = []

    async def fetchval(self, sql: str, *values: object) -> int:
        if sql == FIND_MASS:
            return MASS_GRAMS
        self.statements.append(_Statement(sql, values))
        return True

    async def execute(self, sql: str, *values: object) -> str:
        self.statements.append(_Statement(sql, values))
        return "INSERT 0 2"


async def write_orders(
    url: str, orders: Sequence[list[_Statement]], *, connections: int, warm_up_s: float, seconds: float
) -> tuple[int, float]:
    """How many orders were written in all, and how many per second after the warm-up.

    If all of them are written, the measurement ends early.
    """
    opened: list[Connection] = [await asyncpg.connect(url, server_settings={"jit": "off"}) for _ in range(connections)]
    prepared = [{sql: await connection.prepare(sql) for sql, _ in orders[0]} for connection in opened]
    waiting = iter(orders)
    written = in_time = 0
    since = time.perf_counter() + warm_up_s
    until = ended_at = since + seconds

    async def write(connection: Connection, prepared: dict[str, Any]) -> None:
        nonlocal written, in_time, ended_at
        for statements in waiting:
            # A single statement needs no explicit transaction, which saves the limit two round trips.
            async with connection.transaction() if len(statements) > 1 else contextlib.nullcontext():
                for sql, values in statements:
                    await prepared[sql].fetchval(*values)
            written += 1
            now = time.perf_counter()
            if now >= until:
                return
            in_time += now >= since
        ended_at = min(ended_at, time.perf_counter())

    await asyncio.gather(*map(write, opened, prepared))
    for connection in opened:
        await connection.close()
    return written, in_time / (ended_at - since)


async def prepare_orders(
    url: str, server_port: int, tenants: Sequence[Tenant], key_prefix: str, count: int
) -> list[list[_Statement]]:
    """The statements of orders for tenants at random. The port is part of the image addresses in the documents."""
    settings = Settings(port=server_port, secret_key=SECRET_KEY)
    database = await Database(url, settings).open()
    services = Services(database, settings)
    catalogue = await services.catalogues.current(MODE)
    terms = {tenant.scope: await services.directory.terms_of(tenant.scope) for tenant in tenants}
    await database.close()
    rng = random.Random(key_prefix)
    orders = []
    for number in range(count):
        tenant = rng.choice(tenants)
        key = f"{key_prefix}{number:012d}"
        request = OrderRequest(
            requested=PriceRequest(),
            idempotency=Idempotency(key, hashlib.sha256(key.encode()).digest()),
            metadata=METADATA,
            estimate_id=tenant.estimate_id,
        )
        tx: Any = _Recorder()
        scope = tenant.scope
        await place_order(tx, scope, request, terms[scope], catalogue, now=utc_now(), retry_after=timedelta(0))
        orders.append(tx.statements)
    return orders
