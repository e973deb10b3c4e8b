"""Routes of the static files of the pages."""

from tonne.http.docs import AssetNotFound
from tonne.http.route import Access, Request, Response, Route
from tonne.web.render import asset


async def read_icon(_: Request) -> Response:
    """Browsers request it when they show a PDF."""
    return _found("mark.svg")


async def read_asset(request: Request) -> Response:
    return _found(request.path("name"))


def _found(name: str) -> Response:
    response = asset(name)
    if response is None:
        raise AssetNotFound
    return response


def asset_routes() -> list[Route]:
    return [
        Route(
            method="GET",
            path=path,
            endpoint=endpoint,
            access=Access.PUBLIC,
            summary=summary,
            tag="Pages",
            answers={200: None},
            errors=(AssetNotFound,),
        )
        for path, endpoint, summary in (
            ("/assets/{name}", read_asset, "A static file of the pages"),
            ("/favicon.ico", read_icon, "The icon in the browser's tab"),
        )
    ]
