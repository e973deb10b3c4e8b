"""The public page of a project: its story, place, mechanism and method, and what of it was sold and retired here."""

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from tonne.channels.public_pages.errors import ProjectPageNotFound
from tonne.channels.public_pages.figures.figures import country_name, place_of
from tonne.channels.public_pages.model import project_path
from tonne.platform.db.database import Connection
from tonne.platform.db.replica import Reads
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.values.context import Clock, Mode
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.platform.web.render import Renderer, see_other
from tonne.platform.web.visitor import visitor_language
from tonne.selling.catalogue.facts import registry_name
from tonne.selling.catalogue.model import Project
from tonne.selling.catalogue.pictures.pictures import WIDE, project_picture
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.stock.lots.lot_facts import LotFacts

# Adding them up reads every share of the project, so each process does that at most this often.
FIGURES_LAST = timedelta(minutes=10)
_FIVE_MINUTES = {"Cache-Control": "public, max-age=300"}

# By vintage, and without a vintage in total. Only what has a certificate: the public can look it up.
READ_SOLD = """
SELECT lot.vintage, sum(share.quantity_grams)::bigint AS grams, count(DISTINCT certificate.number) AS certificates
FROM parcels parcel
JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
JOIN shares share ON share.mode = parcel.mode AND share.parcel_id = parcel.id
JOIN certificates certificate ON certificate.account_id = share.account_id
                             AND certificate.order_id = share.order_id AND certificate.state = 'valid'
WHERE parcel.mode = $1 AND parcel.project_id = $2
GROUP BY GROUPING SETS ((lot.vintage), ()) ORDER BY lot.vintage DESC NULLS FIRST
"""


async def read_sold_any_account(connection: Connection, mode: Mode, project_id: str) -> list[asyncpg.Record]:
    return await connection.fetch(READ_SOLD, mode, project_id)


LIST_FACTS = """
SELECT DISTINCT facts FROM lots WHERE mode = $1 AND project_id = $2 AND facts IS NOT NULL AND invalidated_at IS NULL
"""


async def list_labels(connection: Connection, mode: Mode, project_id: str) -> list[str]:
    """The codes of all labels that units of the project have."""
    rows = await connection.fetch(LIST_FACTS, mode, project_id)
    found = [msgspec.json.decode(row["facts"], type=LotFacts).labels or [] for row in rows]
    return sorted({label.code for labels in found for label in labels})


class ProjectFigures(Struct, frozen=True):
    read_at: datetime
    grams: int
    certificates: int
    vintages: list[tuple[int, int]]
    labels: list[str]


class ProjectPage:
    def __init__(self, reads: Reads, catalogues: Catalogues, renderer: Renderer, clock: Clock) -> None:
        self._reads, self._catalogues, self._renderer, self._clock = reads, catalogues, renderer, clock
        # Only of projects in the catalogue, so it does not grow with what visitors ask for.
        self._figures: dict[tuple[Mode, str], ProjectFigures] = {}

    def routes(self) -> list[Route]:
        page = RouteMaker("Pages", Access.PUBLIC, show_error=self._renderer.error)
        return [
            page("GET /projects/{slug}", self.show_live, {200: None, 303: None}, ProjectPageNotFound),
            page("GET /projects/test/{slug}", self.show_test, {200: None, 303: None}, ProjectPageNotFound),
        ]

    async def show_live(self, request: Request) -> Response:
        return await self._show(request, Mode.LIVE)

    async def show_test(self, request: Request) -> Response:
        return await self._show(request, Mode.TEST)

    async def _show(self, request: Request, mode: Mode) -> Response:
        catalogue = await self._catalogues.current(mode)
        slug = request.path("slug")
        # No slug is an id, which contains an underscore.
        if (of_id := catalogue.projects.get(slug)) is not None:
            return see_other(project_path(mode, of_id.slug))
        project = next((each for each in catalogue.projects.values() if each.slug == slug), None)
        if project is None:
            raise ProjectPageNotFound
        bundles = [
            bundle.name
            for bundle in catalogue.bundles.values()
            if bundle.enabled and any(share.project.id == project.id for share in bundle.projects)
        ]
        locale = visitor_language(request, DEFAULT_LANGUAGE).locale
        return self._renderer.page(
            request,
            "project.html",
            headers=_FIVE_MINUTES,
            test_mode=mode is Mode.TEST,
            project=project,
            path=project_path(mode, slug),
            picture=project_picture(project, WIDE),
            registry=registry_name(project.registry) or project.registry,
            country=country_name(project.country, locale),
            place=place_of(project.country),
            links=_links(project),
            bundles=bundles,
            figures=await self._figures_of(mode, project),
        )

    async def _figures_of(self, mode: Mode, project: Project) -> ProjectFigures:
        known, now = self._figures.get((mode, project.id)), self._clock()
        if known is None or now - known.read_at > FIGURES_LAST:
            known = await self._reads.read(partial(_read, mode=mode, project_id=project.id, now=now))
            self._figures[mode, project.id] = known
        return known


async def _read(connection: Connection, *, mode: Mode, project_id: str, now: datetime) -> ProjectFigures:
    rows = await read_sold_any_account(connection, mode, project_id)
    vintages = [(row["vintage"], row["grams"]) for row in rows if row["vintage"] is not None]
    total = next((row for row in rows if row["vintage"] is None), None)
    labels = await list_labels(connection, mode, project_id)
    grams, count = (0, 0) if total is None else (total["grams"] or 0, total["certificates"])
    return ProjectFigures(now, grams, count, vintages, labels)


def _links(project: Project) -> list[tuple[str | None, str]]:
    """At the registry first (no title), then what the catalogue names. Others than web addresses are left out."""
    named: list[tuple[str | None, Any]] = [(None, project.registry_url)]
    named += [(link.title, link.destination_url) for link in project.details.links or ()]
    return [(title, url) for title, url in named if (url or "").startswith(("https://", "http://"))]
