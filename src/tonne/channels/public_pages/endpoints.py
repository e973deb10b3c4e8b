"""The settings of an account's Sustainability page."""

import asyncio

from tonne.channels.public_pages import schemas
from tonne.channels.public_pages.change_page import PageChange, change_page, change_settings, read_page
from tonne.channels.public_pages.errors import SustainabilityPageNotFound
from tonne.channels.public_pages.store import find_page
from tonne.platform.db.database import Database
from tonne.platform.http.json_body import read
from tonne.platform.http.route import Request, Response, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, same_named
from tonne.selling.accounts.logos.logo import read_logo


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
        logo = None if sent is None else await asyncio.to_thread(read_logo, sent.media_type, sent.data)
        removes_logo = "logo" in document.members and sent is None
        change = same_named(PageChange, body, logo=logo, removes_logo=removes_logo)
        page = await self._database.commit(change_page, request.scope, change, actor=request.actor, now=self._clock())
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
            change_settings, request.scope, body, must_exist=must_exist, actor=request.actor, now=self._clock()
        )
        return schemas.page_settings_out(page)
