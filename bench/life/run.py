import asyncio
from collections.abc import Set as AbstractSet

from bench.life.certificates import certificates
from bench.life.orders import open_life
from bench.life.throughput import growth, life
from bench.pace import QUICK_LIFE, LifePace
from bench.report import Report

NAMES = ("life", "growth", "certificates")


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_LIFE if quick else LifePace()
    if "certificates" in names:
        # In a thread: the template of a signature is made with an event loop of its own.
        report.add(await asyncio.to_thread(certificates, pace))
    if not names.isdisjoint({"life", "growth"}):
        async with open_life() as orders:
            if "life" in names:
                report.add(*await life(orders, pace))
            if "growth" in names:
                report.add(*await growth(orders, pace))
