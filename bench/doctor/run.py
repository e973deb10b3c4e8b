from collections.abc import Set as AbstractSet
from pathlib import Path

from bench.doctor.checks import doctor
from bench.pace import QUICK_DOCTOR, DoctorPace
from bench.report import Report
from tests.support.processes import ROOT

NAMES = ("doctor",)


async def run(
    names: AbstractSet[str], report: Report, *, quick: bool, orders: int | None = None, folder: Path | None = None
) -> None:
    pace = QUICK_DOCTOR if quick else DoctorPace()
    if "doctor" in names:
        report.add(*await doctor(pace, orders or pace.large_orders, folder or ROOT / "var"))
