"""Orders paid by invoice, the jobs, a clock that tests move, and queries."""

import email
import email.policy
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from typing import Any

from tests.support.clock import ManualClock
from tests.support.pdf_pages import page_texts
from tests.support.scene import Scene
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.money.invoices.cancel_order import cancel_order
from tonne.money.invoices.credit_notes.issue_credit_note import MailCreditNotes
from tonne.money.invoices.documents.billed_sums import ExactOrder, SummedLine, sum_billed
from tonne.money.invoices.follow_up_invoices import FollowUpInvoices
from tonne.money.invoices.issuing.issue_invoices import IssueConsolidatedInvoices, IssueInvoices
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.originals.render_documents import RenderDocuments
from tonne.money.invoices.settle_invoice import settle_invoice
from tonne.money.invoices.store import find_invoice
from tonne.platform.documents.mail.stored_files import with_files
from tonne.platform.values.amounts import NO_TAX
from tonne.platform.values.context import Scope
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.accounts.store import add_admin
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_orders

ADA = "ada@ours.test"


class Billing(Scene):
    """Issues invoices and follows up on them."""

    def __init__(self, services: Services, clock: ManualClock) -> None:
        super().__init__(services, clock)
        self.issue = IssueInvoices(self.database, clock, self.settings)
        self.issue_consolidated = IssueConsolidatedInvoices(self.database, clock, self.settings)
        self.render = RenderDocuments(self.database, clock, services.originals, share_percent=100)
        self.follow_up = FollowUpInvoices(self.database, clock, self.settings, services.originals)
        self.mail_credit_notes = MailCreditNotes(self.database, clock, self.settings, services.originals)

    async def add_admins(self, organisation_id: str, *addresses: str) -> None:
        async with self.database.transaction() as tx:
            for address in addresses:
                await add_admin(tx, organisation_id, address, self.clock.now)

    async def renew_rates(self) -> None:
        """The rates of the demo catalogue are too old for live orders."""
        await self.execute("UPDATE exchange_rates SET as_of = $1", self.clock.now)

    async def work(self) -> None:
        """Run the jobs until nothing is due."""
        await self.run_jobs(self.issue, self.issue_consolidated, self.render, self.follow_up, self.mail_credit_notes)

    async def settle(self, order: Order) -> None:
        async with self.database.transaction() as tx:
            await settle_invoice(tx, await self.invoice(order), by=TESTER.at(self.clock.now))

    async def set_billing(self, scope: Scope, **change: Any) -> None:
        """Change the billing settings of an account, see `BillingChange`."""
        async with self.database.transaction() as tx:
            requested = AccountChange(billing=BillingChange(**change))
            await change_account(tx, scope, requested, by=TESTER.at(self.clock.now))

    async def cancel(self, order: Order, reason: str | None = None) -> None:
        async with self.database.transaction() as tx:
            [locked] = (await lock_orders(tx, [order.key])).values()
            await cancel_order(tx, locked, by=TESTER.at(self.clock.now), reason=reason)

    async def invoice(self, order: Order) -> Invoice:
        async with self.database.connection() as connection:
            found = await find_invoice(connection, order.scope, order.id)
        assert found is not None
        return found

    async def until_held(self, until: datetime) -> None:
        """Wait until a worker has leased an invoice until then."""
        await self.until(lambda: self.fetch("SELECT FROM invoices WHERE next_attempt_at = $1", until))

    async def mails(self) -> list[EmailMessage]:
        """All mails, sent or waiting."""
        await self.run_jobs(self.mail_orders)
        rows = await self.fetch("SELECT message FROM mails ORDER BY created_at, id")
        return [parse(await with_files(row["message"], self.services.originals.read)) for row in rows]


def parse(raw: bytes) -> EmailMessage:
    return email.message_from_bytes(raw, policy=email.policy.default)


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    text: str = body.get_content()
    return text.replace("\r\n", "\n")


def pdf_of(mail: EmailMessage) -> str:
    """The text of the first attachment, which must be a PDF: the document itself."""
    [attached, *_] = mail.iter_attachments()
    assert attached.get_content_type() == "application/pdf"
    return pdf_text(attached.get_content())


def sheet_of(mail: EmailMessage) -> str:
    """The text of the sheet about the state of the invoice, the second attachment."""
    [_, sheet] = mail.iter_attachments()
    return pdf_text(sheet.get_content())


def pdf_text(content: bytes) -> str:
    return "\n".join(page_texts(content)).replace("\r\n", "\n")


def together_minor(orders: Sequence[Order]) -> int:
    """What these orders cost together, without tax."""
    grams: Counter[tuple[int, int]] = Counter()
    for line in (line for order in orders for line in order.lines):
        grams[line.unit_price_minor, line.gross_unit_price_minor] += line.quantity_grams
    lines = [SummedLine(mass, net, gross) for (net, gross), mass in grams.items()]
    return sum_billed(lines, [ExactOrder(order.exact_cost, order.exact_fee) for order in orders], NO_TAX).net_minor
