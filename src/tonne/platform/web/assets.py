"""Routes of the static files of the pages, and of the operator's logo."""

from tonne.platform.http.openapi.reference_page import AssetNotFound
from tonne.platform.http.route import Access, Endpoint, Request, Response, Route, RouteMaker
from tonne.platform.http.static_files import FOR_EVER, ONE_DAY, StaticFile
from tonne.platform.web.render import SiteFrame, asset

# An SVG file may have styles; opened on its own, it can load and run nothing.
_LOGO_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}


async def read_asset(request: Request) -> Response:
    """A file of the pages."""
    return _found(request.path("name")).response(request, FOR_EVER)


def read_file(name: str) -> Endpoint:
    """Browsers request some files by fixed names, without looking at a page."""

    async def read_named(request: Request) -> Response:
        """A file that browsers request by its name."""
        return _found(name).response(request, ONE_DAY)

    return read_named


def _found(name: str) -> StaticFile:
    file = asset(name)
    if file is None:
        raise AssetNotFound
    return file


def asset_routes(frame: SiteFrame) -> list[Route]:
    found = frame.logo
    logo = None if found is None else StaticFile.of("logo", found.content, found.media_type.encode())

    async def read_logo(request: Request) -> Response:
        """The operator's logo."""
        if logo is None:
            raise AssetNotFound
        return logo.response(request, FOR_EVER, _LOGO_POLICY)

    route = RouteMaker("Pages", Access.PUBLIC)
    return [
        route("GET /assets/{name}", read_asset, None, AssetNotFound),
        route("GET /favicon.ico", read_file("favicon.ico"), None, AssetNotFound),
        route("GET /apple-touch-icon.png", read_file("apple-touch-icon.png"), None, AssetNotFound),
        route("GET /logo", read_logo, None, AssetNotFound),
    ]
