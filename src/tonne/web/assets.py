"""Routes of the static files of the pages."""

from tonne.http.docs import AssetNotFound
from tonne.http.route import Access, Request, Response, Route, RouteMaker
from tonne.web.render import asset


async def read_icon(_: Request) -> Response:
    """Browsers request it when they show a PDF."""
    return _found("mark.svg")


async def read_asset(request: Request) -> Response:
    """A file of the pages."""
    return _found(request.path("name"))


def _found(name: str) -> Response:
    response = asset(name)
    if response is None:
        raise AssetNotFound
    return response


def asset_routes() -> list[Route]:
    route = RouteMaker("Pages", Access.PUBLIC)
    return [
        route("GET /assets/{name}", read_asset, None, AssetNotFound),
        route("GET /favicon.ico", read_icon, None, AssetNotFound),
    ]
