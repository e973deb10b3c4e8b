"""Routes of Sustainability pages and public certificates."""

from tonne.base.errors import Invalid
from tonne.base.paging import CursorInvalid
from tonne.base.scope import Mode
from tonne.http.errors import RateLimited
from tonne.http.route import Access, Parameter, Route, RouteMaker
from tonne.sustainability.certificate_pages import CertificatePages
from tonne.sustainability.endpoints import SustainabilityEndpoints
from tonne.sustainability.errors import (
    CertificateNotFound,
    LogoInvalid,
    SlugLimitReached,
    SlugReserved,
    SlugTaken,
    SustainabilityPageNotFound,
)
from tonne.sustainability.model import page_path
from tonne.sustainability.public_page import PublicPage
from tonne.sustainability.schemas import SustainabilityPageIn, SustainabilityPageOut
from tonne.web.render import Renderer


def sustainability_routes(endpoints: SustainabilityEndpoints) -> list[Route]:
    route, path = RouteMaker("Sustainability page"), "/v1/sustainability-page"
    errors = (SlugReserved, SlugTaken, SlugLimitReached, LogoInvalid)
    example = {"enabled": True, "slug": "acme", "title": "Acme and the climate", "sections": ["timeline", "projects"]}
    return [
        route(
            *(f"GET {path}", endpoints.read_sustainability_page, SustainabilityPageOut),
            operation_id="getSustainabilityPage",
        ),
        route(
            *(f"PUT {path}", endpoints.change_sustainability_page, SustainabilityPageOut, *errors),
            operation_id="updateSustainabilityPage",
            body=SustainabilityPageIn,
            example=example,
        ),
    ]


def public_page_routes(page: PublicPage, renderer: Renderer) -> list[Route]:
    route = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    errors = (SustainabilityPageNotFound, CursorInvalid)
    after = Parameter("after", "Cursor of the next page of certificates.", {"type": "string"})
    shows = (("", page.show_page), ("/logo", page.show_logo), ("/preview.png", page.show_preview))
    return [
        route(f"GET {page_path(Mode.LIVE, 'test')}", page.show_nothing, None, *errors),
        *(
            route(
                *(f"GET {page_path(mode, '{slug}')}{tail}", page.of_slug(mode, tail, show), None, *errors),
                query=() if tail else (after,),
            )
            for mode in Mode
            for tail, show in shows
        ),
    ]


def certificate_routes(pages: CertificatePages, renderer: Renderer) -> list[Route]:
    route = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    return [
        route("GET /certificates/{number}", pages.show_certificate, None, CertificateNotFound, RateLimited),
        route("GET /certificates/{number}/document", pages.show_pdf, None, CertificateNotFound, RateLimited),
        route("GET /verify", pages.show_verify_form, {200: None, 303: None}, Invalid),
        route("GET /verify/{number}", pages.verify, None, Invalid, RateLimited),
    ]
