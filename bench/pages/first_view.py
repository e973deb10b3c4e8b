"""One view of a page by a browser that has nothing in its cache, over a simulated network and a slow processor."""

from dataclasses import dataclass
from typing import Any

from playwright.async_api import Browser

MEGABIT = 1_000_000 / 8
# A good mobile network, and the processor of a cheap phone.
NETWORK = {"offline": False, "latency": 40, "downloadThroughput": 10 * MEGABIT, "uploadThroughput": 10 * MEGABIT}
SLOWED = 4
PHONE = {"width": 360, "height": 740}
_OBSERVE = """
window.firstPaint = new Promise((painted) => {
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.largestPaintMs = entry.startTime;
    painted();
  }).observe({type: "largest-contentful-paint", buffered: true});
});
"""


@dataclass(frozen=True, slots=True)
class FirstView:
    """Sizes without pictures. `transferred` includes the headers of responses."""

    transferred_kb: float
    decoded_kb: float
    picture_kb: float
    largest_paint_ms: float


async def measure_first_view(browser: Browser, address: str) -> FirstView:
    context = await browser.new_context(
        viewport={"width": PHONE["width"], "height": PHONE["height"]}, device_scale_factor=2, is_mobile=True
    )
    try:
        page = await context.new_page()
        await page.add_init_script(_OBSERVE)
        devtools = await context.new_cdp_session(page)
        traffic = _Traffic()
        devtools.on("Network.responseReceived", traffic.note_response)
        devtools.on("Network.dataReceived", traffic.note_data)
        devtools.on("Network.loadingFinished", traffic.note_end)
        await devtools.send("Network.enable")
        await devtools.send("Network.setCacheDisabled", {"cacheDisabled": True})
        await devtools.send("Network.emulateNetworkConditions", NETWORK)
        await devtools.send("Emulation.setCPUThrottlingRate", {"rate": SLOWED})
        await page.goto(address, wait_until="load")
        # The browser reports the paint a frame later.
        await page.evaluate("window.firstPaint")
        await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 100)))")
        largest_paint_ms = float(await page.evaluate("window.largestPaintMs"))
        return FirstView(*traffic.kilobytes(), largest_paint_ms)
    finally:
        await context.close()


class _Traffic:
    """Bytes by request, as the developer tools count them."""

    def __init__(self) -> None:
        self._pictures: set[str] = set()
        self._decoded: dict[str, float] = {}
        self._transferred: dict[str, float] = {}

    def note_response(self, event: dict[str, Any]) -> None:
        if event["type"] == "Image" or event["response"]["mimeType"].startswith("image/"):
            self._pictures.add(event["requestId"])

    def note_data(self, event: dict[str, Any]) -> None:
        self._decoded[event["requestId"]] = self._decoded.get(event["requestId"], 0) + event["dataLength"]

    def note_end(self, event: dict[str, Any]) -> None:
        self._transferred[event["requestId"]] = event["encodedDataLength"]

    def kilobytes(self) -> tuple[float, float, float]:
        """Transferred and decoded without pictures, and transferred pictures."""
        transferred = sum(size for request, size in self._transferred.items() if request not in self._pictures)
        decoded = sum(size for request, size in self._decoded.items() if request not in self._pictures)
        pictures = sum(size for request, size in self._transferred.items() if request in self._pictures)
        return transferred / 1000, decoded / 1000, pictures / 1000
