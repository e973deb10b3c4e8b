"""The interactive API reference. All its files are served from here: the page loads nothing from other hosts."""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from tonne.platform.http.route import Access, Endpoint, Request, Response, Route, RouteMaker
from tonne.platform.http.static_files import REVALIDATE, StaticFile
from tonne.platform.values.errors import Kind, TonneError

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# By the name of the request. Swagger UI is extracted by `python -m tools.extracts`.
_ASSETS = {
    "try.js": "try.js",
    "test-key.js": "test-key.js",
    "swagger-ui-bundle.js": "swagger-ui-bundle.js.gz",
    "swagger-ui.css": "swagger-ui.css.gz",
    "favicon-32x32.png": "favicon-32x32.png",
}


class AssetNotFound(TonneError, kind=Kind.NOT_FOUND, code="asset_not_found"):
    """There is no such file of the documentation or the pages.

    Start from `/docs/`, or reload the page.
    """

    message = "This file does not exist."


class DocsEndpoints:
    def __init__(self, document: Callable[[], dict[str, Any]]) -> None:
        """The document is built on the first request for it."""
        self._document = cache(lambda: StaticFile.of("openapi.json", msgspec.json.encode(document())))

    async def page(self, request: Request) -> Response:
        """The interactive API reference."""
        return _own_file("try.html").response(request, REVALIDATE, {"Content-Security-Policy": _PAGE_POLICY})

    async def asset(self, request: Request) -> Response:
        """A file of the interactive API reference."""
        name = request.path("name")
        if name not in _ASSETS:
            raise AssetNotFound
        return _own_file(_ASSETS[name]).response(request, REVALIDATE)

    async def document(self, request: Request) -> Response:
        """The OpenAPI document."""
        return self._document().response(request, REVALIDATE)

    def routes(self) -> list[Route]:
        route = RouteMaker("Documentation", Access.PUBLIC)
        return [
            route("GET /docs/try/", self.page),
            route("GET /docs/try", redirect_to("/docs/try/")),
            route("GET /docs/try/assets/{name}", self.asset),
            route("GET /openapi.json", self.document),
        ]


def redirect_to(address: str) -> Endpoint:
    async def redirect(_: Request) -> Response:
        """Redirect to the address with a slash at its end, which the relative links of the page need."""
        return Response(b"", 308, headers={"Location": address, "Cache-Control": "public, max-age=86400"})

    return redirect


@cache
def _own_file(name: str) -> StaticFile:
    return StaticFile.of(name, (resources.files("tonne.platform.http.openapi") / "static" / name).read_bytes())
