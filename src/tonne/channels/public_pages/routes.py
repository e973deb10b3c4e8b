"""Routes of Sustainability pages and public certificates."""

from functools import partial

from tonne.channels.public_pages import errors, schemas
from tonne.channels.public_pages.certificates.certificate_pages import MAX_UPLOAD_BYTES, CertificatePages
from tonne.channels.public_pages.embeds import THEMES, widget_path
from tonne.channels.public_pages.endpoints import PublishedPageEndpoints, SustainabilityEndpoints
from tonne.channels.public_pages.model import page_path
from tonne.channels.public_pages.public_page import PublicPage, Show
from tonne.platform.http.errors import BodyTooLarge, FormInvalid, RateLimited
from tonne.platform.http.route import Access, Creation, Parameter, Route, RouteMaker
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.values.context import Mode
from tonne.platform.values.errors import Invalid
from tonne.platform.values.paging import MAX_LIMIT, CursorInvalid, LimitInvalid
from tonne.platform.web.render import FormIn, Renderer
from tonne.selling.accounts.errors import LogoInvalid


def sustainability_routes(endpoints: SustainabilityEndpoints) -> list[Route]:
    route, path = RouteMaker("Sustainability page"), "/v1/sustainability-page"
    refused = (errors.SlugReserved, errors.SlugTaken, errors.SlugLimitReached, LogoInvalid)
    example = {"enabled": True, "slug": "acme", "title": "Acme and the climate", "sections": ["timeline", "projects"]}
    return [
        route(
            f"GET {path}",
            endpoints.read_sustainability_page,
            schemas.SustainabilityPageOut,
            operation_id="getSustainabilityPage",
        ),
        route(
            f"PUT {path}",
            endpoints.change_sustainability_page,
            schemas.SustainabilityPageOut,
            *refused,
            operation_id="updateSustainabilityPage",
            body=schemas.SustainabilityPageIn,
            example=example,
        ),
        *_settings_routes(endpoints),
    ]


def _settings_routes(endpoints: SustainabilityEndpoints) -> list[Route]:
    route, path = RouteMaker("Sustainability page"), "/v1/sustainability-pages"
    refused = (errors.SlugReserved, errors.SlugNotUnique, errors.SlugLimitReached)
    example = {"status": "enabled", "slug": "acme", "title": "by_volume", "sections": ["bundles_breakdown"]}
    return [
        route(
            f"POST {path}",
            endpoints.create_page,
            {201: schemas.PageSettingsOut},
            *refused,
            errors.SustainabilityPageExists,
            operation_id="createSustainabilityPage",
            body=schemas.PageSettingsIn,
            example=example,
            # An account has one page, which needs no id.
            creates=Creation(read=endpoints.read_current_page, id_of=lambda _: ""),
        ),
        route(
            f"PUT {path}",
            endpoints.replace_page,
            schemas.PageSettingsOut,
            *refused,
            errors.SustainabilityPageNotFound,
            operation_id="replaceSustainabilityPage",
            body=schemas.PageSettingsIn,
            example=example,
        ),
        route(
            f"GET {path}/current-account",
            endpoints.read_current_page,
            schemas.PageSettingsOut,
            errors.SustainabilityPageNotFound,
            operation_id="getSustainabilityPageSettings",
        ),
    ]


def published_page_routes(endpoints: PublishedPageEndpoints) -> list[Route]:
    """For everyone, without an API key."""
    route, path = RouteMaker("Sustainability page", Access.PUBLIC), "/v1/sustainability-pages/public"
    return [
        route(
            f"GET {path}/{{type}}/{{slug}}",
            endpoints.read_by_slug,
            schemas.PublishedPageOut,
            errors.SustainabilityPageNotFound,
            operation_id="getPublicSustainabilityPage",
        ),
        route(
            f"GET {path}/{{organisation_id}}/{{type}}/{{handle}}",
            endpoints.read_by_handle,
            schemas.PublishedPageOut,
            errors.SustainabilityPageNotFound,
            operation_id="getPublicSustainabilityPageByHandle",
        ),
    ]


def public_page_routes(page: PublicPage, renderer: Renderer) -> list[Route]:
    route = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    refused = (errors.SustainabilityPageNotFound, CursorInvalid, LimitInvalid, Invalid, RateLimited)
    after = Parameter("after", "Cursor of the next page of certificates.", {"type": "string"})
    limit = Parameter("limit", "Certificates of a page.", {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT})
    year = Parameter("year", "Only what was retired in this year.", {"type": "string", "pattern": "^[0-9]{4}$"})
    theme = Parameter("theme", "Colours.", {"type": "string", "enum": list(THEMES)})
    version = Parameter("v", "Version of the logo.", {"type": "string"})
    shows: tuple[tuple[str, Show, tuple[Parameter, ...]], ...] = (
        ("", page.show_page, (year,)),
        ("/certificates", page.show_certificates, (year, after)),
        ("/logo", page.show_logo, (version,)),
        ("/preview.png", page.show_preview, ()),
        ("/summary.pdf", page.exports.summary_pdf, (year,)),
        ("/totals.csv", page.exports.totals_csv, (year,)),
        ("/retirements.csv", page.exports.retirements_csv, (year,)),
        ("/openings.json", page.openings.openings_json, (limit, after)),
        ("/badge.svg", page.embeds.badge_svg, (theme,)),
        ("/badge.png", page.embeds.badge_png, (theme,)),
    )
    found = [(partial(_below_page, tail), show, query) for tail, show, query in shows] + [
        (widget_path, page.embeds.show_widget, (theme,))
    ]
    return [
        route(f"GET {page_path(Mode.LIVE, 'test')}", page.show_nothing, None, *refused),
        route(f"GET {widget_path(Mode.LIVE, 'test')}", page.show_nothing, None, *refused),
        *(
            route(f"GET {address(mode, '{slug}')}", page.of_slug(mode, address, show), None, *refused, query=query)
            for mode in Mode
            for address, show, query in found
        ),
    ]


def _below_page(tail: str, mode: Mode, slug: str) -> str:
    return f"{page_path(mode, slug)}{tail}"


def certificate_routes(pages: CertificatePages, renderer: Renderer) -> list[Route]:
    route = RouteMaker("Pages", Access.PUBLIC, show_error=renderer.error)
    return [
        route("GET /certificates/{number}", pages.show_certificate, None, errors.CertificateNotFound, RateLimited),
        RouteMaker("Pages", Access.PUBLIC)(
            "GET /certificates/{number}.json",
            pages.show_credential,
            None,
            errors.CertificateNotFound,
            RateLimited,
            SigningUnavailable,
        ),
        route("GET /certificates/{number}/document", pages.show_pdf, None, errors.CertificateNotFound, RateLimited),
        route("GET /verify", pages.show_verify_form, {200: None, 303: None}, Invalid, RateLimited),
        route(
            "POST /verify",
            pages.upload,
            {303: None},
            FormInvalid,
            BodyTooLarge,
            RateLimited,
            body=FormIn,
            max_body_bytes=MAX_UPLOAD_BYTES,
        ),
        route("GET /verify/{number}", pages.verify, None, Invalid, RateLimited),
    ]
