"""A person with a browser, and somebody who watches that nothing goes wrong meanwhile."""

from urllib.parse import urlsplit

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route, WebError

# A script that waits longer than this has failed; a machine under load is slow, not broken.
PATIENCE_MS = 20_000
AWAY = "<!doctype html><title>Elsewhere</title><h1>Elsewhere</h1>"


class Visit:
    """`await visit("/verify")` is a page in a browser without memory; `page.context.new_page()` is another tab of it.

    `troubles` collects errors on the console, uncaught exceptions, failed requests and requests to other origins.
    """

    def __init__(self, browser: Browser, site: str) -> None:
        self._browser = browser
        self.site = site
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
        away: str | None = None,
    ) -> Page:
        """`away` names an origin that the page may lead to; whatever is asked for there gets a page of ours."""
        context = await self._browser.new_context(
            java_script_enabled=javascript,
            locale=locale,
            viewport={"width": width, "height": 900},
            # Colours that are half way to others have no contrast to speak of.
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
        """A page may lead there: to something real that the test has started."""
        self._allowed.add(origin)

    async def close(self) -> None:
        for context in self._contexts:
            await context.close()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type != "error":
            return
        # A page that says "not found" has that status, which Chromium mentions: the test judges the page itself.
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
        # Aborted is what the browser itself gave up: a page that was left, or a download in place of a page.
        if request.failure != "net::ERR_ABORTED":
            self.troubles.append(f"request failed: {request.method} {request.url}: {request.failure}")


async def _stand_in(route: Route) -> None:
    await route.fulfill(body=AWAY, content_type="text/html")
