"""Routes of the start page, and of what crawlers and other sites read."""

from tonne.channels.public_pages.site.documentation import Documentation, DocumentationBeingBuilt, DocumentationNotBuilt
from tonne.channels.public_pages.site.landing_page import LandingPage
from tonne.channels.public_pages.site.robots import robots_txt
from tonne.channels.public_pages.site.social_images import SocialImages
from tonne.platform.http.openapi.reference_page import AssetNotFound, redirect_to
from tonne.platform.http.route import Access, Route, RouteMaker
from tonne.platform.settings.settings import Settings


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
