"""Whether a request costs the same with a million orders as with ten thousand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from types import MappingProxyType

from bench.api.throughput import bare_request, page_path, page_request, read_requests
from bench.environment import Environment
from bench.load import PreparedRequest, get
from bench.pace import ApiPace
from bench.report import Goal, Result
from bench.tenants import Tenant

GOAL = Goal(reach=1.3, at_most=True)
PAGE_SIZE = 10
# More than a block sends: no order is read twice.
READS_PER_BLOCK = 1_500
# The cost of the bare endpoint does not depend on orders. A difference comes from the machine.
REFERENCE = "reference"


@dataclass(slots=True)
class Cost:
    """CPU time of server and database, and the latencies, of all requests of one kind."""

    cpu_s: float = 0.0
    answered: int = 0
    latencies_s: list[float] = field(default_factory=list)

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s / self.answered * 1000

    @property
    def latency_ms(self) -> float:
        return median(self.latencies_s) * 1000


def reads_for(pace: ApiPace) -> int:
    """How many orders a probe reads at most."""
    return READS_PER_BLOCK * (pace.probe_blocks + 1)


async def probe(
    environment: Environment,
    pace: ApiPace,
    reads: list[PreparedRequest] | None = None,
    others: Mapping[str, PreparedRequest] = MappingProxyType({}),
) -> dict[str, Cost]:
    """One request at a time. The kinds take turns in short blocks, so that noise affects all of them.

    `reads` are by default orders chosen at random; `others` are further kinds.
    """
    await environment.require_durable()
    busy = environment.tenants[0]
    if reads is None:
        reads = await read_requests(environment, reads_for(pace))
    first = page_request(environment, busy, PAGE_SIZE)
    deep = page_request(environment, busy, PAGE_SIZE, _cursor_after(environment, busy, 999 * PAGE_SIZE))
    reference = bare_request(environment, reads[:1], "order")
    costs: dict[str, Cost] = {}
    for block in range(pace.probe_blocks + 1):
        if block == 1:
            # The first block fills caches and makes plans. It does not count.
            costs = {}
        kinds: Mapping[str, list[PreparedRequest]] = {
            REFERENCE: [reference],
            "create": environment.create_requests(),
            "read_by_key": reads[block * READS_PER_BLOCK :][:READS_PER_BLOCK],
            "first_page": [first],
            "page_1000": [deep],
            **{kind: [request] for kind, request in others.items()},
        }
        for kind, requests in kinds.items():
            await _measure(environment, pace, requests, costs.setdefault(kind, Cost()))
    return costs


async def _measure(environment: Environment, pace: ApiPace, requests: list[PreparedRequest], cost: Cost) -> None:
    before = await environment.cpu_s_by_process()
    outcome = environment.run_load(requests, connections=1, seconds=pace.probe_block_s)
    after = await environment.cpu_s_by_process()
    # New connections are missing in `before`. Connections that were closed meanwhile had been idle.
    cost.cpu_s += sum(used_s - before.get(process, 0.0) for process, used_s in after.items())
    cost.answered += outcome.answered
    cost.latencies_s += outcome.latencies_s


def _cursor_after(environment: Environment, tenant: Tenant, orders: int) -> str:
    """The cursor after `orders` orders, found page by page, like a client finds it."""
    after: str | None = None
    while orders:
        limit = min(orders, 100)
        page = json.loads(environment.fetch(get(page_path(limit, after), tenant.key)))
        if not page["has_more"]:
            raise LookupError(f"the list ends {orders} orders too early")
        after = page["next_cursor"]
        orders -= limit
    assert after is not None
    return after


def compare(small: Mapping[str, Cost], large: Mapping[str, Cost]) -> list[Result]:
    """The goal is on CPU time, which depends far less on other processes than the latency does."""
    cpu = [
        Result(f"growth_{kind}_cpu", large[kind].cpu_ms, "ms", small[kind].cpu_ms, None if kind == REFERENCE else GOAL)
        for kind in small
    ]
    return cpu + [Result(f"growth_{kind}_time", large[kind].latency_ms, "ms", small[kind].latency_ms) for kind in small]
