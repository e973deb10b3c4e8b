"""Counts how often an offset link is opened and how many checkouts are begun, per day, without tracking people.

Pages only add to a number in memory. A background task writes the numbers every two seconds. A process that crashes
loses what it has counted since then. `count_paid_links` counts what was paid.
"""

import asyncio
import re

import structlog

from tonne.channels.checkout.link_counts.count_store import CountedDay, CountedPages, insert_counts
from tonne.channels.checkout.links.model import OffsetLink
from tonne.platform.db.database import Database
from tonne.platform.db.errors import DATABASE_ERRORS, log_outage
from tonne.platform.http.route import Request
from tonne.platform.process.telemetry.instruments import CounterFamily, Metric
from tonne.platform.values.context import Clock

# Tells visits of people from requests of programs by the headers of the request alone. Nothing of them is stored.

# Headers by which browsers mark pages that they load before anybody asks for them.
_PURPOSE_HEADERS = (b"sec-purpose", b"purpose", b"x-purpose", b"x-moz")
_AHEAD = ("prefetch", "prerender", "preview")
# Words in the documented names of search engines, of programs that make previews of links, and of HTTP clients.
# Not "cubot": that is a brand of phones.
_PROGRAMS = re.compile(
    r"(?<!cu)bot(?![a-z])|crawl|spider|slurp|preview|headless|lighthouse|inspectiontool|pagerenderer|mediapartners|"
    r"facebookexternalhit|facebookcatalog|meta-externalagent|whatsapp|vkshare|embedly|iframely|snippet|archiver|"
    r"googleother|google-read-aloud|feedfetcher|uptime|pingdom|"
    r"^(?:curl|wget|python|go-http-client|java/|okhttp|axios|node|libwww|ruby|php|httpie|apache-httpclient)",
    re.IGNORECASE,
)


def is_visit(request: Request) -> bool:
    """Whether a person opened the page, as far as the headers show it.

    False also if the visitor came from another of our pages: the page was opened before, or a member of the
    organisation opened it from the dashboard.
    """
    if request.method != "GET" or _header(request, b"sec-fetch-site") == "same-origin":
        return False
    if any(word in _header(request, name).lower() for name in _PURPOSE_HEADERS for word in _AHEAD):
        return False
    return _PROGRAMS.search(_header(request, b"user-agent")) is None


def _header(request: Request, name: bytes) -> str:
    return request.headers.get(name, b"").decode("latin-1")


WRITE_EVERY_S = 2
# Links that wait to be written, while the database is away. More are not counted.
MAX_WAITING = 10_000

_log = structlog.get_logger()


class LinkCounts:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._waiting: dict[CountedDay, CountedPages] = {}
        self._is_failing = False
        self._counts = CounterFamily(
            "tonne_link_counts_total", "Counted steps of visitors of offset links, by what became of them.", "outcome"
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (self._counts,)

    def count_offset_page(self, link: OffsetLink, request: Request) -> None:
        """Somebody opened the page of the link."""
        if is_visit(request):
            self._add(self._day_of(link), CountedPages(opened=1))

    def count_begun(self, link: OffsetLink) -> None:
        """Somebody submitted the form of the page."""
        self._add(self._day_of(link), CountedPages(begun=1))

    def count_sent_page(self, link: OffsetLink, request: Request) -> None:
        """Somebody opened the payment page of a checkout that the merchant's server created: it is the first page."""
        if is_visit(request):
            self._add(self._day_of(link), CountedPages(opened=1, begun=1))

    async def watch(self) -> None:
        """Write again and again, until cancelled."""
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            await self.write()

    async def write(self) -> None:
        """Write what waits. What cannot be written waits on.

        If the connection is lost during the commit, the counts may be written twice.
        """
        if not self._waiting:
            return
        batch, self._waiting = self._waiting, {}
        is_written = False
        try:
            await self._database.run(insert_counts, batch)
            is_written = True
            self._is_failing = False
            self._counts.of("written").inc(sum(map(sum, batch.values())))
        except DATABASE_ERRORS as error:
            if not log_outage(error) and not self._is_failing:
                _log.warning("link_counts_not_written", error=repr(error))
            self._is_failing = True
        finally:
            # Also when the task is cancelled, because the process stops.
            if not is_written:
                for day, counted in batch.items():
                    self._add(day, counted)

    def _day_of(self, link: OffsetLink) -> CountedDay:
        return CountedDay(link.scope, link.id, self._clock().date())

    def _add(self, day: CountedDay, counted: CountedPages) -> None:
        known = self._waiting.get(day)
        if known is None and len(self._waiting) >= MAX_WAITING:
            self._counts.of("dropped").inc(sum(counted))
            return
        self._waiting[day] = counted if known is None else known.plus(counted)
