"""Endpoints of bundles and projects."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

from tonne.platform.http.lists import LIST_ERRORS, LIST_PARAMETERS, ListOut, Paging, list_response
from tonne.platform.http.route import Access, Parameter, Request, Response, Route, RouteMaker, json_response
from tonne.platform.http.static_files import ONE_DAY
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import Fault, Invalid
from tonne.platform.web.caching import IMAGE_POLICY
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue import show_catalogue
from tonne.selling.catalogue.catalogue_schemas import BundleOut, ProjectOut
from tonne.selling.catalogue.demo import demo_image
from tonne.selling.catalogue.errors import BundleNotFound, ImageNotFound, ProjectNotFound
from tonne.selling.catalogue.model import Bundle, Catalogue, Project
from tonne.selling.catalogue.snapshot import Catalogues

Item = TypeVar("Item", Bundle, Project)


RECENTLY_DISABLED = "recently_disabled"
_FLAG = {"type": "boolean"}
_BUNDLES_TOO = Parameter(RECENTLY_DISABLED, "`true`: also bundles that were taken off sale in the last 30 days.", _FLAG)
_PROJECTS_TOO = Parameter(
    RECENTLY_DISABLED,
    "`true`: projects on sale, and those taken off sale in the last 30 days. `false`: projects on sale. Leave it out "
    "for all projects.",
    _FLAG,
)


class CatalogueEndpoints:
    def __init__(self, catalogues: Catalogues, directory: AccountDirectory, clock: Clock) -> None:
        self._catalogues = catalogues
        self._directory = directory
        self._clock = clock
        self._prepared = show_catalogue.PreparedCatalogues()

    async def list_bundles(self, request: Request) -> Response:
        """List the bundles on sale.

        Returns the enabled bundles, newest first, with prices in the account's currency and their projects.
        """
        catalogue, _, shown = await self._show(request)
        disabled_too = _flag(request) or False
        since = self._clock() - show_catalogue.RECENTLY
        listed = (
            bundle
            for bundle in catalogue.bundles.values()
            if bundle.enabled or (disabled_too and show_catalogue.is_disabled_since(bundle, since))
        )
        page, cursor = _page(request, listed, f"bundles {request.scope.mode} {disabled_too}")
        return list_response([shown.bundle(bundle) for bundle in page], cursor)

    async def read_bundle(self, request: Request) -> Response:
        """Read a bundle.

        Returns one bundle. A bundle that is no longer on sale has `enabled` set to false.
        """
        catalogue, _, shown = await self._show(request)
        bundle = catalogue.bundles.get(request.path("bundle_id"))
        if bundle is None:
            raise BundleNotFound
        return json_response(shown.bundle(bundle))

    async def list_projects(self, request: Request) -> Response:
        """List the projects behind the bundles.

        Returns the projects of the catalogue, newest first.
        """
        catalogue, prepared, shown = await self._show(request)
        disabled_too = _flag(request)
        since = self._clock() - show_catalogue.RECENTLY
        listed = (
            project
            for project in catalogue.projects.values()
            if disabled_too is None
            or prepared.is_on_sale(project)
            or (disabled_too and prepared.was_disabled_since(project, since))
        )
        page, cursor = _page(request, listed, f"projects {request.scope.mode} {disabled_too}")
        return list_response([shown.project(project) for project in page], cursor)

    async def read_project(self, request: Request) -> Response:
        """Read a project.

        Returns one project of the catalogue with its registry, its bundles and its supply.
        """
        catalogue, _, shown = await self._show(request)
        project = catalogue.projects.get(request.path("project_id"))
        if project is None:
            raise ProjectNotFound
        return json_response(shown.project(project))

    async def read_project_by_slug(self, request: Request) -> Response:
        """Read a project by its slug.

        Returns the project with this name in URLs. Slugs are unique in each mode.
        """
        _, prepared, shown = await self._show(request)
        project = prepared.projects_by_slug.get(request.path("project_slug"))
        if project is None:
            raise ProjectNotFound
        return json_response(shown.project(project))

    async def _show(
        self, request: Request
    ) -> tuple[Catalogue, show_catalogue.PreparedCatalogue, show_catalogue.CatalogueOfAccount]:
        catalogue = await self._catalogues.current(request.scope.mode)
        terms = await self._directory.terms_of(request.scope)
        prepared = self._prepared.of(catalogue)
        return catalogue, prepared, show_catalogue.CatalogueOfAccount(catalogue, prepared, terms)

    async def read_image(self, request: Request) -> Response:
        """A picture of the demo catalogue.

        The demo catalogue's pictures; an operator's own catalogue names images anywhere.
        """
        image = demo_image(request.path("name"))
        if image is None:
            raise ImageNotFound
        return image.response(request, ONE_DAY, IMAGE_POLICY)

    def page_routes(self) -> list[Route]:
        """Not in the OpenAPI document: pages and mails show these."""
        route = RouteMaker("Catalogue", Access.PUBLIC)
        return [route("GET /images/bundles/{name}", self.read_image, None, ImageNotFound)]

    def routes(self) -> list[Route]:
        route = RouteMaker("Catalogue")
        return [
            route(
                "GET /v1/bundles",
                self.list_bundles,
                ListOut[BundleOut],
                *LIST_ERRORS,
                operation_id="listBundles",
                query=(*LIST_PARAMETERS, _BUNDLES_TOO),
            ),
            route("GET /v1/bundles/{bundle_id}", self.read_bundle, BundleOut, BundleNotFound, operation_id="getBundle"),
            route(
                "GET /v1/projects",
                self.list_projects,
                ListOut[ProjectOut],
                *LIST_ERRORS,
                operation_id="listProjects",
                query=(*LIST_PARAMETERS, _PROJECTS_TOO),
            ),
            route(
                "GET /v1/projects/{project_id}",
                self.read_project,
                ProjectOut,
                ProjectNotFound,
                operation_id="getProject",
            ),
            route(
                "GET /v1/projects/by-slug/{project_slug}",
                self.read_project_by_slug,
                ProjectOut,
                ProjectNotFound,
                operation_id="getProjectBySlug",
            ),
        ]


def _flag(request: Request) -> bool | None:
    (text,) = request.query(RECENTLY_DISABLED)
    if text not in {None, "true", "false"}:
        message = f"{RECENTLY_DISABLED} is not valid: write true or false."
        raise Invalid([Fault("validation_error", message, RECENTLY_DISABLED)])
    return None if text is None else text == "true"


def _page(request: Request, items: Iterable[Item], list_name: str) -> tuple[Sequence[Item], str | None]:
    """A page of the cached catalogue, newest first."""
    paging = Paging.of(request, list_name)
    start = paging.start
    newest_first = sorted(items, key=lambda item: (item.created_at, item.id), reverse=True)
    rest = [item for item in newest_first if (item.created_at, item.id) < (start.created_at, start.id)]
    return paging.cut(rest)
