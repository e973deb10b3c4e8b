"""The public view of Sustainability pages. Disabled pages return 404."""

import base64
from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal

import msgspec

from tonne.channels.public_pages import store
from tonne.channels.public_pages.certificates.certificate_pages import PublishedOpenings
from tonne.channels.public_pages.embeds import Embeds, Previews, preview_record, preview_version
from tonne.channels.public_pages.errors import SustainabilityPageNotFound
from tonne.channels.public_pages.exports import Exports
from tonne.channels.public_pages.figures.drawings import Drawings
from tonne.channels.public_pages.figures.read_figures import PageFigures, ReadFigures, asked_year
from tonne.channels.public_pages.model import PageSection, SustainabilityPage, page_path
from tonne.platform.db.replica import Reads
from tonne.platform.http.lists import Paging
from tonne.platform.http.route import Endpoint, Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import MassUnit, to_grams
from tonne.platform.values.context import Clock, Mode
from tonne.platform.values.paging import parse_cursor
from tonne.platform.web import visitor
from tonne.platform.web.caching import IMAGE_POLICY, ONE_MINUTE, ONE_YEAR
from tonne.platform.web.render import FRAMED_POLICY, Renderer
from tonne.platform.web.visitor import visitor_language
from tonne.selling.accounts.import_history import HistoryOrder, list_of_account
from tonne.selling.accounts.logos.store import Logo, find_logo
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.transparency.shown_log import ShownLog, find_shown_log

CERTIFICATES_SHOWN, CERTIFICATES_PER_PAGE = 5, 50
HISTORY_SHOWN = 20
PNG = b"image/png"
Show = Callable[[Request, SustainabilityPage], Awaitable[Response]]


class _ListedLine(msgspec.Struct):
    project_name: str


class _ListedRecord(msgspec.Struct):
    """The fields of a certificate's record that the list shows."""

    number: str
    total_quantity: str
    beneficiary: str
    lines: list[_ListedLine]


class ListedCertificate(msgspec.Struct, frozen=True):
    """`beneficiary` is empty when it is the page's own beneficiary. `project` is the first of `projects_count`."""

    number: str
    issued_at: datetime
    grams: int
    beneficiary: str
    project: str
    projects_count: int


