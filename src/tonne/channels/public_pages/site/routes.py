"""Routes of the start page, and of what crawlers and other sites read."""

from tonne.channels.public_pages.site.documentation import Documentation, DocumentationBeingBuilt, DocumentationNotBuilt
from tonne.channels.public_pages.site.landing_page import LandingPage
from tonne.channels.public_pages.site.social_images import SocialImages
from tonne.platform.http.openapi.reference_page import AssetNotFound, redirect_to
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.http.static_files import ONE_DAY, StaticFile
from tonne.platform.settings.settings import Settings

# Pages with `noindex` that crawlers may read to find that out are not in this list.
PRIVATE = ("/v1/", "/checkout/", "/o/", "/card/", "/dashboard", "/operator", "/gateways/", "/metrics", "/health/")


_LINES = ("User-agent: *", *(f"Disallow: {path}" for path in PRIVATE), "Allow: /")
_ROBOTS = StaticFile.of("robots.txt", "".join(f"{line}\n" for line in _LINES).encode())


async def robots_txt(request: Request) -> Response:
    """Which pages crawlers may read."""
    return _ROBOTS.response(request, ONE_DAY)


def site_routes(landing: LandingPage, settings: Settings) -> list[Route]:
    route = RouteMaker("Pages", Access.PUBLIC)
    documentation = Documentation()
    not_there = AssetNotFound, DocumentationNotBuilt, DocumentationBeingBuilt
    return [
        route("GET /", landing.show),
        route("GET /robots.txt", robots_txt),
        route("GET /docs", redirect_to("/docs/")),
        route("GET /docs/", documentation.show, None, *not_there),
        route("GET /docs/{path:path}", documentation.show, None, *not_there),
        route("GET /social/{file}", SocialImages(settings).show, None, AssetNotFound),
    ]
