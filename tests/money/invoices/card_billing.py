"""An account that pays by card and is billed together with a month of orders."""

from typing import Any

import asyncpg

from tests.money.cards.card_scene import GOOD, CardScene
from tests.support.clock import ManualClock
from tests.support.world import TESTER, Tenant
from tonne.apps.wiring.app import Services
from tonne.money.cards.model import RetrySchedule
from tonne.money.cards.stored_cards.mail_card_problems import MailCardProblems
from tonne.money.invoices.card_payment.settle_card_invoice import ChargeInvoices
from tonne.money.invoices.credit_notes.issue_credit_note import MailCreditNotes
from tonne.money.invoices.follow_up_invoices import FollowUpInvoices
from tonne.money.invoices.issuing.issue_invoices import IssueConsolidatedInvoices, IssueInvoices
from tonne.money.refunds.model import Refund
from tonne.money.refunds.request_refund import Cancellation, RefundRequest, cancel_by_id, request_refund
from tonne.platform.values.context import Mode
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.model import Billing
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.accounts.store import add_admin
from tonne.selling.orders.model import Order

ADA = "ada@ours.test"


class CardBilling(CardScene):
    """On 1 March."""

    def __init__(self, services: Services, tenant: Tenant, clock: ManualClock) -> None:
        super().__init__(services, tenant, clock)
        parts = (self.database, clock, self.settings)
        self.issue, self.consolidate = IssueInvoices(*parts), IssueConsolidatedInvoices(*parts)
        self.charge = self.another_charger()
        self.follow_up = FollowUpInvoices(*parts, services.originals)
        self.mail_credit_notes = MailCreditNotes(*parts, services.originals)
        self.mail_problems = MailCardProblems(*parts, services.box)

    def another_charger(self) -> ChargeInvoices:
        return ChargeInvoices(
            self.database, self.clock, self.settings, self.gateways, Mode.TEST, RetrySchedule(self.settings)
        )

    async def open(self, number: str | None = GOOD, **billing: Any) -> None:
        """Bill the account monthly, or as `BillingChange` says, and let this card pay."""
        await self.pay_by_card(number)
        change = BillingChange(**(billing or {"billing": Billing.MONTHLY}))
        async with self.database.transaction() as tx:
            await change_account(tx, self.scope, AccountChange(billing=change), by=TESTER.at(self.clock()))

    async def add_admin(self) -> None:
        async with self.database.transaction() as tx:
            await add_admin(tx, self.scope.organisation_id, ADA, self.clock.now)

    async def order_small(self, value_minor: int = 20) -> Order:
        """Below the smallest amount that a card can be charged."""
        return await self.place_order(self.scope, value_minor=value_minor)

    async def run(self) -> None:
        """Run the jobs until nothing is due."""
        await self.run_jobs(
            self.issue,
            self.consolidate,
            self.worker,
            self.charge,
            self.refunds,
            self.follow_up,
            self.mail_credit_notes,
            self.mail_problems,
        )

    async def invoices(self) -> list[asyncpg.Record]:
        return await self.fetch("SELECT * FROM invoices ORDER BY number")

    async def invoice_charges(self) -> list[asyncpg.Record]:
        return await self.fetch("SELECT * FROM charges WHERE invoice_id IS NOT NULL ORDER BY created_at, attempt")

    async def statuses(self) -> set[str]:
        return {row["status"] for row in await self.fetch("SELECT status FROM orders")}

    async def refund(self, order: Order, amount_minor: int | None = None) -> Refund:
        request = RefundRequest(amount_minor=amount_minor, reason="Sorry")
        async with self.database.transaction() as tx:
            return await request_refund(
                tx, self.scope, order.id, request, settings=self.settings, by=TESTER.at(self.clock())
            )

    async def cancel_with_refund(self, order: Order) -> Order:
        requested = Cancellation(reason=None, with_refund=True)
        async with self.database.transaction() as tx:
            return await cancel_by_id(
                tx, self.scope, order.id, requested, settings=self.settings, by=TESTER.at(self.clock())
            )
