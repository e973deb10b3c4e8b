"""How many requests a second, against what the same machine could do at best."""

from statistics import median

from bench import direct
from bench.checks import NotMeasured, count_orders, require_durable, require_sound
from bench.load import Shot, get
from bench.pace import Pace
from bench.report import Goal, Result
from bench.requests import METADATA, creates, page, reads
from bench.server import bare_path
from bench.stage import Stage

CONNECTIONS = 32
GOAL = Goal(reach=0.40, aim=0.60)


async def create(stage: Stage, pace: Pace) -> Result:
    """Orders a second over HTTP, against the same rows written by asyncpg directly."""
    await require_durable(stage)
    before = await count_orders(stage)
    placed, over_http, directly = 0, [], []
    for _ in range(pace.rounds):
        written = stage.load_process.submit(direct.write, _direct_writes(stage, pace)).result()
        outcome = stage.fire(creates(stage), connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s)
        placed += written.orders + outcome.answered
        directly.append(written.per_second)
        over_http.append(outcome.per_second)
    found = await count_orders(stage) - before
    if found != placed:
        raise NotMeasured(f"{placed} orders were placed, but {found} are in the database.")
    await require_sound(stage)
    return Result("create", median(over_http), "orders/s", median(directly), GOAL)


def _direct_writes(stage: Stage, pace: Pace) -> direct.Writes:
    return direct.Writes(
        url=stage.url,
        server_port=stage.port,
        connections=CONNECTIONS,
        warm_up_s=pace.warm_up_s,
        seconds=pace.round_s,
        orders=pace.direct_orders,
        tenants=stage.tenants,
        metadata=METADATA,
        key_prefix=stage.key_prefix(),
    )


async def read_by_key(stage: Stage, pace: Pace) -> Result:
    """Single orders a second, against an endpoint that holds the same bytes already."""
    return _against_bare(stage, pace, "read_by_key", await reads(stage), "order")


async def list_100(stage: Stage, pace: Pace) -> Result:
    """Pages of 100 orders a second, against an endpoint that holds the same bytes already."""
    return _against_bare(stage, pace, "list_100", [page(stage, tenant, 100) for tenant in stage.tenants], "page")


def _against_bare(stage: Stage, pace: Pace, name: str, shots: list[Shot], bare_name: str) -> Result:
    bare = [hold_body(stage, shots[0], bare_name)]
    if any(shot.length != bare[0].length for shot in shots):
        raise NotMeasured(f"The answers of {name} are not all of one length.")
    values: list[float] = []
    limits: list[float] = []
    for _ in range(pace.rounds):
        for target, rates in ((bare, limits), (shots, values)):
            outcome = stage.fire(target, connections=CONNECTIONS, warm_up_s=pace.warm_up_s, seconds=pace.round_s)
            rates.append(outcome.per_second)
    return Result(name, median(values), "requests/s", median(limits), GOAL)


def hold_body(stage: Stage, shot: Shot, bare_name: str) -> Shot:
    """Have a bare endpoint answer with the bytes that `shot` gets now."""
    body = stage.fetch(shot)
    (stage.bodies / bare_name).write_bytes(body)
    return get(bare_path(bare_name), length=len(body))
