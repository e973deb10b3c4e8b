"""A month of business in both modes: customers pay by card in test mode, and by bank in live mode."""

import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from decimal import Decimal

from tests.architecture.source import ROOT
from tests.money.cards.card_scene import DECLINED_TWICE, GOOD, NO_MONEY
from tests.money.invoices.bank import Line, camt_file, csv_file
from tests.supply.retirements.shop import Shop
from tests.support.clock import ManualClock
from tests.support.scene import Scene
from tests.support.world import ADDRESS, TESTER, World, add_account
from tonne.apps.wiring.app import Services
from tonne.money.accounting.books.chart import Office, import_chart
from tonne.money.accounting.books.close_month import WriteDigests, close_month, find_changed_files
from tonne.money.accounting.books.files import FILES
from tonne.money.accounting.books.month_store import find_open_before, list_closed
from tonne.money.accounting.journal.import_payouts import import_payouts
from tonne.money.accounting.matching.assign_transfer import assign_transfer, unassign_transfer
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.bank.return_store import resolve_transfer
from tonne.money.bank.return_transfer import confirm_return, fail_return, return_transfer
from tonne.money.cards.captured_store import request_checks_any_account
from tonne.money.cards.gateways.card import DisputeState
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.stored_cards.stored_cards import charge_again, describe_card, store_card
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.document_numbers import find_by_references_any_account
from tonne.money.invoices.model import Invoice
from tonne.money.invoices.settle_invoice import reinstate_invoice, settle_invoice, write_off_invoice
from tonne.money.refunds.disputes.check_payments import simulate_dispute
from tonne.money.refunds.request_refund import Cancellation, RefundRequest, cancel_by_id, request_refund
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode, Scope, new_id
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.change_account import AccountChange, change_account
from tonne.selling.accounts.model import Billing, Fulfil, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.model import Order

# They call other services, which these tests have no part of.
_LEFT_OUT = {"deliver_webhooks", "send_mails", "make_partitions", "remove_partitions"}
OPEN_INVOICES = """
SELECT reference, total_minor - credited_minor AS due_minor FROM invoices
WHERE mode = 'live' AND status = 'open' ORDER BY number
"""
WRITTEN_OFF = """
SELECT reference FROM invoices WHERE mode = 'live' AND status = 'open' AND written_off_at IS NOT NULL ORDER BY number
"""


