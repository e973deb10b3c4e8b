"""Customers who buy at checkouts and by API, and what the tests ask about them."""

import httpx

from tests.channels.checkout.scene import work
from tests.channels.checkout.shopper import Shopper, make_link
from tests.support.api_client import ApiClient
from tests.support.scene import Scene
from tests.support.world import TESTER, World
from tonne.apps.privacy.erase_person import erase_person
from tonne.apps.privacy.export_person import PersonRecord, export_person
from tonne.apps.privacy.model import Erasure, Search, parse_person
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import LinkBeneficiary, OffsetLink
from tonne.platform.values.context import utc_now

EMAIL, NAME = "Ada.Keller@example.com", "Ada Keller"


class Persons(Scene):
    def __init__(self, services: Services, world: World, api: ApiClient, browser: httpx.AsyncClient) -> None:
        super().__init__(services)
        self.world = world
        self.api = api
        self.shopper = Shopper(browser)

    async def link(self) -> OffsetLink:
        return await make_link(
            self.services, self.world.ours_test.scope, beneficiary=LinkBeneficiary.CUSTOMER, redirect_url=None
        )

    async def buys(self, email: str = EMAIL, name: str = NAME, *, public: bool = False) -> str:
        """At a checkout, until the order is complete and mailed. Returns its id."""
        ticked = "1" if public else ""
        address = await self.shopper.begin(
            await self.link(), email=email, name_on_certificate=name, is_name_public=ticked
        )
        await self.shopper.pay(address)
        await self.work()
        return str(await self.fetchval("SELECT id FROM orders ORDER BY created_at DESC, id DESC LIMIT 1"))

    async def work(self) -> None:
        """Run all jobs, also those that wait between two runs."""
        services = self.services
        await work(services)
        await self.execute("UPDATE checkouts SET next_mail_at = now() - interval '1 s' WHERE next_mail_at > now()")
        await self.run_jobs(services.mail_certificates, services.mail_changed_certificates, services.mails)

    async def erase(self, who: str = EMAIL, organisation_id: str | None = None) -> Erasure:
        search = Search(parse_person(who), organisation_id)
        async with self.database.connection() as connection:
            return await erase_person(connection, search, actor=TESTER, clock=utc_now)

    async def export(self, who: str = EMAIL, organisation_id: str | None = None) -> list[PersonRecord]:
        async with self.database.connection() as connection:
            return await export_person(connection, Search(parse_person(who), organisation_id))
