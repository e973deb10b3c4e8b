"""The transparency log: appending leaves, proofs and tiles, with ten million leaves."""

from collections.abc import Set as AbstractSet

from bench.environment import Environment, open_environment
from bench.life.finished_orders import copy_finished
from bench.life.orders import Orders, store_cards
from bench.log.appending import append, append_to
from bench.log.monitor import monitor
from bench.log.proofs import proofs, publish
from bench.log.tiles import tiles
from bench.pace import QUICK_LOG, LogPace
from bench.recount import log_copies
from bench.report import Report

NAMES = ("append", "proof", "tiles", "monitor")


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_LOG if quick else LogPace()
    if "monitor" in names:
        report.add(*monitor(pace))
        if len(names) == 1:
            return
    async with open_environment() as environment:
        await _certify(environment, pace)
        if "append" in names:
            report.add(*await append(environment, pace))
        else:
            await append_to(environment, pace, pace.large_leaves)
        numbers = await publish(environment)
        if "proof" in names:
            report.add(*await proofs(environment, pace, numbers))
        if "tiles" in names:
            report.add(*await tiles(environment, pace))


async def _certify(environment: Environment, pace: LogPace) -> None:
    """Complete some orders, and copy one of them. What is stated about the copies waits to be appended."""
    await store_cards(environment)
    orders = Orders(environment)
    keys = await orders.place(pace.first_orders)
    async with orders.worker():
        await orders.complete(keys)
    await copy_finished(environment, pace.orders)
    await log_copies(environment)
