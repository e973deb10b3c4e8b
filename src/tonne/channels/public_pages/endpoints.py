"""Endpoints of Sustainability pages: the settings of an account's page, and public pages as JSON.

A public page is found by its slug or by the handle of its account.
"""

from decimal import Decimal

from msgspec import UNSET, Struct

from tonne.channels.public_pages import schemas, store
from tonne.channels.public_pages.change_page import PageChange, change_page, change_settings, read_page
from tonne.channels.public_pages.errors import SustainabilityPageNotFound
from tonne.channels.public_pages.figures import figure_store
from tonne.channels.public_pages.figures.figure_store import FigurePeriod, Retired
from tonne.channels.public_pages.figures.figures import Goal, flights_of, goals_of
from tonne.channels.public_pages.model import DescriptionFormat, PageSection, SustainabilityPage, TitleFormat
from tonne.channels.public_pages.store import find_page
from tonne.platform.db.database import Connection, Database
from tonne.platform.db.replica import Reads
from tonne.platform.http.json_body import read
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import apportion, format_money, format_tonnes
from tonne.platform.values.context import Clock, Mode, same_named
from tonne.platform.web.caching import ONE_MINUTE
from tonne.selling.accounts.account_schemas import logo_path
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.accounts.logos.logo import read_logo
from tonne.selling.accounts.logos.store import find_organisation_logo
from tonne.selling.accounts.model import Terms
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.show_catalogue import CatalogueOfAccount, PreparedCatalogues
from tonne.selling.catalogue.snapshot import Catalogues


class SustainabilityEndpoints:
    def __init__(self, database: Database, *, clock: Clock, settings: Settings) -> None:
        self._database = database
        self._clock = clock
        self._base_url = settings.base_url

    async def read_sustainability_page(self, request: Request) -> Response:
        """Read the account's Sustainability page.

        Returns the settings of the account's Sustainability page.

        A page that was never set up is not enabled, and has a free slug as a suggestion.
        """
        async with self._database.snapshot() as connection:
            return json_response(schemas.page_out(await read_page(connection, request.scope), self._base_url))

    async def change_sustainability_page(self, request: Request) -> Response:
        """Set up or change the account's Sustainability page.

        Changes the settings of the account's Sustainability page; fields that are left out keep their values.

        Previous addresses of the page redirect to the current one.
        """
        document = request.json()
        body = read(document, schemas.SustainabilityPageIn)
        sent = body.logo
        logo = None if sent is None else await in_turn(read_logo, sent.media_type, sent.data)
        removes_logo = "logo" in document.members and sent is None
        change = same_named(PageChange, body, logo=logo, removes_logo=removes_logo)
        page = await self._database.commit(change_page, request.scope, change, by=request.actor.at(self._clock()))
        return json_response(schemas.page_out(page, self._base_url))

    async def create_page(self, request: Request) -> Response:
        """Create the account's Sustainability page.

        Fails with `sustainability_page_exists` if the account has one. Its heading, timeline, projects and logo are
        set with `PUT /v1/sustainability-page`.
        """
        return json_response(await self._settings(request, must_exist=False), 201)

    async def replace_page(self, request: Request) -> Response:
        """Replace the settings of the account's Sustainability page.

        Heading, timeline, projects and logo stay as they are. Previous addresses of the page redirect to the current
        one.
        """
        return json_response(await self._settings(request, must_exist=True))

    async def read_current_page(self, request: Request) -> Response:
        """Read the settings of the account's Sustainability page.

        404 if the account has none yet.
        """
        page = await self._database.run(find_page, request.scope)
        if page is None:
            raise SustainabilityPageNotFound("The account has no Sustainability page yet. Create it with POST.")
        return json_response(schemas.page_settings_out(page))

    async def _settings(self, request: Request, *, must_exist: bool) -> schemas.PageSettingsOut:
        body = read(request.json(), schemas.PageSettingsIn)
        page = await self._database.commit(
            change_settings, request.scope, body, must_exist=must_exist, by=request.actor.at(self._clock())
        )
        return schemas.page_settings_out(page)


class _Published(Struct, frozen=True):
    """What is read of a page, in one snapshot. `spent_minor` is 0 unless the page shows it."""

    account_name: str
    organisation_logo: str | None
    bundles: list[Retired]
    project_ids: list[str]
    spent_minor: int

    @property
    def grams(self) -> int:
        return sum(each.grams for each in self.bundles)


