"""Weight and speed of the first view of public pages, in Chromium on a simulated phone."""

import statistics
import tempfile
from collections.abc import Set as AbstractSet
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from bench.pages.addresses import NAMES, find_addresses
from bench.pages.first_view import FirstView, measure_first_view
from bench.report import Goal, NotMeasured, Report, Result
from tests.browser.chromium import FLAGS, find_chromium
from tests.support.command import service_in

__all__ = ["NAMES", "run"]
LIMIT_KB, LIMIT_PAINT_MS = 100.0, 1000.0
VIEWS, QUICK_VIEWS = 5, 1
GOAL = Goal(reach=1.0, at_most=True)


async def run(names: AbstractSet[str], report: Report, *, quick: bool) -> None:
    path = find_chromium()
    if path is None:
        raise NotMeasured("Chromium is not installed: run `python -m tests.browser.chromium`.")
    with tempfile.TemporaryDirectory() as folder, service_in(Path(folder)) as service:
        service.start()
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=path, headless=True, args=list(FLAGS))
            try:
                addresses = await find_addresses(browser, service)
                for name in (name for name in NAMES if name in names):
                    views = await _measure(browser, addresses[name], QUICK_VIEWS if quick else VIEWS)
                    report.add(*results(name, views))
            finally:
                await browser.close()
        service.stop()


async def _measure(browser: Browser, address: str, count: int) -> list[FirstView]:
    # The first view also fills the caches of the service, and is not counted.
    return [await measure_first_view(browser, address) for _ in range(count + 1)][1:]


def results(name: str, views: list[FirstView]) -> list[Result]:
    """The heaviest view, and the median of the paints: one view on a phone is never repeated."""
    paint_ms = statistics.median(view.largest_paint_ms for view in views)
    return [
        Result(f"{name} transfer", max(view.transferred_kb for view in views), "KB", LIMIT_KB, GOAL),
        Result(f"{name} decoded", max(view.decoded_kb for view in views), "KB", LIMIT_KB, GOAL),
        Result(f"{name} largest paint", paint_ms, "ms", LIMIT_PAINT_MS, GOAL),
    ]
