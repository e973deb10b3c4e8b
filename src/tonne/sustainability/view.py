"""Sustainability pages as the public sees them. What is not enabled is, to everybody, not there."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from tonne.base.clock import Clock
from tonne.base.paging import CursorInvalid, make_cursor, parse_cursor
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Database
from tonne.http.route import Access, Parameter, Request, Response, Route
from tonne.retirements.totals import month_of
from tonne.sustainability import store
from tonne.sustainability.errors import SustainabilityPageNotFound
from tonne.sustainability.figures import figures_of
from tonne.sustainability.model import Page, Section, page_path
from tonne.sustainability.preview import Previews, preview_record, preview_version
from tonne.web import visitor
from tonne.web.render import Renderer

CERTIFICATES_PER_PAGE = 20
PNG = b"image/png"
# Figures change when an order completes; a minute late is soon enough.
A_MINUTE = {"Cache-Control": "public, max-age=60"}
FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
# An image is an image: even opened on its own it can load nothing and run nothing.
IMAGE_POLICY = {"Content-Security-Policy": "default-src 'none'"}
Show = Callable[[Request, Page], Awaitable[Response]]


class _Record(msgspec.Struct):
    """What the list needs of a certificate's frozen record."""

    number: str
    total_quantity: str
    beneficiary: str


@dataclass(frozen=True, slots=True)
class ListedCertificate:
    """`beneficiary` is empty where it is the page's own."""

    number: str
    issued_at: datetime
    quantity: str
    beneficiary: str


class SustainabilityView:
    def __init__(
        self, database: Database, catalogues: Catalogues, renderer: Renderer, *, clock: Clock, settings: Settings
    ) -> None:
        self._database = database
        self._catalogues = catalogues
        self._renderer = renderer
        self._clock = clock
        self._settings = settings
        self._previews = Previews()

    async def show_page(self, request: Request, page: Page) -> Response:
        (after,) = request.query("after")
        locale = visitor.locale_of(request.headers.get(b"accept-language", b"").decode("latin-1"))
        list_name = f"sustainability certificates {page.scope.account_id}"
        start = parse_cursor(after, list_name)
        catalogue = await self._catalogues.current(page.scope.mode)
        found = []
        async with self._database.snapshot() as connection:
            owner = await store.find_owner(connection, page.scope)
            retired = await store.sum_retired(connection, page.scope)
            if Section.CERTIFICATES in page.sections:
                found = await store.list_certificates(connection, page.scope, start, CERTIFICATES_PER_PAGE + 1)
        shown = found[:CERTIFICATES_PER_PAGE]
        figures = figures_of(retired, catalogue, locale, month_of(self._clock()))
        preview = preview_version(preview_record(page, owner.beneficiary, figures, self._settings.seller_name))
        return self._renderer.page(
            request,
            "sustainability.html",
            headers=A_MINUTE,
            test_mode=page.scope.mode is Mode.TEST,
            page=page,
            path=page_path(page.scope.mode, page.slug),
            logo_path=page.logo_address(""),
            preview_url=f"{page.address(self._settings.base_url)}/preview.png?v={preview}",
            beneficiary=owner.beneficiary,
            figures=figures,
            certificates=[_certificate(place.created_at, record, owner.beneficiary) for place, record in shown],
            older=make_cursor(shown[-1][0], list_name) if len(found) > len(shown) else None,
            is_first=after is None,
        )

    async def show_logo(self, request: Request, page: Page) -> Response:
        (version,) = request.query("v")
        async with self._database.connection() as connection:
            logo = await store.find_logo(connection, page.scope)
        if logo is None:
            raise SustainabilityPageNotFound
        kept = FOR_EVER if version == page.logo_version else A_MINUTE
        return Response(logo.content, media_type=logo.media_type.encode(), headers={**kept, **IMAGE_POLICY})

    async def show_preview(self, _: Request, page: Page) -> Response:
        catalogue = await self._catalogues.current(page.scope.mode)
        async with self._database.snapshot() as connection:
            owner = await store.find_owner(connection, page.scope)
            retired = await store.sum_retired(connection, page.scope)
        figures = figures_of(retired, catalogue, visitor.DEFAULT, month_of(self._clock()))
        record = preview_record(page, owner.beneficiary, figures, self._settings.seller_name)
        picture = await self._previews.picture(record)
        return Response(picture, media_type=PNG, headers={**A_MINUTE, **IMAGE_POLICY})

    async def show_nothing(self, _: Request) -> Response:
        """What a slug that nobody can have leads to: test pages are below it."""
        raise SustainabilityPageNotFound

    async def _find(self, mode: Mode, tail: str, show: Show, request: Request) -> Response:
        """The page of this slug; from a slug that it had before, the way to the one it has now."""
        slug = request.path("slug")
        async with self._database.connection() as connection:
            page = await store.find_enabled_any_account(connection, mode, slug)
        if page is None:
            raise SustainabilityPageNotFound
        if page.slug != slug:
            return Response(b"", 302, headers={**A_MINUTE, "Location": f"{page_path(mode, page.slug)}{tail}"})
        return await show(request, page)

    def routes(self) -> list[Route]:
        every: dict[str, Any] = {
            "method": "GET",
            "access": Access.PUBLIC,
            "tag": "Pages",
            "answers": {200: None},
            "errors": (SustainabilityPageNotFound, CursorInvalid),
            "show_error": self._renderer.error,
        }
        after = Parameter("after", "The certificates after this place.", {"type": "string"})
        shows: tuple[tuple[str, Show, str], ...] = (
            ("", self.show_page, "A Sustainability page"),
            ("/logo", self.show_logo, "Its logo"),
            ("/preview.png", self.show_preview, "A picture of it, for links on other sites"),
        )
        return [
            Route(path=page_path(Mode.LIVE, "test"), endpoint=self.show_nothing, summary="No page", **every),
            *(
                Route(
                    path=page_path(mode, "{slug}") + tail,
                    endpoint=partial(self._find, mode, tail, show),
                    summary=summary,
                    query=() if tail else (after,),
                    **every,
                )
                for mode in Mode
                for tail, show, summary in shows
            ),
        ]


def _certificate(issued_at: datetime, raw: bytes, beneficiary: str) -> ListedCertificate:
    record = msgspec.json.decode(raw, type=_Record)
    other = "" if record.beneficiary == beneficiary else record.beneficiary
    return ListedCertificate(record.number, issued_at, record.total_quantity, other)
