"""Whether a request costs the same with a million orders as with ten thousand."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from bench.checks import require_durable
from bench.load import Shot
from bench.pace import Pace
from bench.report import Goal, Result
from bench.requests import creates, cursor_behind, page, reads
from bench.speed import hold_body
from bench.stage import Stage

GOAL = Goal(reach=1.3, at_most=True)
PAGE_SIZE = 10
# More than are read within a block: no order is read twice.
READS_PER_BLOCK = 1_500
# The bare endpoint knows nothing of orders: what it costs more or less is the machine's doing.
REFERENCE = "reference"


@dataclass(slots=True)
class Cost:
    """Of all requests of one kind: the CPU of server and database, and how long each took."""

    cpu_s: float = 0.0
    answered: int = 0
    latencies_s: list[float] = field(default_factory=list)

    @property
    def cpu_ms(self) -> float:
        return self.cpu_s / self.answered * 1000

    @property
    def latency_ms(self) -> float:
        return median(self.latencies_s) * 1000


async def probe(stage: Stage, pace: Pace) -> dict[str, Cost]:
    """One request at a time, each kind in short blocks that take turns, so that noise meets all alike."""
    await require_durable(stage)
    busy = stage.tenants[0]
    found = await reads(stage, READS_PER_BLOCK * (pace.probe_blocks + 1))
    first = page(stage, busy, PAGE_SIZE)
    deep = page(stage, busy, PAGE_SIZE, cursor_behind(stage, busy, 999 * PAGE_SIZE))
    reference = hold_body(stage, found[0], "order")
    costs: dict[str, Cost] = {}
    for block in range(pace.probe_blocks + 1):
        if block == 1:
            # The first block of each kind has filled caches and made plans: what it cost does not count.
            costs = {}
        kinds: Mapping[str, list[Shot]] = {
            REFERENCE: [reference],
            "create": creates(stage),
            "read_by_key": found[block * READS_PER_BLOCK :][:READS_PER_BLOCK],
            "first_page": [first],
            "page_1000": [deep],
        }
        for kind, shots in kinds.items():
            await _fire_block(stage, pace, shots, costs.setdefault(kind, Cost()))
    return costs


async def _fire_block(stage: Stage, pace: Pace, shots: list[Shot], cost: Cost) -> None:
    before = await stage.cpu_s_by_process()
    outcome = stage.fire(shots, connections=1, warm_up_s=0, seconds=pace.probe_block_s)
    after = await stage.cpu_s_by_process()
    # A connection may have been opened meanwhile; one that was closed had been idle.
    cost.cpu_s += sum(used_s - before.get(process, 0.0) for process, used_s in after.items())
    cost.answered += outcome.answered
    cost.latencies_s += [seconds for _, seconds in outcome.latencies]


def compare(small: Mapping[str, Cost], large: Mapping[str, Cost]) -> list[Result]:
    """CPU is judged, since it depends far less on what else the machine does; the time is there for comparison."""
    cpu = [
        Result(f"growth_{kind}_cpu", large[kind].cpu_ms, "ms", small[kind].cpu_ms, None if kind == REFERENCE else GOAL)
        for kind in small
    ]
    times = [
        Result(f"growth_{kind}_time", large[kind].latency_ms, "ms", small[kind].latency_ms, None) for kind in small
    ]
    return cpu + times