class PublishedPageEndpoints:
    def __init__(self, reads: Reads, catalogues: Catalogues, directory: AccountDirectory, settings: Settings) -> None:
        self._reads = reads
        self._catalogues = catalogues
        self._directory = directory
        self._base_url = settings.base_url
        self._prepared = PreparedCatalogues()

    async def read_by_slug(self, request: Request) -> Response:
        """Read a public Sustainability page by its slug.

        Needs no API key. 404 if there is no such page, it is disabled, or its account is private. Earlier slugs of the
        page work, too. The response may be a minute old.
        """
        mode, slug = _mode(request), request.path("slug")
        return await self._show(await self._reads.find(lambda tx: store.find_enabled_any_account(tx, mode, slug)))

    async def read_by_handle(self, request: Request) -> Response:
        """Read a public Sustainability page by the handle of its account.

        Needs no API key. 404 if there is no such page, it is disabled, or its account is private. The response may be a
        minute old.
        """
        mode, organisation_id, handle = _mode(request), request.path("organisation_id"), request.path("handle")
        return await self._show(
            await self._reads.find(lambda tx: store.find_by_handle_any_account(tx, organisation_id, mode, handle))
        )

    async def _show(self, page: SustainabilityPage | None) -> Response:
        if page is None:
            raise SustainabilityPageNotFound
        found = await self._reads.read(lambda tx: self._read(tx, page))
        catalogue = await self._catalogues.current(page.scope.mode)
        terms = await self._directory.terms_of(page.scope)
        known = [catalogue.projects[each] for each in found.project_ids if each in catalogue.projects]
        goals = goals_of(known)
        has_goals = PageSection.UNSDG in page.sections
        shown = schemas.PublishedPageOut(
            account_name=found.account_name,
            logo=page.logo_address(self._base_url),
            organisation_logo=found.organisation_logo,
            title=_total(page, found, terms),
            description=_text(page, found, goals),
            bundles=self._bundles(found, catalogue, terms) if PageSection.BUNDLES_BREAKDOWN in page.sections else None,
            un_sdg=[schemas.PageGoalOut(goal.number, goal.projects_count) for goal in goals] if has_goals else None,
            include_certificates=PageSection.CERTIFICATES in page.sections,
        )
        response = json_response(shown)
        response.headers |= ONE_MINUTE
        if page.is_hidden:
            response.headers["X-Robots-Tag"] = "noindex"
        return response

    async def _read(self, tx: Connection, page: SustainabilityPage) -> _Published:
        owner = await store.find_owner(tx, page.scope)
        logo = await find_organisation_logo(tx, page.scope)
        retired = await figure_store.sum_retired(tx, page.scope, FigurePeriod())
        is_money = page.title_format is TitleFormat.BY_PRICE
        return _Published(
            account_name=owner.account_name,
            organisation_logo=None if logo is None else f"{self._base_url}{logo_path(*logo)}",
            bundles=[each for each in retired if each.bundle_id is not None],
            project_ids=[each.project_id for each in retired if each.project_id is not None],
            spent_minor=await figure_store.sum_spent(tx, page.scope) if is_money else 0,
        )

    def _bundles(self, found: _Published, catalogue: Catalogue, terms: Terms) -> list[schemas.PageBundleOut]:
        """Without bundles that are no longer in the catalogue; the shares are those of the whole total."""
        of_account = CatalogueOfAccount(catalogue, self._prepared.of(catalogue), terms)
        # Tenths of a per cent, apportioned so that they add up to exactly 100 %.
        tenths = apportion(1000, [each.grams for each in found.bundles]) if found.bundles else []
        return [
            schemas.PageBundleOut(
                of_account.bundle(catalogue.bundles[each.bundle_id]),
                format_tonnes(each.grams),
                float(Decimal(tenth) / 10),
            )
            for each, tenth in zip(found.bundles, tenths, strict=True)
            if each.bundle_id in catalogue.bundles
        ]


def _mode(request: Request) -> Mode:
    try:
        return Mode(request.path("type"))
    except ValueError as error:
        raise SustainabilityPageNotFound from error


def _total(page: SustainabilityPage, found: _Published, terms: Terms) -> schemas.PageTotalOut:
    if page.title_format is TitleFormat.BY_PRICE:
        value = format_money(found.spent_minor, terms.currency)
        return schemas.PageTotalOut(page.title_format, value=value, currency=terms.currency)
    return schemas.PageTotalOut(page.title_format, quantity=format_tonnes(found.grams))


def _text(page: SustainabilityPage, found: _Published, goals: tuple[Goal, ...]) -> schemas.PageTextOut | None:
    chosen = page.description_format
    if chosen is DescriptionFormat.BY_CUSTOM_DESCRIPTION and not page.description:
        return None
    is_goals = chosen is DescriptionFormat.BY_SUPPORTED_GOALS
    return schemas.PageTextOut(
        chosen,
        flights_nyc_to_london=str(flights_of(found.grams)) if chosen is DescriptionFormat.BY_EQUIVALENT else UNSET,
        number_of_un_sdgs=len(goals) if is_goals else UNSET,
        number_of_projects=len(found.project_ids) if is_goals else UNSET,
        custom_description=page.description if chosen is DescriptionFormat.BY_CUSTOM_DESCRIPTION else UNSET,
    )
