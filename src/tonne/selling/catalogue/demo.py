"""The demo catalogue: real public projects, with invented prices, rates and serial numbers."""

from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from importlib import resources

from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.static_files import StaticFile
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.imports.plan import FileKind

# What a tonne of each project cost the operator of the demo.
_COSTS = {
    "VCS1340": "6.10",
    "VCS4268": "8.20",
    "VCS672": "7.40",
    "GS2913": "9.30",
    "ACR499": "6.80",
    "VCS4150": "5.20",
    "GS11603": "4.60",
    "VCS1481": "2.90",
    "GS12065": "3.40",
    "VCS2887": "17.50",
    "CAR1459": "19.00",
    "ACR1129": "12.40",
    "prj_1HZSSWBQM1S08H83": "188.00",
    "prj_1J7NQMR9V1S04P0D": "164.00",
}


def demo_files(mode: Mode) -> dict[FileKind, SheetFile]:
    """The modes differ only in the serial blocks: a serial number can be in one lot only."""
    folder = resources.files("tonne.selling.catalogue") / "demo"
    contents = {kind: (folder / kind).read_bytes() for kind in FileKind}
    if mode is Mode.LIVE:
        contents[FileKind.LOTS] = contents[FileKind.LOTS].replace(b",TEST-", b",TEST-LIVE-")
    return {kind: SheetFile(kind, content) for kind, content in contents.items()}


def priced_demo_files(mode: Mode, now: datetime) -> dict[FileKind, SheetFile]:
    """For the running demo: with today's exchange rates, and what the credits cost."""
    files = demo_files(mode)
    head, *lots = files[FileKind.LOTS].content.decode().splitlines()
    lines = [f"{head},unit_cost,cost_currency", *(f"{lot},{_COSTS[lot.split(',')[1]]},EUR" for lot in lots)]
    return files | demo_rates(now) | {FileKind.LOTS: SheetFile(FileKind.LOTS, "\n".join(lines).encode())}


def demo_rates(now: datetime, drift: int = 0) -> dict[FileKind, SheetFile]:
    """The rates of a moment. They differ by up to 3 % with `drift`, so that a year of them is no straight line."""
    rows = demo_files(Mode.TEST)[FileKind.EXCHANGE_RATES].content.decode().splitlines()
    for i, row in enumerate(rows[1:], start=1):
        base, quote, rate, source, _ = row.split(",")
        moved = Decimal(rate) * (1000 + (drift * 7 + i * 11) % 61 - 30 if drift else 1000) / 1000
        rows[i] = f"{base},{quote},{moved:.6f},{source},{now:%Y-%m-%dT%H:%M:%SZ}"
    return {FileKind.EXCHANGE_RATES: SheetFile(FileKind.EXCHANGE_RATES, "\n".join(rows).encode())}


@lru_cache(maxsize=100)
def demo_image(name: str) -> StaticFile | None:
    """The image of a demo bundle. The name is compared, never joined to a path."""
    folder = resources.files("tonne.selling.catalogue") / "demo" / "images"
    return next((StaticFile.of(name, entry.read_bytes()) for entry in folder.iterdir() if entry.name == name), None)
