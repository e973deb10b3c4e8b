from collections.abc import Set as AbstractSet

from bench.disk.size import disk_per_order
from bench.pace import QUICK_DISK, DiskPace
from bench.report import Report

NAMES = ("order",)


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    pace = QUICK_DISK if quick else DiskPace()
    if "order" in names:
        report.add(*await disk_per_order(pace))