class PublicPage:
    def __init__(
        self, reads: Reads, catalogues: Catalogues, renderer: Renderer, *, clock: Clock, settings: Settings
    ) -> None:
        self._reads = reads
        self._figures = ReadFigures(reads, catalogues, clock)
        self._renderer = renderer
        self._settings = settings
        drawings = Drawings()
        self._previews = Previews(drawings)
        self.exports = Exports(self._figures, drawings, settings)
        self.openings = PublishedOpenings(reads, settings)
        self.embeds = Embeds(self._figures, drawings, renderer, settings)

    async def show_page(self, request: Request, page: SustainabilityPage) -> Response:
        return await self._show(request, page, ONE_MINUTE, logo_path=page.logo_address(""))

    async def show_draft(self, request: Request, page: SustainabilityPage, logo: Logo | None) -> Response:
        """The page as it would be with settings that are not saved, for a frame of ours."""
        path = None
        if logo is not None:
            # The address of the logo works only if the page is public.
            path = f"data:{logo.media_type};base64,{base64.b64encode(logo.content).decode()}"
        headers = {"Content-Security-Policy": FRAMED_POLICY}
        return await self._show(request, page, headers, logo_path=path, is_draft=True)

    async def _show(
        self,
        request: Request,
        page: SustainabilityPage,
        headers: dict[str, str],
        *,
        logo_path: str | None,
        is_draft: bool = False,
    ) -> Response:
        locale = visitor_language(request, page.language).locale
        year = None if is_draft else asked_year(request)
        found = await self._figures.read(page, locale, year, certificates=CERTIFICATES_SHOWN + 1)
        return self._renderer.page(
            request,
            "sustainability.html",
            default_language=page.language,
            headers=headers,
            test_mode=page.scope.mode is Mode.TEST,
            page=page,
            path=page_path(page.scope.mode, page.slug),
            logo_path=logo_path,
            is_draft=is_draft,
            preview_url=self._preview_address(page, found),
            beneficiary=found.beneficiary,
            figures=found.figures,
            spent=found.spent,
            certificates=_listed(found)[:CERTIFICATES_SHOWN],
            proof=await self._proof(page, found),
            has_more=len(found.certificates) > CERTIFICATES_SHOWN,
            history=await self._history(page, found),
            history_shown=HISTORY_SHOWN,
        )

    async def _history(self, page: SustainabilityPage, found: PageFigures) -> list[HistoryOrder]:
        """One more than is shown, if there are more. With a year chosen, none."""
        if PageSection.HISTORY not in page.sections or found.figures.year is not None:
            return []
        return await self._reads.read(lambda tx: list_of_account(tx, page.scope, limit=HISTORY_SHOWN + 1))

    async def _proof(self, page: SustainabilityPage, found: PageFigures) -> ShownLog | None:
        """The log that the certificates of the page are in, if it lists any."""
        if not found.certificates:
            return None
        return await self._reads.find(lambda tx: find_shown_log(tx, page.scope.mode))

    def _preview_address(self, page: SustainabilityPage, found: PageFigures) -> str:
        address = f"{page.address(self._settings.base_url)}/preview.png"
        if found.figures.year is not None:
            # The image shows all years.
            return address
        record = preview_record(page, found.beneficiary, found.figures, self._settings.seller_name)
        return f"{address}?v={preview_version(record)}"

    async def show_certificates(self, request: Request, page: SustainabilityPage) -> Response:
        if PageSection.CERTIFICATES not in page.sections:
            raise SustainabilityPageNotFound
        (after,) = request.query("after")
        year = asked_year(request)
        list_name = f"sustainability certificates {page.scope.account_id} {year}"
        paging = Paging(CERTIFICATES_PER_PAGE, parse_cursor(after, list_name), list_name)
        locale = visitor_language(request, page.language).locale
        found = await self._figures.read(page, locale, year, start=paging.start, certificates=paging.fetch)
        _, older = paging.cut(found.certificates, lambda certificate: certificate[0])
        return self._renderer.page(
            request,
            "sustainability_certificates.html",
            default_language=page.language,
            headers=ONE_MINUTE,
            test_mode=page.scope.mode is Mode.TEST,
            page=page,
            path=page_path(page.scope.mode, page.slug),
            beneficiary=found.beneficiary,
            figures=found.figures,
            certificates=_listed(found)[:CERTIFICATES_PER_PAGE],
            older=older,
            is_first=after is None,
        )

    async def show_logo(self, request: Request, page: SustainabilityPage) -> Response:
        (version,) = request.query("v")
        logo = await self._reads.find(lambda tx: find_logo(tx, page.scope))
        if logo is None:
            raise SustainabilityPageNotFound
        kept = ONE_YEAR if version == page.logo_version else ONE_MINUTE
        return Response(logo.content, media_type=logo.media_type.encode(), headers={**kept, **IMAGE_POLICY})

    async def show_preview(self, _: Request, page: SustainabilityPage) -> Response:
        found = await self._figures.read(page, visitor.DEFAULT)
        record = preview_record(page, found.beneficiary, found.figures, self._settings.seller_name)
        picture = await self._previews.picture(record)
        return Response(picture, media_type=PNG, headers={**ONE_MINUTE, **IMAGE_POLICY})

    async def show_nothing(self, _: Request) -> Response:
        """No page.

        The slug `test` is reserved: the addresses of test pages begin with it.
        """
        raise SustainabilityPageNotFound

    def of_slug(self, mode: Mode, address: Callable[[Mode, str], str], show: Show) -> Endpoint:
        """An endpoint that finds the page by its slug. Earlier slugs redirect to the current one."""

        async def endpoint(request: Request) -> Response:
            """Show a Sustainability page, an image or a file of it."""
            slug = request.path("slug")
            page = await self._reads.find(lambda tx: store.find_enabled_any_account(tx, mode, slug))
            if page is None:
                raise SustainabilityPageNotFound
            if page.slug != slug:
                query = request.location.partition("?")[2]
                target = f"{address(mode, page.slug)}{'?' if query else ''}{query}"
                return Response(b"", 302, headers={**ONE_MINUTE, "Location": target})
            response = await show(request, page)
            if page.is_hidden:
                # A new dictionary: the old one may be a constant that all pages share.
                response.headers = {**response.headers, "X-Robots-Tag": "noindex"}
            return response

        return endpoint


def _listed(found: PageFigures) -> list[ListedCertificate]:
    return [_certificate(place.created_at, raw, found.beneficiary) for place, raw in found.certificates]


def _certificate(issued_at: datetime, raw: bytes, beneficiary: str) -> ListedCertificate:
    record = msgspec.json.decode(raw, type=_ListedRecord)
    other = "" if record.beneficiary == beneficiary else record.beneficiary
    projects = list(dict.fromkeys(line.project_name for line in record.lines))
    grams = to_grams(Decimal(record.total_quantity), MassUnit.T)
    return ListedCertificate(record.number, issued_at, grams, other, projects[0] if projects else "", len(projects))
