"""Routes of the start page, and of what crawlers and other sites read, such as images for link previews."""

import asyncio
from pathlib import Path

from tonne.channels.public_pages.site.documentation import Documentation, DocumentationBeingBuilt, DocumentationNotBuilt
from tonne.channels.public_pages.site.landing_page import LandingPage
from tonne.platform.documents.pdf import render_png
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.openapi.reference_page import AssetNotFound, redirect_to
from tonne.platform.http.route import Access, Request, Response, Route, RouteMaker
from tonne.platform.http.static_files import ONE_DAY, StaticFile
from tonne.platform.settings.settings import Settings
from tonne.platform.web.caching import IMAGE_POLICY

TEMPLATE = Path(__file__).parent / "templates" / "social.typ"
# In English: crawlers fetch the image for readers of all languages. By the name that `_social.html` passes.
TEXTS = {
    "site": ("Carbon credits, retired and proven", "Every tonne is retired in a public registry, with a certificate."),
    "verify": (
        "Is this certificate genuine?",
        "Check a certificate of retired carbon credits by its number or its PDF.",
    ),
    "certificate": ("Certificate of retirement", "Carbon credits retired in a public registry. Anyone can check it."),
    "project": ("A project behind the credits", "Its story, place, method, registry and what was retired."),
    "offset": ("Retire carbon credits", "Choose what to support, pay, and get a certificate."),
}


class SocialImages:
    """Each image is rendered once per process."""

    def __init__(self, settings: Settings) -> None:
        self._seller = settings.seller_name
        self._images: dict[str, StaticFile] = {}
        self._lock = asyncio.Lock()

    async def show(self, request: Request) -> Response:
        """The image of a link preview."""
        kind = request.path("file").removesuffix(".png")
        if kind not in TEXTS or not request.path("file").endswith(".png"):
            raise AssetNotFound
        async with self._lock:
            if kind not in self._images:
                title, text = TEXTS[kind]
                record = {"title": title, "text": text, "seller": self._seller}
                image = await in_turn(render_png, TEMPLATE, record)
                self._images[kind] = StaticFile.of("social.png", image)
        return self._images[kind].response(request, ONE_DAY, IMAGE_POLICY)


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
