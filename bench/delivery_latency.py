"""How long an event takes on an idle system, from the commit to the receiver's acknowledgement."""

import asyncio
import http.client
import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median, quantiles

from bench.checks import NotMeasured, require_durable, require_sound
from bench.delivery_pace import Pace
from bench.delivery_scene import Hook, Scene
from bench.report import Goal, Result
from bench.requests import METADATA

P50_LIMIT_MS, P99_LIMIT_MS = 50.0, 200.0
GOAL = Goal(reach=1.0, at_most=True)
EVENTS_PER_ORDER = 2


@dataclass(frozen=True, slots=True)
class Delay:
    """From the answer to the client, and from the client's request, to the acknowledgement of the order's events."""

    after_answer_ms: float
    after_request_ms: float


async def latency(scene: Scene, pace: Pace) -> list[Result]:
    await require_durable(scene.stage)
    async with scene.hooks(scene.stage.tenants[:1]) as hooks, scene.worker():
        await place_singly(scene, hooks[0], 5, pace.pause_s)
        delays = await place_singly(scene, hooks[0], pace.latency_orders, pace.pause_s)
        await require_sound(scene.stage)
    after_answer = [delay.after_answer_ms for delay in delays]
    after_request = [delay.after_request_ms for delay in delays]
    return [
        Result("latency_p50", median(after_answer), "ms", P50_LIMIT_MS, GOAL),
        Result("latency_p99", _p99(after_answer), "ms", P99_LIMIT_MS, GOAL),
        Result("latency_from_request_p50", median(after_request), "ms", P50_LIMIT_MS, None),
        Result("latency_from_request_p99", _p99(after_request), "ms", P99_LIMIT_MS, None),
    ]


async def place_singly(scene: Scene, hook: Hook, orders: int, pause_s: tuple[float, float]) -> list[Delay]:
    """One order at a time. Events arrive in order, so the first two belong to the first order, and so on."""
    scene.receivers.forget()
    chance = random.Random(orders)
    placed = []
    api = http.client.HTTPConnection("127.0.0.1", scene.stage.port, timeout=30)
    prefix = scene.stage.key_prefix()
    for number in range(orders):
        placed.append(_place(api, hook, f"{prefix}{number:012d}"))
        await asyncio.sleep(chance.uniform(*pause_s))
    api.close()
    await scene.wait_until_delivered([hook])
    tally = scene.receivers.tallies()[0]
    if tally.events != orders * EVENTS_PER_ORDER:
        raise NotMeasured(f"{orders} orders have {orders * EVENTS_PER_ORDER} events, but {tally.events} arrived.")
    delays = []
    for number, (requested_at, answered_at) in enumerate(placed, 1):
        arrived_at = next(entry.at for entry in tally.answered if entry.events >= number * EVENTS_PER_ORDER)
        delays.append(Delay((arrived_at - answered_at) * 1000, (arrived_at - requested_at) * 1000))
    return delays


def _place(api: http.client.HTTPConnection, hook: Hook, key: str) -> tuple[float, float]:
    """When it was asked for and when it was answered."""
    body = json.dumps(
        {"estimate_id": hook.tenant.estimate_id, "metadata": json.loads(METADATA), "idempotency_key": key}
    )
    headers = {"Authorization": f"Bearer {hook.tenant.key}", "Content-Type": "application/json"}
    requested_at = time.monotonic()
    api.request("POST", "/v1/orders/by-estimate", body, headers)
    answer = api.getresponse()
    answered_at = time.monotonic()
    text = answer.read()
    if answer.status != 201:
        raise NotMeasured(f"An order was answered with {answer.status}: {text.decode()}")
    return requested_at, answered_at


def _p99(values: Iterable[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]
