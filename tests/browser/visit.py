"""Opens pages in the browser and records errors."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, Request, Route, WebError

# Long enough for a machine under load.
PATIENCE_MS = 20_000
AWAY = "<!doctype html><title>Elsewhere</title><h1>Elsewhere</h1>"


class Visit:
    """`await visit("/verify")` opens a page in a new browser context; `page.context.new_page()` opens another tab.

    `troubles` collects console errors, uncaught exceptions, failed requests and requests to other origins.
    `async with visit.worker_paused()` keeps the site's worker from running a job.
    """

    def __init__(
        self, browser: Browser, site: str, worker_paused: Callable[[], AbstractAsyncContextManager[None]]
    ) -> None:
        self._browser = browser
        self.site = site
        self.worker_paused = worker_paused
        self._contexts: list[BrowserContext] = []
        self._allowed: set[str] = {site}
        self._documents: set[str] = set()
        self.troubles: list[str] = []

    async def __call__(
        self,
        path: str,
        *,
        javascript: bool = True,
        locale: str = "en-GB",
        width: int = 1440,
        touch: bool = False,
        away: str | None = None,
    ) -> Page:
        """`away` is another origin that the page may open; its requests get a page of ours."""
        context = await self._browser.new_context(
            java_script_enabled=javascript,
            locale=locale,
            viewport={"width": width, "height": 900},
            has_touch=touch,
            # Colours in transition have no defined contrast.
            reduced_motion="reduce",
            timezone_id="Europe/Berlin",
        )
        self._contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        if away is not None:
            self._allowed.add(away)
            await context.route(f"{away}/**", _stand_in)
        context.on("console", self._hear)
        context.on("weberror", self._note_exception)
        context.on("request", self._note_request)
        context.on("requestfailed", self._note_failure)
        page = await context.new_page()
        await page.goto(path if "://" in path else f"{self.site}{path}")
        return page

    def allow(self, origin: str) -> None:
        """Allow requests to a server that the test has started."""
        self._allowed.add(origin)

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        # Chromium logs pages with an error status. The test checks the page itself.
        is_status = message.text.startswith("Failed to load resource: the server responded with a status of")
        address = message.location["url"]
        if not (is_status and address in self._documents):
            self.troubles.append(f"console: {message.text} ({address})")

    def _note_exception(self, error: WebError) -> None:
        self.troubles.append(f"exception: {error.error}")

    def _note_request(self, request: Request) -> None:
        if request.is_navigation_request():
            self._documents.add(request.url)
        parts = urlsplit(request.url)
        if f"{parts.scheme}://{parts.netloc}" not in self._allowed and parts.scheme != "blob":
            self.troubles.append(f"request elsewhere: {request.method} {request.url}")

    def _note_failure(self, request: Request) -> None:
        # The browser aborts requests of a page that was left, and downloads.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"request failed: {request.method} {request.url}: {request.failure}")


async def reload_until(page: Page, requested: Locator) -> None:
    """Reload a page that does not update itself until it shows this element."""
    async with asyncio.timeout(3 * PATIENCE_MS / 1000):
        while not await requested.count():
            await page.reload()


async def _stand_in(route: Route) -> None:
    await route.fulfill(body=AWAY, content_type="text/html")
