"""The settings of an account's Sustainability page."""

from tonne.base.clock import Clock
from tonne.base.settings import Settings
from tonne.db.pool import Database
from tonne.http.json_body import read
from tonne.http.route import Request, Response, json_response
from tonne.sustainability.change_page import PageChange, change_page
from tonne.sustainability.logo import read_logo
from tonne.sustainability.read_page import read_page
from tonne.sustainability.schemas import SustainabilityPageIn, page_out


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
            return json_response(page_out(await read_page(connection, request.scope), self._base_url))

    async def change_sustainability_page(self, request: Request) -> Response:
        """Set up or change the account's Sustainability page.

        Changes the settings of the account's Sustainability page; fields that are left out keep their values.

        Previous addresses of the page redirect to the current one.
        """
        document = request.json()
        body = read(document, SustainabilityPageIn)
        change = PageChange(
            enabled=body.enabled,
            slug=body.slug,
            title=body.title,
            description=body.description,
            sections=body.sections,
            logo=None if body.logo is None else read_logo(body.logo.media_type, body.logo.data),
            removes_logo="logo" in document.members and body.logo is None,
        )
        async with self._database.transaction() as tx:
            page = await change_page(tx, request.scope, change, actor=request.actor, now=self._clock())
        return json_response(page_out(page, self._base_url))
