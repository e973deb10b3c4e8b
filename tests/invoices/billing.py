"""Orders paid by invoice, the two jobs, a clock that tests move, and queries."""

import asyncio
import email
import email.policy
import io
from datetime import datetime
from email.message import EmailMessage
from typing import Any

import asyncpg
import pypdf

from tests.support.clock import ManualClock
from tests.support.orders import place
from tonne.accounts.store import add_admin
from tonne.app import Services
from tonne.base.scope import Scope
from tonne.base.settings import Settings
from tonne.cli.doctor import examine
from tonne.db.pool import Database
from tonne.invoices.follow_up_invoices import FollowUpInvoices
from tonne.invoices.issue_invoices import IssueInvoices
from tonne.invoices.model import Invoice
from tonne.invoices.settle_invoice import settle_invoice
from tonne.invoices.store import find_invoice
from tonne.orders.model import Order

ADA = "ada@ours.test"


class Billing:
    def __init__(self, database: Database, settings: Settings, clock: ManualClock) -> None:
        self.database = database
        self.settings = settings
        self.clock = clock
        self.services = Services(database, settings, clock)
        self.issue = IssueInvoices(database, clock, settings)
        self.follow_up = FollowUpInvoices(database, clock, settings)

    async def place(self, scope: Scope, **words: Any) -> Order:
        return await place(self.services, scope, self.clock.now, **words)

    async def add_admins(self, organisation_id: str, *addresses: str) -> None:
        async with self.database.transaction() as tx:
            for address in addresses:
                await add_admin(tx, organisation_id, address, self.clock.now)

    async def work(self) -> None:
        """Run both jobs until nothing is due."""
        while await self.issue.run_once() or await self.follow_up.run_once():
            pass

    async def settle(self, order: Order) -> None:
        async with self.database.transaction() as tx:
            await settle_invoice(tx, order.scope, order.id, actor="test", now=self.clock.now)

    async def invoice(self, order: Order) -> Invoice:
        async with self.database.connection() as connection:
            found = await find_invoice(connection, order.scope, order.id)
        assert found is not None
        return found

    async def fetch(self, sql: str, *values: object) -> list[asyncpg.Record]:
        async with self.database.connection() as connection:
            return await connection.fetch(sql, *values)

    async def until_held(self, until: datetime) -> None:
        """Wait until a worker has leased an invoice until then."""
        async with asyncio.timeout(10):
            while not await self.fetch("SELECT FROM invoices WHERE next_attempt_at = $1", until):  # noqa: ASYNC110 - a row
                await asyncio.sleep(0.005)

    async def status(self, order: Order) -> str:
        [row] = await self.fetch("SELECT status FROM orders WHERE id = $1", order.id)
        return str(row["status"])

    async def mails(self) -> list[EmailMessage]:
        """All mails, sent or waiting."""
        rows = await self.fetch("SELECT message FROM mails ORDER BY created_at, id")
        return [parse(row["message"]) for row in rows]

    async def check_nothing_is_broken(self) -> None:
        async with self.database.transaction() as tx:
            assert await examine(tx) == {}


def parse(raw: bytes) -> EmailMessage:
    return email.message_from_bytes(raw, policy=email.policy.default)


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    text: str = body.get_content()
    return text.replace("\r\n", "\n")


def pdf_of(mail: EmailMessage) -> str:
    """The text of the only attachment, which must be a PDF."""
    [attached] = mail.iter_attachments()
    assert attached.get_content_type() == "application/pdf"
    return pdf_text(attached.get_content())


def pdf_text(content: bytes) -> str:
    return "\n".join(page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content)).pages)
