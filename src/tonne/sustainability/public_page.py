"""The public view of Sustainability pages. Disabled pages return 404."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from tonne.base.clock import Clock
from tonne.base.paging import Position, parse_cursor
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.catalog.snapshot import Catalogues
from tonne.db.pool import Connection
from tonne.db.replica import Reads
from tonne.http.lists import Paging
from tonne.http.route import Endpoint, Request, Response
from tonne.retirements.totals import month_of
from tonne.sustainability import store
from tonne.sustainability.errors import SustainabilityPageNotFound
from tonne.sustainability.figures import figures_of
from tonne.sustainability.model import PageSection, SustainabilityPage, page_path
from tonne.sustainability.preview import Previews, preview_record, preview_version
from tonne.web import visitor
from tonne.web.render import Renderer

CERTIFICATES_PER_PAGE = 20
PNG = b"image/png"
# The figures change only when an order completes, so they may be a minute old.
ONE_MINUTE = {"Cache-Control": "public, max-age=60"}
ONE_YEAR = {"Cache-Control": "public, max-age=31536000, immutable"}
# Opened on its own, an image can load and run nothing.
IMAGE_POLICY = {"Content-Security-Policy": "default-src 'none'"}
_Retirements = tuple[store.PageOwner, list[store.Retired]]
Show = Callable[[Request, SustainabilityPage], Awaitable[Response]]


class _ListedRecord(msgspec.Struct):
    """The fields of a certificate's record that the list shows."""

    number: str
    total_quantity: str
    beneficiary: str


@dataclass(frozen=True, slots=True)
class ListedCertificate:
    """`beneficiary` is empty when it is the page's own beneficiary."""

    number: str
    issued_at: datetime
    quantity: str
    beneficiary: str


class PublicPage:
    def __init__(
        self, reads: Reads, catalogues: Catalogues, renderer: Renderer, *, clock: Clock, settings: Settings
    ) -> None:
        self._reads = reads
        self._catalogues = catalogues
        self._renderer = renderer
        self._clock = clock
        self._settings = settings
        self._previews = Previews()

    async def show_page(self, request: Request, page: SustainabilityPage) -> Response:
        (after,) = request.query("after")
        locale = visitor.locale_of(request.headers.get(b"accept-language", b"").decode("latin-1"))
        list_name = f"sustainability certificates {page.scope.account_id}"
        paging = Paging(CERTIFICATES_PER_PAGE, parse_cursor(after, list_name), list_name)
        catalogue = await self._catalogues.current(page.scope.mode)

        async def read(tx: Connection) -> tuple[_Retirements, list[tuple[Position, bytes]]]:
            found = []
            if PageSection.CERTIFICATES in page.sections:
                found = await store.list_certificates(tx, page.scope, paging.start, paging.fetch)
            return await _read_retirements(tx, page), found

        (owner, retired), found = await self._reads.read(read)
        shown, older = paging.cut(found, lambda certificate: certificate[0])
        figures = figures_of(retired, catalogue, locale, month_of(self._clock()))
        preview = preview_version(preview_record(page, owner.beneficiary, figures, self._settings.seller_name))
        return self._renderer.page(
            request,
            "sustainability.html",
            headers=ONE_MINUTE,
            test_mode=page.scope.mode is Mode.TEST,
            page=page,
            path=page_path(page.scope.mode, page.slug),
            logo_path=page.logo_address(""),
            preview_url=f"{page.address(self._settings.base_url)}/preview.png?v={preview}",
            beneficiary=owner.beneficiary,
            figures=figures,
            certificates=[_certificate(place.created_at, record, owner.beneficiary) for place, record in shown],
            older=older,
            is_first=after is None,
        )

    async def show_logo(self, request: Request, page: SustainabilityPage) -> Response:
        (version,) = request.query("v")
        logo = await self._reads.find(lambda tx: store.find_logo(tx, page.scope))
        if logo is None:
            raise SustainabilityPageNotFound
        kept = ONE_YEAR if version == page.logo_version else ONE_MINUTE
        return Response(logo.content, media_type=logo.media_type.encode(), headers={**kept, **IMAGE_POLICY})

    async def show_preview(self, _: Request, page: SustainabilityPage) -> Response:
        catalogue = await self._catalogues.current(page.scope.mode)
        owner, retired = await self._reads.read(lambda tx: _read_retirements(tx, page))
        figures = figures_of(retired, catalogue, visitor.DEFAULT, month_of(self._clock()))
        record = preview_record(page, owner.beneficiary, figures, self._settings.seller_name)
        picture = await self._previews.picture(record)
        return Response(picture, media_type=PNG, headers={**ONE_MINUTE, **IMAGE_POLICY})

    async def show_nothing(self, _: Request) -> Response:
        """No page.

        The slug `test` is reserved: the addresses of test pages begin with it.
        """
        raise SustainabilityPageNotFound

    def of_slug(self, mode: Mode, tail: str, show: Show) -> Endpoint:
        """An endpoint that finds the page by its slug. Earlier slugs redirect to the current one."""

        async def endpoint(request: Request) -> Response:
            """Show a Sustainability page, its logo or its preview image."""
            slug = request.path("slug")
            page = await self._reads.find(lambda tx: store.find_enabled_any_account(tx, mode, slug))
            if page is None:
                raise SustainabilityPageNotFound
            if page.slug != slug:
                return Response(b"", 302, headers={**ONE_MINUTE, "Location": f"{page_path(mode, page.slug)}{tail}"})
            return await show(request, page)

        return endpoint


async def _read_retirements(tx: Connection, page: SustainabilityPage) -> _Retirements:
    return await store.find_owner(tx, page.scope), await store.sum_retired(tx, page.scope)


def _certificate(issued_at: datetime, raw: bytes, beneficiary: str) -> ListedCertificate:
    record = msgspec.json.decode(raw, type=_ListedRecord)
    other = "" if record.beneficiary == beneficiary else record.beneficiary
    return ListedCertificate(record.number, issued_at, record.total_quantity, other)
