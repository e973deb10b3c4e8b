"""Requests per second, compared with the best that the same machine can do."""

from collections.abc import Sequence
from statistics import fmean, median, quantiles
from typing import Any
from urllib.parse import quote

from bench.api.direct_writes import prepare_orders, write_orders
from bench.environment import Environment
from bench.load import PreparedRequest, get, post_always
from bench.pace import ApiPace
from bench.report import Goal, NotMeasured, Result
from bench.server import bare_path, hold_bodies
from bench.tenants import Tenant

CONNECTIONS = 32
GOAL = Goal(reach=0.60)
GOAL_304 = Goal(reach=0.60)
CREATE_GOAL = Goal(reach=0.90)
LIST_GOAL = Goal(reach=0.27)
QUOTE_GOAL = Goal(reach=0.35)
LOCKED_QUOTE_GOAL = Goal(reach=0.30)
AT_MOST = Goal(reach=1.0, at_most=True)
BARE_BODIES = 50
# At 70 hundredths of the highest rate.
P99_MS = 45.0
SHARE_OF_HIGHEST_RATE = 0.7
CPU_US_PER_ORDER = 1000.0


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


async def create(environment: Environment, pace: ApiPace) -> list[Result]:
    """Orders per second over HTTP, compared with writing the same rows by asyncpg, one transaction per order."""
    await environment.require_durable()
    before = await count_orders(environment)
    placed, over_http, directly, cpu_us = 0, [], [], []
    latencies_s: list[float] = []
    for _ in range(pace.rounds):
        orders = await prepare_orders(
            environment.url, environment.port, environment.tenants, environment.key_prefix(), pace.direct_orders
        )
        limits = {"warm_up_s": pace.warm_up_s, "seconds": pace.round_s}
        written, per_second = environment.in_load_process(
            write_orders, environment.url, orders, connections=CONNECTIONS, **limits
        )
        outcome, used_us = await environment.run_measured_load(
            environment.create_requests(), connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s
        )
        placed += written + outcome.answered
        directly.append(per_second)
        over_http.append(outcome.per_second)
        cpu_us.append(used_us)
        latencies_s += outcome.latencies_s
    paced = environment.run_load(
        environment.create_requests(),
        connections=CONNECTIONS * 2,
        warm_up_s=pace.warm_up_s,
        seconds=pace.round_s * 2,
        per_second=median(over_http) * SHARE_OF_HIGHEST_RATE,
    )
    await _require_placed(environment, before, placed + paced.answered)
    return [
        Result("create", median(over_http), "orders/s", median(directly), CREATE_GOAL),
        Result("create_cpu", median(cpu_us), "µs", CPU_US_PER_ORDER, AT_MOST),
        Result("create_p99", p99_ms(latencies_s), "ms", 2000 * fmean(latencies_s), AT_MOST),
        Result("create_p99_at_70_percent", p99_ms(paced.latencies_s), "ms", P99_MS, AT_MOST),
    ]


async def create_hot(environment: Environment, pace: ApiPace) -> list[Result]:
    """Orders per second of one account, compared with those of fifty accounts. All requests have one stream."""
    await environment.require_durable()
    before = await count_orders(environment)
    hot, many = environment.create_requests(environment.tenants[:1]), environment.create_requests()
    placed = 0
    of_one: list[float] = []
    of_many: list[float] = []
    for _ in range(pace.rounds):
        for requests, rates in ((many, of_many), (hot, of_one)):
            outcome = environment.run_load(
                requests, connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s
            )
            placed += outcome.answered
            rates.append(outcome.per_second)
    await _require_placed(environment, before, placed)
    return [Result("create_hot", median(of_one), "orders/s", median(of_many), CREATE_GOAL)]


async def create_alone(environment: Environment, pace: ApiPace) -> list[Result]:
    """The time of one order after the other, on one connection, compared with the mean time of writing its rows."""
    await environment.require_durable()
    before = await count_orders(environment)
    pace_of_load: dict[str, Any] = {"connections": 1, "warm_up_s": pace.warm_up_s, "seconds": pace.round_s}
    placed, direct_ms = 0, []
    latencies_s: list[float] = []
    for _ in range(pace.rounds):
        orders = await prepare_orders(
            environment.url, environment.port, environment.tenants, environment.key_prefix(), pace.direct_orders
        )
        written, per_second = environment.in_load_process(write_orders, environment.url, orders, **pace_of_load)
        outcome = environment.run_load(environment.create_requests(), **pace_of_load)
        placed += written + outcome.answered
        direct_ms.append(1000 / per_second)
        latencies_s += outcome.latencies_s
    await _require_placed(environment, before, placed)
    return [
        Result("create_alone_p50", median(latencies_s) * 1000, "ms", median(direct_ms)),
        Result("create_alone_p99", p99_ms(latencies_s), "ms", median(direct_ms)),
    ]


