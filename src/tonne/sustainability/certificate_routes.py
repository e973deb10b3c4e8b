"""The rows of the public certificates in the table of routes."""

from functools import partial

from tonne.base.errors import Invalid
from tonne.http.errors import RateLimited
from tonne.http.route import Access, Route
from tonne.sustainability.certificate_errors import CertificateNotFound
from tonne.sustainability.certificate_pages import CertificatePages
from tonne.web.render import Renderer


def certificate_routes(pages: CertificatePages, renderer: Renderer) -> list[Route]:
    route = partial(Route, method="GET", access=Access.PUBLIC, tag="Pages", show_error=renderer.error)
    return [
        route(
            path="/certificates/{number}",
            endpoint=pages.page,
            summary="The certificate of a complete order, if its account shows it to the public",
            answers={200: None},
            errors=(CertificateNotFound, RateLimited),
        ),
        route(
            path="/certificates/{number}/document",
            endpoint=pages.document,
            summary="That certificate as a PDF",
            answers={200: None},
            errors=(CertificateNotFound, RateLimited),
        ),
        route(
            path="/verify",
            endpoint=pages.ask,
            summary="The form that asks for the number of a certificate",
            answers={200: None, 303: None},
            errors=(Invalid,),
        ),
        route(
            path="/verify/{number}",
            endpoint=pages.verify,
            summary="What a certificate says, and whether a document is genuine",
            answers={200: None},
            errors=(Invalid, RateLimited),
        ),
    ]
