"""How long an event takes on an idle system, from the commit to the acknowledgement by its receiver."""

import asyncio
import http.client
import json
import random
import time
from collections.abc import Iterable
from statistics import median, quantiles

from bench.copies import EVENTS_PER_ORDER
from bench.delivery.throughput import require_received
from bench.delivery.webhooks import Delivery, Hook
from bench.environment import METADATA
from bench.pace import DeliveryPace
from bench.report import Goal, NotMeasured, Result
from tests.support.processes import HOST

P50_LIMIT_MS, P99_LIMIT_MS = 50.0, 200.0
GOAL = Goal(reach=1.0, at_most=True)


async def latency(delivery: Delivery, pace: DeliveryPace) -> list[Result]:
    await delivery.environment.require_durable()
    async with delivery.hooks(delivery.environment.tenants[:1]) as hooks, delivery.worker():
        await place_singly(delivery, hooks[0], 5, pace.pause_s)
        after_response, after_request = await place_singly(delivery, hooks[0], pace.latency_orders, pace.pause_s)
        await delivery.environment.require_consistent()
    return [
        Result("latency_p50", median(after_response), "ms", P50_LIMIT_MS, GOAL),
        Result("latency_p99", _p99(after_response), "ms", P99_LIMIT_MS, GOAL),
        Result("latency_from_request_p50", median(after_request), "ms", P50_LIMIT_MS),
        Result("latency_from_request_p99", _p99(after_request), "ms", P99_LIMIT_MS),
    ]


async def place_singly(
    delivery: Delivery, hook: Hook, orders: int, pause_s: tuple[float, float]
) -> tuple[list[float], list[float]]:
    """Place one order at a time.

    Returns the milliseconds until the events of each order were acknowledged: since the response to the client, and
    since its request. Events arrive in order, so the first two belong to the first order, and so on.
    """
    delivery.reset()
    rng = random.Random(orders)
    placed = []
    api = http.client.HTTPConnection(HOST, delivery.environment.port, timeout=30)
    prefix = delivery.environment.key_prefix()
    for number in range(orders):
        placed.append(_place(api, hook, f"{prefix}{number:012d}"))
        await asyncio.sleep(rng.uniform(*pause_s))
    api.close()
    await delivery.wait_until_delivered([hook])
    require_received(delivery, 1, orders * EVENTS_PER_ORDER)
    acknowledged = delivery.receivers[0].acknowledged
    after_response, after_request = [], []
    for number, (requested_at, responded_at) in enumerate(placed, 1):
        arrived_at = next(entry.at for entry in acknowledged if entry.events >= number * EVENTS_PER_ORDER)
        after_response.append((arrived_at - responded_at) * 1000)
        after_request.append((arrived_at - requested_at) * 1000)
    return after_response, after_request


def _place(api: http.client.HTTPConnection, hook: Hook, key: str) -> tuple[float, float]:
    """The times of the request and of the response."""
    body = json.dumps(
        {"estimate_id": hook.tenant.estimate_id, "metadata": json.loads(METADATA), "idempotency_key": key}
    )
    headers = {"Authorization": f"Bearer {hook.tenant.key}", "Content-Type": "application/json"}
    requested_at = time.monotonic()
    api.request("POST", "/v1/orders/by-estimate", body, headers)
    response = api.getresponse()
    responded_at = time.monotonic()
    text = response.read()
    if response.status != 201:
        raise NotMeasured(f"The response to an order was {response.status}: {text.decode()}")
    return requested_at, responded_at


def _p99(values: Iterable[float]) -> float:
    return quantiles(values, n=100, method="inclusive")[98]
