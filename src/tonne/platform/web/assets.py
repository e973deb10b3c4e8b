"""Routes of the static files of the pages, and of the operator's logo."""

from tonne.platform.http.openapi.reference_page import AssetNotFound
from tonne.platform.http.route import Access, Endpoint, Request, Response, Route, RouteMaker
from tonne.platform.web.render import SiteFrame, asset

# An SVG file may have styles; opened on its own, it can load and run nothing.
_LOGO_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
}


async def read_asset(request: Request) -> Response:
    """A file of the pages."""
    return _found(request.path("name"))


def read_file(name: str) -> Endpoint:
    """Browsers request some files by fixed names, without looking at a page."""

    async def read_named(_: Request) -> Response:
        """A file that browsers request by its name."""
        response = _found(name)
        response.headers["Cache-Control"] = "public, max-age=86400"
        return response

    return read_named


def _found(name: str) -> Response:
    response = asset(name)
    if response is None:
        raise AssetNotFound
    return response


def asset_routes(frame: SiteFrame) -> list[Route]:
    async def read_logo(_: Request) -> Response:
        """The operator's logo."""
        if frame.logo is None:
            raise AssetNotFound
        return Response(frame.logo.content, media_type=frame.logo.media_type.encode(), headers=dict(_LOGO_HEADERS))

    route = RouteMaker("Pages", Access.PUBLIC)
    return [
        route("GET /assets/{name}", read_asset, None, AssetNotFound),
        route("GET /favicon.ico", read_file("favicon.ico"), None, AssetNotFound),
        route("GET /apple-touch-icon.png", read_file("apple-touch-icon.png"), None, AssetNotFound),
        route("GET /logo", read_logo, None, AssetNotFound),
    ]
