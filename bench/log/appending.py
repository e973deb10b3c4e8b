"""Leaves that the worker's job appends per second of CPU time, to a large tree and to a small one."""

import time
from dataclasses import dataclass

from bench.environment import Environment
from bench.log.fill import fill_log
from bench.log.probe import LogProbe, probing
from bench.pace import LogPace
from bench.report import Goal, NotMeasured, Result
from tonne.platform.values.context import utc_now
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.transparency.append_leaves import AppendLeaves
from tonne.supply.transparency.tile_store import read_tiles
from tonne_verify.tiles import range_plan

LEAVES_PER_S = 2_000.0
GOAL = Goal(reach=1.0)
GROWTH_GOAL = Goal(reach=1.3, at_most=True)


@dataclass(frozen=True, slots=True)
class LeafCost:
    cpu_us: float
    time_us: float


async def append(environment: Environment, pace: LogPace) -> list[Result]:
    await environment.require_durable()
    small = await append_to(environment, pace, pace.small_leaves)
    large = await append_to(environment, pace, pace.large_leaves)
    return [
        Result("append", 1e6 / large.cpu_us, "leaves/s", LEAVES_PER_S, GOAL),
        Result("append_time", 1e6 / large.time_us, "leaves/s", LEAVES_PER_S),
        Result("append_growth_cpu", large.cpu_us, "us/leaf", small.cpu_us, GROWTH_GOAL),
        Result("append_growth_time", large.time_us, "us/leaf", small.time_us),
    ]


async def append_to(environment: Environment, pace: LogPace, size: int) -> LeafCost:
    """Run the job until all statements are in a tree that has this size before. The first batches do not count."""
    await fill_log(environment, size)
    async with probing(environment) as probe:
        job = AppendLeaves(probe.database, utc_now, probe.settings, read_stated_rows)
        for _ in range(pace.warm_up_batches):
            await job.run_once()
        before, before_s, started = (await probe.log()).size, await probe.cpu_s(), time.perf_counter()
        while await job.run_once():
            pass
        took_s, cpu_s = time.perf_counter() - started, await probe.cpu_s() - before_s
        appended = (await probe.log()).size - before
        await _require_continued(probe, size)
    if not appended:
        raise NotMeasured("All leaves were appended during the warm-up.")
    return LeafCost(cpu_s / appended * 1e6, took_s / appended * 1e6)


async def _require_continued(probe: LogProbe, size: int) -> None:
    """The first leaves are still those of the tree from before."""
    log = await probe.log()
    before, now = range_plan(size), range_plan(log.size)
    async with probe.database.connection() as connection:
        tiles = await read_tiles(connection, log.id, before.tiles | now.tiles)
    # The largest complete subtree of the old tree is the beginning of that of the new one, if it did not grow.
    if size.bit_length() == log.size.bit_length() and before.compute(tiles)[0] != now.compute(tiles)[0]:
        raise NotMeasured("The tree does not continue the tree from before.")
