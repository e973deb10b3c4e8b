"""Routes of Sustainability pages and public certificates."""

from functools import partial
from typing import Any

from tonne.base.errors import Invalid
from tonne.base.paging import CursorInvalid
from tonne.base.scope import Mode
from tonne.http.errors import RateLimited
from tonne.http.route import Access, Parameter, Route
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
    every: dict[str, Any] = {
        "path": "/v1/sustainability-page",
        "access": Access.API_KEY,
        "tag": "Sustainability page",
        "answers": {200: SustainabilityPageOut},
    }
    return [
        Route(
            method="GET",
            endpoint=endpoints.read_sustainability_page,
            summary="Read the account's Sustainability page",
            **every,
        ),
        Route(
            method="PUT",
            endpoint=endpoints.change_sustainability_page,
            summary="Set up or change the account's Sustainability page",
            body=SustainabilityPageIn,
            example={
                "enabled": True,
                "slug": "acme",
                "title": "Acme and the climate",
                "sections": ["timeline", "projects", "certificates"],
            },
            errors=(SlugReserved, SlugTaken, SlugLimitReached, LogoInvalid),
            **every,
        ),
    ]


def public_page_routes(page: PublicPage, renderer: Renderer) -> list[Route]:
    route = partial(
        Route,
        method="GET",
        access=Access.PUBLIC,
        tag="Pages",
        answers={200: None},
        errors=(SustainabilityPageNotFound, CursorInvalid),
        show_error=renderer.error,
    )
    after = Parameter("after", "Cursor of the next page of certificates.", {"type": "string"})
    shows = (
        ("", page.show_page, "A Sustainability page"),
        ("/logo", page.show_logo, "The logo of a Sustainability page"),
        ("/preview.png", page.show_preview, "The link preview image of a Sustainability page"),
    )
    return [
        route(path=page_path(Mode.LIVE, "test"), endpoint=page.show_nothing, summary="No page"),
        *(
            route(
                path=page_path(mode, "{slug}") + tail,
                endpoint=page.of_slug(mode, tail, show),
                summary=summary,
                query=() if tail else (after,),
            )
            for mode in Mode
            for tail, show, summary in shows
        ),
    ]


def certificate_routes(pages: CertificatePages, renderer: Renderer) -> list[Route]:
    route = partial(Route, method="GET", access=Access.PUBLIC, tag="Pages", show_error=renderer.error)
    return [
        route(
            path="/certificates/{number}",
            endpoint=pages.show_certificate,
            summary="A public certificate",
            answers={200: None},
            errors=(CertificateNotFound, RateLimited),
        ),
        route(
            path="/certificates/{number}/document",
            endpoint=pages.show_pdf,
            summary="A public certificate as a PDF",
            answers={200: None},
            errors=(CertificateNotFound, RateLimited),
        ),
        route(
            path="/verify",
            endpoint=pages.show_verify_form,
            summary="The form for checking a certificate",
            answers={200: None, 303: None},
            errors=(Invalid,),
        ),
        route(
            path="/verify/{number}",
            endpoint=pages.verify,
            summary="Check a certificate and its PDF",
            answers={200: None},
            errors=(Invalid, RateLimited),
        ),
    ]
