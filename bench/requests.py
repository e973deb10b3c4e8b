"""The requests that the benchmarks fire."""

import json
import random
from urllib.parse import quote

from bench.load import Shot, get, post
from bench.stage import Stage
from bench.tenants import Tenant

METADATA = '{"invoice":"A-17","cost_centre":4711}'
# Tenants come up in no order, so that some requests meet at one organisation's stream, as they do in real life.
_CHANCE = random.Random(20261115)


def creates(stage: Stage, count: int = 5_000) -> list[Shot]:
    by_tenant = {tenant.key: _create(tenant) for tenant in stage.tenants}
    return [by_tenant[_CHANCE.choice(stage.tenants).key] for _ in range(count)]


def _create(tenant: Tenant) -> Shot:
    body = f'{{"estimate_id":"{tenant.estimate_id}","metadata":{METADATA},"idempotency_key":"'
    return post("/v1/orders/by-estimate", tenant.key, body, '"}')


SAMPLE = """
SELECT account_id, idempotency_key, octet_length(wire_document) AS length FROM orders ORDER BY random() LIMIT $1
"""


async def reads(stage: Stage, count: int = 2_000) -> list[Shot]:
    """Of orders picked from all that there are."""
    keys = {tenant.scope.account_id: tenant.key for tenant in stage.tenants}
    async with stage.connection() as connection:
        rows = await connection.fetch(SAMPLE, count)
    return [get(read_path(row["idempotency_key"]), keys[row["account_id"]], length=row["length"]) for row in rows]


def read_path(idempotency_key: str) -> str:
    return f"/v1/orders/by-idempotency-key/{quote(idempotency_key, safe='')}"


def page(stage: Stage, tenant: Tenant, limit: int, after: str | None = None) -> Shot:
    """A page, which must come out as long as it is now."""
    path = page_path(limit, after)
    return get(path, tenant.key, length=len(stage.fetch(get(path, tenant.key))))


def page_path(limit: int, after: str | None) -> str:
    return f"/v1/orders?limit={limit}" + (f"&after={after}" if after else "")


def cursor_behind(stage: Stage, tenant: Tenant, orders: int) -> str:
    """The cursor that a client holds after `orders` orders, found as a client finds it: page by page."""
    after: str | None = None
    while orders:
        limit = min(orders, 100)
        answer = json.loads(stage.fetch(get(page_path(limit, after), tenant.key)))
        if not answer["has_more"]:
            raise LookupError(f"the list ends {orders} orders too early")
        after = answer["next_cursor"]
        orders -= limit
    if after is None:
        raise ValueError("the first page needs no cursor")
    return after