async def _require_placed(environment: Environment, before: int, placed: int) -> None:
    """Every order that was confirmed, and no other, is in the database, and all invariants hold."""
    found = await count_orders(environment) - before
    if found != placed:
        raise NotMeasured(f"{placed} orders were placed, but {found} are in the database.")
    await environment.require_consistent()


def p99_ms(latencies_s: list[float]) -> float:
    return quantiles(latencies_s, n=100)[98] * 1000


async def read_by_key(environment: Environment, pace: ApiPace) -> list[Result]:
    """Reads of one order per second, compared with an endpoint that already holds the same bytes."""
    requests = await read_requests(environment, 2_000)
    return await _compare_with_bare(environment, pace, "read_by_key", requests, "order", goal=GOAL)


async def list_100(environment: Environment, pace: ApiPace) -> list[Result]:
    """Pages of 100 orders per second; and the same by clients that have them already."""
    pages = [page_request(environment, tenant, 100) for tenant in environment.tenants]
    results = await _compare_with_bare(environment, pace, "list_100", pages, "page", goal=LIST_GOAL)
    known = [
        get(page_path(100, None), tenant.key, etag=environment.fetch_etag(page))
        for tenant, page in zip(environment.tenants, pages, strict=True)
    ]
    order = await read_requests(environment, 1)
    return [
        *results,
        *await _compare_with_bare(environment, pace, "list_100_304", known, "order", goal=GOAL_304, held=order),
    ]


async def quote_by_mass(environment: Environment, pace: ApiPace) -> list[Result]:
    """Quotes per second, and locked quotes per second, compared with an endpoint that already holds the same bytes."""
    await environment.require_durable()
    results = []
    for name, path, status, goal in (
        ("quote", "/v1/orders/by-mass/quote", 200, QUOTE_GOAL),
        ("locked_quote", "/v1/quotes", 201, LOCKED_QUOTE_GOAL),
    ):
        requests = [_quote_request(environment, tenant, path, status) for tenant in environment.tenants]
        results += await _compare_with_bare(environment, pace, name, requests, name, goal=goal)
    return results


def _quote_request(environment: Environment, tenant: Tenant, path: str, status: int) -> PreparedRequest:
    body = '{"mass":{"amount":"1.105697","unit":"t"}}'
    length = len(environment.fetch(post_always(path, tenant.key, body, status=status)))
    return post_always(path, tenant.key, body, status=status, length=length)


async def _compare_with_bare(
    environment: Environment,
    pace: ApiPace,
    name: str,
    requests: list[PreparedRequest],
    bare_name: str,
    *,
    goal: Goal,
    held: Sequence[PreparedRequest] = (),
) -> list[Result]:
    """Rate and CPU time per request. The bare route returns the bytes of up to 50 of the requests, or of `held`."""
    bare = [bare_request(environment, (held or requests)[:BARE_BODIES], bare_name)]
    if not held and any(request.length != bare[0].length for request in requests):
        raise NotMeasured(f"The responses compared with the bare {bare_name} do not all have the same length.")
    rates: dict[bool, list[float]] = {False: [], True: []}
    cpu_us: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(pace.rounds):
        for is_bare, target in ((True, bare), (False, requests)):
            outcome, used_us = await environment.run_measured_load(
                target, connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s
            )
            rates[is_bare].append(outcome.per_second)
            cpu_us[is_bare].append(used_us)
    return [
        Result(name, median(rates[False]), "requests/s", median(rates[True]), goal),
        Result(f"{name}_cpu", median(cpu_us[False]), "µs", median(cpu_us[True])),
    ]


def bare_request(environment: Environment, requests: Sequence[PreparedRequest], bare_name: str) -> PreparedRequest:
    """Let a bare route return the bytes that `requests` get now, in turn."""
    bodies = [environment.fetch(request) for request in requests]
    hold_bodies(environment.folder, bare_name, bodies)
    return get(bare_path(bare_name), length=len(bodies[0]))


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
