"""The entries of a page's certificates in the transparency log: what they state, and the proofs that they are in it."""

from typing import Any

import msgspec

from tonne.channels.public_pages.errors import SustainabilityPageNotFound
from tonne.channels.public_pages.figures import figure_store
from tonne.channels.public_pages.figures.figure_store import FigurePeriod
from tonne.channels.public_pages.model import PageSection, SustainabilityPage
from tonne.platform.db.database import Connection
from tonne.platform.db.replica import Reads
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.lists import Paging, list_response
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.language import N_
from tonne.platform.values.paging import Position, parse_cursor, parse_limit
from tonne.platform.web.caching import ONE_MINUTE
from tonne.supply.certificates.proofs.read_proofs import find_evidence

PER_PAGE = 50
# Anyone may check them, also in a browser on another site.
_HEADERS = {**ONE_MINUTE, "X-Robots-Tag": "noindex", "Access-Control-Allow-Origin": "*"}


class PublishedOpening(msgspec.Struct):
    """A public certificate. `evidence` is that of its credential."""

    number: str
    evidence: list[dict[str, Any]]


class PublishedOpenings:
    def __init__(self, reads: Reads, settings: Settings) -> None:
        self._reads = reads
        self._downloads = TokenBuckets("page_openings", settings.verify_per_minute / 60, settings.verify_burst)

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self._downloads,)

    async def openings_json(self, request: Request, page: SustainabilityPage) -> Response:
        """The valid certificates that name nobody in private, newest first. New ones follow within a minute."""
        if PageSection.CERTIFICATES not in page.sections:
            raise SustainabilityPageNotFound
        message = N_("Too many downloads from your network. Wait a minute, then try again.")
        self._downloads.require(request.limited_as, 1, message)
        limit, after = request.query("limit", "after")
        list_name = f"sustainability openings {page.scope.account_id}"
        paging = Paging(PER_PAGE if limit is None else parse_limit(limit), parse_cursor(after, list_name), list_name)

        async def read(tx: Connection) -> tuple[list[PublishedOpening], str | None]:
            found = await figure_store.list_certificates(
                tx, page.scope, FigurePeriod(), paging.start, limit=paging.fetch
            )
            shown, cursor = paging.cut(found, _position)
            opened = []
            for place, _ in shown:
                evidence = await find_evidence(tx, page.scope.mode, place.id)
                if evidence is not None:
                    opened.append(PublishedOpening(place.id, evidence.all))
            return opened, cursor

        openings, cursor = await self._reads.read(read)
        response = list_response(openings, cursor)
        response.headers = {**response.headers, **_HEADERS}
        return response


def _position(listed: tuple[Position, bytes]) -> Position:
    return listed[0]