class Month(Scene):
    """Every step is what a customer, an operator, the bank or the gateway may do.

    `banked` and `paid_out` are counted apart from the service's own records.
    """

    def __init__(self, services: Services, world: World, clock: ManualClock, rng: random.Random) -> None:
        super().__init__(services, clock)
        self.world = world
        self.rng = rng
        self.orders: list[Order] = []
        self.banked: Counter[str] = Counter()
        self.paid_out = 0
        self.lines: list[Line] = []
        self.steps = (
            *(
                self.order_by_card,
                self.order_by_card,
                self.order_by_invoice,
                self.order_by_invoice,
                self.order_on_credit,
                self.order_on_credit,
                self.work,
                self.work,
                self.next_day,
            ),
            *(self.pay_invoice, self.pay_invoice, self.pay_something, self.import_again, self.settle_by_hand),
            *(self.refund, self.cancel, self.dispute, self.return_money, self.send_money_back, self.assign),
            *(self.resolve, self.pay_out, self.confirm_retirements, self.unassign, self.come_back),
            *(self.write_off, self.write_off, self.reinstate, self.recover, self.recover, self.correct),
            *(self.order_small, self.order_small, self.order_small, self.refund_at_gateway, self.change_card),
            *(self.close_month, self.close_month),
        )

    async def begin(self) -> None:
        async with self.database.transaction() as tx:
            ours = self.world.ours_test.scope.organisation_id
            self.card = await add_account(tx, ours, Mode.TEST, method=PaymentMethod.CARD, now=self.clock.now)
            self.live = await add_account(tx, ours, Mode.LIVE, now=self.clock.now)
            self.trusted = await add_account(tx, ours, Mode.LIVE, now=self.clock.now)
            credit = BillingChange(fulfil=Fulfil.ON_ORDER, credit_limit="400.00")
            await change_account(tx, self.trusted, AccountChange(billing=credit), by=TESTER.at(self.clock.now))
            self.small = await add_account(tx, ours, Mode.TEST, method=PaymentMethod.CARD, now=self.clock.now)
            await self._bill_together(tx)
            stored = await describe_card(self.services.card_gateways, Mode.TEST, None, GOOD)
            for scope in (self.card, self.small):
                await store_card(tx, scope, stored, by=TESTER.at(self.clock.now))
            if self.rng.random() < 0.7:
                rate = Decimal(self.rng.choice(("0.19", "0.081")))
                profile = {"treatment": TaxTreatment.STANDARD, "rate": rate, **ADDRESS}
                await set_tax_profile(tx, ours, profile, by=TESTER.at(self.clock.now))
        await self.order_by_card()
        await self.order_by_invoice()
        await self.order_small()

    async def import_chart(self) -> None:
        """Without it, months can be closed, and have no file for DATEV."""
        chart = SheetFile("skr03.csv", (ROOT / "docs" / "charts" / "skr03.csv").read_bytes())
        async with self.database.transaction() as tx:
            await import_chart(tx, chart, Office(1001, 7), by=TESTER.at(self.clock.now))

    async def _bill_together(self, tx: Connection) -> None:
        change = self.rng.choice(
            (
                BillingChange(billing=Billing.MONTHLY),
                BillingChange(billing=Billing.THRESHOLD, threshold=self.rng.choice(("0.50", "2.00", "9.99"))),
            )
        )
        await change_account(tx, self.small, AccountChange(billing=change), by=TESTER.at(self.clock.now))

    async def step(self) -> None:
        await self.rng.choice(self.steps)()

    async def order_by_card(self) -> None:
        """Also too little for a card: then it is collected, and often a later one takes it with it."""
        if self.rng.random() < 0.3:
            self.orders.append(await self.place_order(self.card, value_minor=self.rng.randint(3, 49)))
        else:
            await self._order(self.card)

    async def order_by_invoice(self) -> None:
        await self._order(self.live)

    async def order_on_credit(self) -> None:
        await self._order(self.trusted)

    async def order_small(self) -> None:
        """Some orders below the minimum of a card payment, of an account whose invoices a card pays."""
        for _ in range(self.rng.randint(1, 4)):
            self.orders.append(await self.place_order(self.small, value_minor=self.rng.randint(3, 90)))

    async def change_card(self) -> None:
        """Its card is declined for a while, or works again; or its billing changes, with open groups."""
        number = self.rng.choice((GOOD, GOOD, DECLINED_TWICE, NO_MONEY))
        async with self.database.transaction() as tx:
            stored = await describe_card(self.services.card_gateways, Mode.TEST, None, number)
            await store_card(tx, self.small, stored, by=TESTER.at(self.clock.now))
            await charge_again(tx, self.small, self.clock.now)
            if self.rng.random() < 0.3:
                await self._bill_together(tx)

    async def refund_at_gateway(self) -> None:
        """Somebody refunds a part of a payment for an invoice, or all of it, at the gateway."""
        charges = await self.fetch(
            "SELECT simulated.reference, simulated.amount_minor - simulated.refunded_minor AS left_minor "
            "FROM charges JOIN simulated_charges simulated ON simulated.id = charges.id "
            "WHERE charges.invoice_id IS NOT NULL AND charges.status = 'captured' "
            "  AND simulated.refunded_minor < simulated.amount_minor "
            "  AND NOT EXISTS (SELECT FROM disputes WHERE disputes.charge_id = charges.id) "
            "  AND NOT EXISTS (SELECT FROM refunds WHERE refunds.charge_id = charges.id "
            "                  AND refunds.state IN ('due', 'pending'))"
        )
        if charges:
            charge, gateway = self.rng.choice(charges), SimulatedCardGateway(self.database)
            amount = self.rng.choice((charge["left_minor"], self.rng.randint(1, charge["left_minor"])))
            await gateway.refund(new_id("gwr"), charge["reference"], amount, "EUR")
            async with self.database.transaction() as tx:
                await request_checks_any_account(tx, "simulated", [charge["reference"]], self.clock.now)

    async def _order(self, scope: Scope) -> None:
        value = self.rng.choice((None, self.rng.randint(100, 50_000)))
        self.orders.append(await self.place_order(scope, value_minor=value))

    async def work(self) -> None:
        jobs = [job.run_once for job in self.services.jobs() if job.name not in _LEFT_OUT]
        for _ in range(200):
            if not any([await run_once() for run_once in jobs]):
                return
        raise AssertionError("the jobs always find something to do")

    async def next_day(self) -> None:
        self.clock.now += timedelta(days=self.rng.choice((1, 1, 2, 9, 20)))
        await self.work()

    async def pay_invoice(self) -> None:
        """In full, in part, or too much."""
        invoices = await self.fetch(OPEN_INVOICES)
        if invoices:
            invoice = self.rng.choice(invoices)
            due = invoice["due_minor"]
            amount = self.rng.choice((due, due, max(1, due - 1), due // 2 + 1, due + self.rng.randint(1, 500)))
            await self._bank(Line(self.clock.now.date(), amount, invoice["reference"], reference=f"B{len(self.lines)}"))

    async def pay_something(self) -> None:
        """A transfer that names no invoice, or one that was paid long ago."""
        text = self.rng.choice(("Thank you", "TN-LIVE-000001"))
        amount = self.rng.randint(1, 9_999)
        await self._bank(Line(self.clock.now.date(), amount, text, reference=f"B{len(self.lines)}"))

    async def import_again(self) -> None:
        """The bank's statement of all days so far, in either format."""
        if self.lines:
            await self._import(self.rng.choice((camt_file, csv_file))(self.lines))

    async def _bank(self, line: Line) -> None:
        self.lines.append(line)
        self.banked["received"] += line.minor
        await self._import(camt_file([line]))

    async def _import(self, content: bytes) -> None:
        async with self.database.transaction() as tx:
            file = SheetFile("statement", content)
            await import_statement(tx, Mode.LIVE, file, settings=self.settings, by=TESTER.at(self.clock.now))

    async def settle_by_hand(self) -> None:
        invoices = await self.fetch(OPEN_INVOICES)
        if invoices and self.rng.random() < 0.3:
            async with self.database.transaction() as tx:
                reference = self.rng.choice(invoices)["reference"]
                [invoice] = await find_by_references_any_account(tx, [reference])
                await settle_invoice(tx, invoice, by=TESTER.at(self.clock.now))

    async def write_off(self) -> None:
        """An open invoice. It is refused if its order was not fulfilled."""
        if invoice := await self._open_invoice():
            how = {"reason": "Insolvent", "releases_credit": self.rng.random() < 0.5, "settings": self.settings}
            await self._attempt(write_off_invoice, invoice, **how, by=TESTER.at(self.clock.now))

    async def reinstate(self) -> None:
        if self.rng.random() < 0.5 and (invoice := await self._open_invoice(WRITTEN_OFF)):
            await self._attempt(reinstate_invoice, invoice, reason="They pay", by=TESTER.at(self.clock.now))

    async def recover(self) -> None:
        """A transfer for a written-off invoice, for all of it or a part, or too much."""
        if invoice := await self._open_invoice(WRITTEN_OFF):
            amount = self.rng.choice((invoice.due_minor, invoice.due_minor // 2 + 1, invoice.due_minor + 7))
            if amount > 0:
                number = f"B{len(self.lines)}"
                await self._bank(Line(self.clock.now.date(), amount, invoice.reference, reference=number))

    async def correct(self) -> None:
        """With a credit note for a part of an invoice, or, if its order was fulfilled, for all of it."""
        if invoice := await self._open_invoice(self.rng.choice((OPEN_INVOICES, WRITTEN_OFF))):
            amount = self.rng.choice((1, invoice.due_minor // 3, invoice.due_minor))
            await self._attempt(
                correct_invoice, invoice, None, max(amount, 1), reason="Discount", by=TESTER.at(self.clock.now)
            )

    async def _open_invoice(self, among: str = OPEN_INVOICES) -> Invoice | None:
        found = await self.fetch(among)
        if not found:
            return None
        async with self.database.connection() as connection:
            [invoice] = await find_by_references_any_account(connection, [self.rng.choice(found)["reference"]])
        return invoice

    async def refund(self) -> None:
        if self.orders:
            order = self.rng.choice(self.orders)
            request = RefundRequest(amount_minor=self.rng.choice((None, 1, 50, 333)), reason="Goodwill")
            with_errors = (order.scope, order.id, request)
            await self._attempt(request_refund, *with_errors, settings=self.settings, by=TESTER.at(self.clock.now))

    async def cancel(self) -> None:
        if self.orders:
            order = self.rng.choice(self.orders)
            how = Cancellation(reason="Changed their mind", with_refund=self.rng.random() < 0.7)
            await self._attempt(
                cancel_by_id, order.scope, order.id, how, settings=self.settings, by=TESTER.at(self.clock.now)
            )

    async def close_month(self) -> None:
        """Something is booked in the first open month. It may not be over yet."""
        mode = self.rng.choice(tuple(Mode))
        if first := await self._first_open(mode, self.clock.now.date()):
            await self._attempt(close_month, mode, first, settings=self.settings, by=TESTER.at(self.clock.now))

    async def end_month(self) -> None:
        """Go on to the next month, and close those that are over."""
        begin = (self.clock.now.replace(day=1, hour=10) + timedelta(days=32)).replace(day=1)
        self.clock.now = begin
        await self.work()
        for mode in Mode:
            while first := await self._first_open(mode, begin.date()):
                await self.database.commit(close_month, mode, first, settings=self.settings, by=TESTER.at(begin))

    async def _first_open(self, mode: Mode, before: date) -> date | None:
        async with self.database.connection() as connection:
            return await find_open_before(connection, mode, before)

    async def closed_files(self) -> dict[str, str]:
        """What the files of all closed months were when they were closed. They are the same now."""
        await self.run_jobs(WriteDigests(self.database, self.clock))
        async with self.database.snapshot() as tx:
            assert await find_changed_files(tx) == []
            months = [month for mode in Mode for month in await list_closed(tx, mode)]
        assert {month.mode for month in months} == set(Mode)
        assert all((month.digests or {}).keys() == FILES.keys() for month in months)
        return {f"{month.id} {name}": digest for month in months for name, digest in (month.digests or {}).items()}

    async def _attempt(self, use_case: Callable[..., Awaitable[object]], *args: object, **kwargs: object) -> None:
        """What a person tries may be refused: then nothing has changed."""
        with contextlib.suppress(TonneError):
            async with self.database.transaction() as tx:
                await use_case(tx, *args, **kwargs)

    async def dispute(self) -> None:
        paid = [order for order in self.orders if order.scope in {self.card, self.small}]
        if paid:
            order, state = self.rng.choice(paid), self.rng.choice(tuple(DisputeState))
            with contextlib.suppress(TonneError):
                await simulate_dispute(self.database, order.scope, order.id, state, self.clock.now)

    async def return_money(self) -> None:
        """Plan to return what is left of a transfer."""
        if found := await self.fetch("SELECT id FROM bank_transfers WHERE state IN ('unmatched', 'overpaid')"):
            transfer_id = self.rng.choice(found)["id"]
            await self._attempt(
                return_transfer, transfer_id, None, reason="Not ours", to=None, by=TESTER.at(self.clock.now)
            )

    async def send_money_back(self) -> None:
        planned = await self.fetch("SELECT id, amount_minor FROM transfer_returns WHERE status = 'planned'")
        for each in planned:
            async with self.database.transaction() as tx:
                await confirm_return(tx, each["id"], "Done", settings=self.settings, by=TESTER.at(self.clock.now))
            self.banked["returned"] += each["amount_minor"]

    async def come_back(self) -> None:
        """The bank of the payer rejects money that was sent back."""
        sent = await self.fetch("SELECT id, amount_minor FROM transfer_returns WHERE status = 'returned' ORDER BY id")
        if sent and self.rng.random() < 0.5:
            back = self.rng.choice(sent)
            async with self.database.transaction() as tx:
                await fail_return(tx, back["id"], "The account is closed", by=TESTER.at(self.clock.now))
            self.banked["returned"] -= back["amount_minor"]

    async def unassign(self) -> None:
        """A transfer was assigned to a wrong invoice, which is still open."""
        found = await self.fetch(
            "SELECT assignment.id FROM transfer_assignments assignment "
            "JOIN invoices ON invoices.id = assignment.invoice_id "
            "WHERE invoices.status = 'open' AND assignment.undoes IS NULL ORDER BY assignment.id"
        )
        if found:
            assignment_id = self.rng.choice(found)["id"]
            await self._attempt(unassign_transfer, assignment_id, note="A mistake", by=TESTER.at(self.clock.now))

    async def assign(self) -> None:
        found = await self.fetch("SELECT id FROM bank_transfers WHERE state IN ('unmatched', 'overpaid')")
        invoices = await self.fetch(OPEN_INVOICES)
        if found and invoices:
            async with self.database.connection() as connection:
                [invoice] = await find_by_references_any_account(connection, [self.rng.choice(invoices)["reference"]])
            transfer_id = self.rng.choice(found)["id"]
            await self._attempt(assign_transfer, transfer_id, [invoice], None, note="", by=TESTER.at(self.clock.now))

    async def resolve(self) -> None:
        found = await self.fetch("SELECT id FROM bank_transfers WHERE state IN ('unmatched', 'overpaid')")
        if found and self.rng.random() < 0.3:
            await self._attempt(
                resolve_transfer, self.rng.choice(found)["id"], "Interest", by=TESTER.at(self.clock.now)
            )

    async def confirm_retirements(self) -> None:
        shop = Shop(self.services, self.world, self.clock, Mode.LIVE)
        await shop.confirm(*await shop.work_list())
        await self.work()

    async def pay_out(self) -> None:
        amount, fee = self.rng.randint(1, 5_000), self.rng.randint(0, 200)
        self.paid_out += amount + fee
        row = f"po_{self.paid_out},{self.clock.now.date()},EUR,{amount / 100:.2f},{fee / 100:.2f}"
        file = SheetFile("payouts.csv", f"payout_id,paid_on,currency,amount,fee\n{row}\n".encode())
        async with self.database.transaction() as tx:
            await import_payouts(tx, Mode.TEST, file, by=TESTER.at(self.clock.now))
