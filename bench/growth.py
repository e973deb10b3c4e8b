"""Whether a request costs the same with a million orders as with ten thousand."""

from collections import defaultdict
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
# The bare endpoint knows nothing of orders: what it costs more or less is the machine's doing.
REFERENCE = "reference"
CYCLES = 1_000


async def probe(stage: Stage, pace: Pace) -> dict[str, float]:
    """Median milliseconds of each kind of request, one at a time, the kinds in turn so that noise meets all alike."""
    await require_durable(stage)
    busy = stage.tenants[0]
    found = await reads(stage, CYCLES)
    steady = {
        REFERENCE: hold_body(stage, found[0], "order"),
        "first_page": page(stage, busy, PAGE_SIZE),
        "page_1000": page(stage, busy, PAGE_SIZE, cursor_behind(stage, busy, 999 * PAGE_SIZE)),
    }
    kinds = [*steady, "create", "read_by_key"]
    shots: list[Shot] = []
    for new, old in zip(creates(stage, CYCLES), found, strict=True):
        shots += [*steady.values(), new, old]
    outcome = stage.fire(shots, connections=1, warm_up_s=pace.probe_s / 4, seconds=pace.probe_s)
    latencies = defaultdict(list)
    for index, seconds in outcome.latencies:
        latencies[kinds[index % len(kinds)]].append(seconds)
    return {kind: median(latencies[kind]) * 1000 for kind in kinds}


def compare(small: dict[str, float], large: dict[str, float]) -> list[Result]:
    return [
        Result(f"growth_{kind}", large[kind], "ms", small[kind], None if kind == REFERENCE else GOAL) for kind in small
    ]
