"""Requests per second, compared with the best that the same machine can do."""

from statistics import median
from urllib.parse import quote

from bench.api.direct_writes import prepare_orders, write_orders
from bench.environment import Environment
from bench.load import PreparedRequest, get
from bench.pace import ApiPace
from bench.report import Goal, NotMeasured, Result
from bench.server import bare_path, body_file
from bench.tenants import Tenant

CONNECTIONS = 32
GOAL = Goal(reach=0.40, aim=0.60)


COUNT_ROWS = """
SELECT (SELECT count(*) FROM orders) AS orders, (SELECT count(*) FROM events) AS events,
       (SELECT count(DISTINCT (account_id, order_id)) FROM order_lines) AS orders_with_lines
"""


async def count_orders(environment: Environment) -> int:
    """How many orders there are, each with its lines and its two events."""
    async with environment.connection() as connection:
        row = await connection.fetchrow(COUNT_ROWS)
    if row is None or not row["orders"] * 2 == row["orders_with_lines"] * 2 == row["events"]:
        raise NotMeasured(f"Some orders lack lines or events: {row}.")
    orders: int = row["orders"]
    return orders


async def create(environment: Environment, pace: ApiPace) -> Result:
    """Orders per second over HTTP, compared with writing the same rows by asyncpg."""
    await environment.require_durable()
    before = await count_orders(environment)
    placed, over_http, directly = 0, [], []
    for _ in range(pace.rounds):
        orders = await prepare_orders(
            environment.url, environment.port, environment.tenants, environment.key_prefix(), pace.direct_orders
        )
        limits = {"warm_up_s": pace.warm_up_s, "seconds": pace.round_s}
        written, per_second = environment.in_load_process(
            write_orders, environment.url, orders, connections=CONNECTIONS, **limits
        )
        outcome = environment.run_load(
            environment.create_requests(), connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s
        )
        placed += written + outcome.answered
        directly.append(per_second)
        over_http.append(outcome.per_second)
    found = await count_orders(environment) - before
    if found != placed:
        raise NotMeasured(f"{placed} orders were placed, but {found} are in the database.")
    await environment.require_consistent()
    return Result("create", median(over_http), "orders/s", median(directly), GOAL)


async def read_by_key(environment: Environment, pace: ApiPace) -> Result:
    """Reads of one order per second, compared with an endpoint that already holds the same bytes."""
    return _compare_with_bare(environment, pace, "read_by_key", await read_requests(environment, 2_000), "order")


async def list_100(environment: Environment, pace: ApiPace) -> Result:
    """Pages of 100 orders per second, compared with an endpoint that already holds the same bytes."""
    pages = [page_request(environment, tenant, 100) for tenant in environment.tenants]
    return _compare_with_bare(environment, pace, "list_100", pages, "page")


def _compare_with_bare(
    environment: Environment, pace: ApiPace, name: str, requests: list[PreparedRequest], bare_name: str
) -> Result:
    bare = [bare_request(environment, requests[0], bare_name)]
    if any(request.length != bare[0].length for request in requests):
        raise NotMeasured(f"The responses of {name} do not all have the same length.")
    values: list[float] = []
    limits: list[float] = []
    for _ in range(pace.rounds):
        for target, rates in ((bare, limits), (requests, values)):
            outcome = environment.run_load(
                target, connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s
            )
            rates.append(outcome.per_second)
    return Result(name, median(values), "requests/s", median(limits), GOAL)


def bare_request(environment: Environment, request: PreparedRequest, bare_name: str) -> PreparedRequest:
    """Let a bare route return the bytes that `request` gets now."""
    body = environment.fetch(request)
    body_file(environment.folder, bare_name).write_bytes(body)
    return get(bare_path(bare_name), length=len(body))


SAMPLE = """
SELECT account_id, idempotency_key, octet_length(wire_document) AS length FROM orders ORDER BY random() LIMIT $1
"""


async def read_requests(environment: Environment, count: int) -> list[PreparedRequest]:
    """Reads of orders chosen at random."""
    keys = {tenant.scope.account_id: tenant.key for tenant in environment.tenants}
    async with environment.connection() as connection:
        rows = await connection.fetch(SAMPLE, count)
    path = "/v1/orders/by-idempotency-key"
    return [
        get(f"{path}/{quote(row['idempotency_key'], safe='')}", keys[row["account_id"]], length=row["length"])
        for row in rows
    ]


def page_request(environment: Environment, tenant: Tenant, limit: int, after: str | None = None) -> PreparedRequest:
    """A page whose response must have the length that it has now."""
    path = page_path(limit, after)
    return get(path, tenant.key, length=len(environment.fetch(get(path, tenant.key))))


def page_path(limit: int, after: str | None) -> str:
    return f"/v1/orders?limit={limit}" + (f"&after={after}" if after else "")
