"""Endpoints of bundles and projects."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from tonne.accounts.directory import AccountDirectory
from tonne.catalog.demo import demo_image
from tonne.catalog.errors import BundleNotFound, ImageNotFound, ProjectNotFound
from tonne.catalog.model import Bundle, Project
from tonne.catalog.schemas import BundleOut, ProjectOut, bundle_out, project_out
from tonne.catalog.snapshot import Catalogues
from tonne.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut, Paging, list_response
from tonne.http.route import Access, Request, Response, Route, RouteMaker, json_response

Item = TypeVar("Item", Bundle, Project)


class CatalogueEndpoints:
    def __init__(self, catalogues: Catalogues, directory: AccountDirectory) -> None:
        self._catalogues = catalogues
        self._directory = directory

    async def list_bundles(self, request: Request) -> Response:
        """List the bundles on sale.

        Returns the enabled bundles, newest first, with prices in the account's currency.
        """
        catalogue = await self._catalogues.current(request.scope.mode)
        terms = await self._directory.terms_of(request.scope)
        enabled = (bundle for bundle in catalogue.bundles.values() if bundle.enabled)
        page, cursor = _page(request, enabled, f"bundles {request.scope.mode}")
        shown = [bundle_out(bundle, catalogue, terms) for bundle in page]
        return list_response(shown, cursor)

    async def read_bundle(self, request: Request) -> Response:
        """Read a bundle.

        Returns one bundle. A bundle that is no longer on sale has `enabled` set to false.
        """
        catalogue = await self._catalogues.current(request.scope.mode)
        terms = await self._directory.terms_of(request.scope)
        bundle = catalogue.bundles.get(request.path("bundle_id"))
        if bundle is None:
            raise BundleNotFound
        return json_response(bundle_out(bundle, catalogue, terms))

    async def list_projects(self, request: Request) -> Response:
        """List the projects behind the bundles.

        Returns the projects of the catalogue, newest first.
        """
        catalogue = await self._catalogues.current(request.scope.mode)
        page, cursor = _page(request, catalogue.projects.values(), f"projects {request.scope.mode}")
        return list_response([project_out(project) for project in page], cursor)

    async def read_project(self, request: Request) -> Response:
        """Read a project.

        Returns one project of the catalogue with its registry.
        """
        catalogue = await self._catalogues.current(request.scope.mode)
        project = catalogue.projects.get(request.path("project_id"))
        if project is None:
            raise ProjectNotFound
        return json_response(project_out(project))

    async def read_image(self, request: Request) -> Response:
        """A picture of the demo catalogue.

        The demo catalogue's pictures; an operator's own catalogue names images anywhere.
        """
        body = demo_image(request.path("name"))
        if body is None:
            raise ImageNotFound
        headers = {"Cache-Control": "public, max-age=86400", "Content-Security-Policy": "default-src 'none'"}
        return Response(body, media_type=b"image/svg+xml", headers=headers)

    def page_routes(self) -> list[Route]:
        """Not in the OpenAPI document: pages and mails show these."""
        route = RouteMaker("Catalogue", Access.PUBLIC)
        return [route("GET /images/bundles/{name}", self.read_image, None, ImageNotFound)]

    def routes(self) -> list[Route]:
        route, listing = RouteMaker("Catalogue"), RouteMaker("Catalogue", query=LIST_PARAMETERS)
        return [
            listing(
                *("GET /v1/bundles", self.list_bundles, ListOut[BundleOut], *LIST_ERRORS), operation_id="listBundles"
            ),
            route(
                *("GET /v1/bundles/{bundle_id}", self.read_bundle, BundleOut, BundleNotFound), operation_id="getBundle"
            ),
            listing(
                *("GET /v1/projects", self.list_projects, ListOut[ProjectOut], *LIST_ERRORS),
                operation_id="listProjects",
            ),
            route(
                *("GET /v1/projects/{project_id}", self.read_project, ProjectOut, ProjectNotFound),
                operation_id="getProject",
            ),
        ]


def _page(request: Request, items: Iterable[Item], list_name: str) -> tuple[Sequence[Item], str | None]:
    """A page of the cached catalogue, newest first."""
    paging = Paging.of(request, list_name)
    start = paging.start
    newest_first = sorted(items, key=lambda item: (item.created_at, item.id), reverse=True)
    rest = [item for item in newest_first if (item.created_at, item.id) < (start.created_at, start.id)]
    return paging.cut(rest)
