"""A payer who gets mails about a card and follows their links."""

import email
import email.policy
import itertools
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage

import httpx

from tests.channels.checkout.shopper import form_of
from tests.money.cards.card_scene import CardScene
from tests.support.clock import ManualClock
from tests.support.world import TESTER, Tenant
from tonne.apps.wiring.app import Services, build_app
from tonne.money.cards.stored_cards.mail_card_problems import MailCardProblems
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.customer_mail import allow_address
from tonne.selling.accounts.store import add_admin

ADMIN, BILLING = "ada@ours.test", "billing@ours.test"
URL = re.compile(r"http://tonne\.test(/(?:o|card)/\S+)")


class PayerScene(CardScene):
    """The services, whose pages use the same clock and gateway."""

    def __init__(self, services: Services, tenant: Tenant, clock: ManualClock, http: httpx.AsyncClient) -> None:
        super().__init__(services, tenant, clock)
        self.http = http
        self.mailer = MailCardProblems(self.database, clock, self.settings, services.box)

    async def add_admin(self, address: str = ADMIN) -> None:
        async with self.database.transaction() as tx:
            await add_admin(tx, self.scope.organisation_id, address, self.clock())

    async def mail_receipts_to(self, address: str) -> None:
        """Also before anyone has confirmed this address. None if it is empty."""
        async with self.database.transaction() as tx:
            change = AccountChange(receipt_email=address)
            await change_account(tx, self.scope, change, by=TESTER.at(self.clock()))
            if address:
                await allow_address(tx, self.scope.organisation_id, address, self.clock())

    async def work_all(self) -> None:
        await self.run_jobs(self.worker, self.mailer)

    async def mails(self) -> list[EmailMessage]:
        """All mails, also those that were still to be composed."""
        await self.run_jobs(self.mail_orders)
        rows = await self.fetch("SELECT message FROM mails ORDER BY created_at, id")
        return [parse(row["message"]) for row in rows]

    async def links(self) -> dict[str, str]:
        """The paths in the last mail, by the text above each."""
        *_, last = await self.mails()
        found = {}
        lines = text_of(last).split("\n")
        for above, line in itertools.pairwise(lines):
            if match := URL.fullmatch(line):
                found[above.removesuffix(":")] = match[1]
        return found

    async def open(self, path: str) -> httpx.Response:
        page = await self.http.get(path)
        while page.status_code == 303:
            page = await self.http.get(page.headers["location"])
        return page

    async def submit(self, page: httpx.Response, **typed: str) -> httpx.Response:
        """Submit the form of a page and follow the redirects."""
        form = form_of(page)
        answer = await self.http.post(form.action, data=form.values(**typed))
        return await self.open(answer.headers["location"]) if answer.status_code == 303 else answer


@asynccontextmanager
async def payer_scene(services: Services, tenant: Tenant, clock: ManualClock) -> AsyncIterator[PayerScene]:
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        yield PayerScene(services, tenant, clock, http)


def parse(raw: bytes) -> EmailMessage:
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")
