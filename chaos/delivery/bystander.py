"""An organisation without faults. Its latency shows whether the faults of others slow it down."""

import asyncio
import json
import statistics
import time

from chaos.cluster import Cluster
from chaos.receivers import Call

# The highest acceptable increase of the 90th percentile: far below the cost of waiting for another receiver,
# and above the noise of a busy machine.
MAX_DELAY_S = 0.75


class Bystander:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._arrived_s: dict[str, float] = {}
        self._before: list[float] = []

    async def open(self) -> "Bystander":
        """Measure its latency without faults. A worker must be running."""
        self._hook = await self._cluster.open_hook("bystander", self._record, accounts=1)
        await self._latencies(3)  # the first ones open connections and fill caches
        self._before = await self._latencies(15)
        return self

    async def _record(self, call: Call) -> None:
        for event in json.loads(call.body)["events"]:
            if event["event_type"] == "order.placed":
                self._arrived_s.setdefault(event["data"]["order"]["id"], time.monotonic())
        call.respond(200)

    async def compare(self, orders: int = 15) -> None:
        """With the faults it must not be notably slower."""
        before_s, during_s = _p90(self._before), _p90(await self._latencies(orders))
        self._cluster.notes.append(f"bystander p90 {before_s * 1000:.0f} then {during_s * 1000:.0f} ms")
        self._cluster.require(
            during_s <= before_s + MAX_DELAY_S,
            f"another organisation was slowed down: the 90th percentile of its latency was {before_s * 1000:.0f} ms "
            f"before the faults and {during_s * 1000:.0f} ms with them",
        )

    async def _latencies(self, orders: int, pause_s: float = 0.1) -> list[float]:
        """Seconds from the response to an order until the arrival of its event."""
        organisation = self._hook.organisation
        placed_s = {}
        for _ in range(orders):
            order_id = await self._cluster.place_one(organisation, organisation.scopes[0])
            placed_s[order_id] = time.monotonic()
            await asyncio.sleep(pause_s)
        arrived = self._arrived_s
        await self._cluster.until(lambda: placed_s.keys() <= arrived.keys(), "the bystander's events arrive", 30)
        return [max(0.0, arrived[order_id] - moment) for order_id, moment in placed_s.items()]


def _p90(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=10, method="inclusive")[-1]
