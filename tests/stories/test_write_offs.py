"""Invoices of orders that were fulfilled on credit and stay unpaid: written off, recovered, reinstated, corrected."""

import json
from datetime import date
from decimal import Decimal

import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing, pdf_text, text_of
from tests.support.clock import MARCH, ManualClock
from tests.support.command import Operator, refusal_of, tonne
from tests.support.people import approver
from tests.support.world import ADDRESS, SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import Period, sum_balances
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.money.accounting.reports.account_statement import account_statement_pdf, make_statements, print_statement
from tonne.money.accounting.reports.due_buckets import list_aged_debts
from tonne.money.invoices.credit_notes.cancel_invoice import correct_invoice
from tonne.money.invoices.documents.record import Closing
from tonne.money.invoices.documents.state_sheet import state_pdf
from tonne.money.invoices.errors import InvoiceNotOpen, WriteOffInvalid
from tonne.money.invoices.originals.invoice_state import read_state
from tonne.money.invoices.settle_invoice import approve_write_off, reinstate_invoice, settle_invoice, write_off_invoice
from tonne.money.invoices.timeline import write_off_timeline
from tonne.money.invoices.write_off_store import WriteOff, WriteOffState
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Actor, Mode, Tenant
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.model import Fulfil
from tonne.selling.accounts.tax.tax_profile import set_tax_profile
from tonne.selling.orders.load import load_order
from tonne.selling.orders.model import Order, PaymentState
from tonne.selling.users.errors import SecondPersonNeeded

HEAD = "booked_on,amount,currency,payer,reference\n"


class Debts(Billing):
    async def on_credit(self, world: World, *, limit: str = "100.00") -> Order:
        """A fulfilled order of 13.95 with an open invoice."""
        ours = world.ours_live.scope
        await self.set_billing(ours, fulfil=Fulfil.ON_ORDER, credit_limit=limit)
        order = await self.place_order(ours)
        await self.work()
        assert await self.status(order) == "paid"
        return order

    async def write_off(self, order: Order, *, releases_credit: bool = False, actor: Actor = TESTER) -> WriteOff:
        async with self.database.transaction() as tx:
            return await write_off_invoice(
                tx,
                await self.invoice(order),
                reason="Insolvent",
                releases_credit=releases_credit,
                settings=self.settings,
                by=actor.at(self.clock()),
            )

    async def reinstate(self, order: Order) -> None:
        async with self.database.transaction() as tx:
            invoice = await self.invoice(order)
            await reinstate_invoice(tx, invoice, reason="They pay after all", by=TESTER.at(self.clock()))

    async def credit(self, order: Order, minor: int) -> None:
        async with self.database.transaction() as tx:
            invoice = await self.invoice(order)
            await correct_invoice(tx, invoice, order.id, minor, reason="Lost", by=TESTER.at(self.clock()))

    async def book(self, line: str) -> str:
        async with self.database.transaction() as tx:
            file = SheetFile("statement.csv", (HEAD + line).encode())
            settings = self.settings
            [booked] = await import_statement(tx, Mode.LIVE, file, settings=settings, by=TESTER.at(self.clock()))
        return booked.message

    async def balances(self) -> dict[LedgerAccount, int]:
        """The balances of the live books. The doctor finds nothing wrong."""
        await self.post_entries()
        await self.check_invariants()
        async with self.database.connection() as connection:
            period = Period(Mode.LIVE, MARCH.replace(year=2025), MARCH.replace(year=2028))
            found = await sum_balances(connection, period)
        return {posting.account: posting.amount_minor for posting in found}

    async def payment_state(self, order: Order) -> PaymentState:
        async with self.database.connection() as connection:
            found = await load_order(connection, order.scope, order.id)
        assert found is not None
        return found.payment_state


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER, seller_country="DE", seller_vat_id="DE136695976")


@pytest.fixture
def operator(populated_db: Database) -> Operator:
    return Operator(populated_db._url)


@pytest.fixture
async def debts(populated_db: Database, settings: Settings, world: World) -> Debts:
    """On 1 March, with an administrator."""
    clock = ManualClock(MARCH)
    debts = Debts(Services(populated_db, settings, clock), clock)
    await debts.add_admins(world.ours_live.scope.organisation_id, ADA)
    await debts.renew_rates()
    return debts


async def test_a_debt_is_written_off_and_recovered_in_parts_a_year_later(debts: Debts, world: World) -> None:
    async with debts.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.20"), **ADDRESS}
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, profile, by=TESTER.at(debts.clock()))
    debts.services.directory.forget_terms(world.ours_live.scope)
    order = await debts.on_credit(world)
    organisation_id = order.scope.organisation_id
    assert (await debts.invoice(order)).due == "16.74 EUR"
    for month, day in ((4, 4), (4, 20), (5, 20)):
        debts.clock.turn_to(month, day)
        await debts.work()
    for mail in await debts.mails():
        assert "cancel" not in text_of(mail), "its order was fulfilled"
        assert "Once we have received" not in text_of(mail)
    mails = len(await debts.mails())
    assert mails == 2, "the invoice and a reminder"
    assert await debts.fetchval("SELECT next_attempt_at FROM invoices") is None, "no worker postpones it for ever"
    assert (await debts.write_off(order)).state is WriteOffState.BOOKED
    await debts.work()
    assert len(await debts.mails()) == mails, "a write-off is an internal act"
    balances = await debts.balances()
    assert balances[LedgerAccount.BAD_DEBTS] == 1674
    assert LedgerAccount.RECEIVABLES not in balances
    assert balances[LedgerAccount.TAX] == -279, "tax stays booked without a credit note"
    async with debts.database.connection() as connection:
        [debt] = await list_aged_debts(connection, Mode.LIVE, date(2026, 5, 20))
        span = (date(2026, 3, 1), date(2026, 5, 31))
        [statement] = await make_statements(connection, Tenant(organisation_id, Mode.LIVE), *span)
        printed = await print_statement(connection, statement, organisation_id, debts.settings)
        [told] = await write_off_timeline(connection, order.scope, order.id)
    assert (debt.total_minor, debt.overdue_minor, debt.older_minor, debt.written_off_minor) == (0, 0, 0, 1674)
    assert [(entry.kind, entry.amount_minor, entry.text) for entry in statement.entries] == [
        ("invoice", 1674, "due on 2026-03-31"),
        ("write_off", 0, "16.74 written off, and still owed"),
    ]
    assert statement.closing_minor == 1674
    assert "ritten off" not in pdf_text(account_statement_pdf(printed)), "the PDF is for the customer"
    assert told.text == "16.74 EUR of TN-LIVE-000001 written off: Insolvent"
    debts.clock.now = debts.clock.now.replace(year=2027)
    assert "recovered" in await debts.book("2027-05-20,6.74,EUR,Ada,TN-LIVE-000001")
    assert (await debts.balances())[LedgerAccount.BAD_DEBTS] == 1000
    assert await debts.payment_state(order) is PaymentState.UNPAID
    await debts.book("2027-05-21,10.00,EUR,Ada,TN-LIVE-000001")
    balances = await debts.balances()
    assert {LedgerAccount.BAD_DEBTS, LedgerAccount.RECEIVABLES}.isdisjoint(balances)
    assert balances[LedgerAccount.BANK] == 1674
    assert await debts.payment_state(order) is PaymentState.PAID
    assert (await debts.event_types(order))[-1] == "order.payment_updated"


async def test_a_written_off_invoice_uses_the_credit_limit_until_it_is_released(debts: Debts, world: World) -> None:
    order = await debts.on_credit(world, limit="20.00")
    await debts.write_off(order)
    second = await debts.place_order(order.scope)
    await debts.work()
    assert await debts.status(second) == "placed"
    await debts.reinstate(order)
    await debts.write_off(order, releases_credit=True)
    debts.clock.advance(minutes=5)
    await debts.work()
    assert await debts.status(second) == "paid"
    await debts.check_invariants()


async def test_a_second_person_approves_what_is_above_the_setting(debts: Debts, world: World) -> None:
    debts.settings = msgspec.structs.replace(debts.settings, refund_approval_above="EUR 10")
    order = await debts.on_credit(world)
    adam, eve = await approver(debts.database, "adam"), await approver(debts.database, "eve")
    waiting = await debts.write_off(order, actor=adam.actor)
    assert waiting.state is WriteOffState.APPROVAL
    assert (await debts.balances())[LedgerAccount.RECEIVABLES] == 1395
    with pytest.raises(WriteOffInvalid, match="waits"):
        await debts.write_off(order, actor=eve.actor)
    await debts.book("2026-03-02,3.95,EUR,Ada,TN-LIVE-000001")
    invoice = await debts.invoice(order)
    with pytest.raises(SecondPersonNeeded):
        async with debts.database.transaction() as tx:
            await approve_write_off(tx, invoice, approver=adam, now=debts.clock())
    async with debts.database.transaction() as tx:
        booked = await approve_write_off(tx, invoice, approver=eve, now=debts.clock())
    assert (booked.amount, booked.approved_by, booked.recovered_minor) == ("10.00 EUR", str(eve.actor), 0)
    assert (await debts.balances())[LedgerAccount.BAD_DEBTS] == 1000
    with pytest.raises(WriteOffInvalid, match="already"):
        async with debts.database.transaction() as tx:
            await approve_write_off(tx, invoice, approver=eve, now=debts.clock())


async def test_a_reinstated_invoice_is_followed_up_again(debts: Debts, world: World) -> None:
    order = await debts.on_credit(world)
    await debts.write_off(order)
    debts.clock.turn_to(4, 10)
    await debts.work()
    assert (await debts.invoice(order)).reminded_at is None
    await debts.book("2026-04-09,3.95,EUR,Ada,TN-LIVE-000001")
    await debts.reinstate(order)
    await debts.work()
    assert (await debts.invoice(order)).reminded_at is not None
    balances = await debts.balances()
    assert balances[LedgerAccount.RECEIVABLES] == 1000
    assert LedgerAccount.BAD_DEBTS not in balances
    with pytest.raises(WriteOffInvalid, match="not written off"):
        await debts.reinstate(order)
    await debts.write_off(order)
    async with debts.database.transaction() as tx:
        await settle_invoice(tx, await debts.invoice(order), by=TESTER.at(debts.clock()))
    balances = await debts.balances()
    assert balances[LedgerAccount.SETTLED_BY_HAND] == 1000
    assert LedgerAccount.BAD_DEBTS not in balances
    with pytest.raises(InvoiceNotOpen):
        await debts.reinstate(order)


async def test_a_credit_note_gives_up_the_debt_and_corrects_the_tax(debts: Debts, world: World) -> None:
    async with debts.database.transaction() as tx:
        profile = {"treatment": TaxTreatment.STANDARD, "rate": Decimal("0.20"), **ADDRESS}
        await set_tax_profile(tx, world.ours_live.scope.organisation_id, profile, by=TESTER.at(debts.clock()))
    debts.services.directory.forget_terms(world.ours_live.scope)
    order = await debts.on_credit(world)
    await debts.book("2026-03-02,6.74,EUR,Ada,TN-LIVE-000001")
    await debts.write_off(order)
    await debts.credit(order, 400)
    await debts.work()
    mail = (await debts.mails())[-1]
    assert "€6.00" in text_of(mail), "what is left of it"
    assert (await debts.balances())[LedgerAccount.BAD_DEBTS] == 600
    await debts.credit(order, 1274)
    await debts.work()
    invoice = await debts.invoice(order)
    assert (invoice.status, invoice.due_minor, invoice.settled_minor) == ("paid", 0, 0)
    assert "othing is left to pay" in text_of((await debts.mails())[-1])
    balances = await debts.balances()
    assert {LedgerAccount.BAD_DEBTS, LedgerAccount.RECEIVABLES, LedgerAccount.TAX}.isdisjoint(balances)
    assert balances[LedgerAccount.UNALLOCATED] == -674, "what was paid waits to be returned"
    assert await debts.payment_state(order) is PaymentState.PAID


async def test_an_invoice_that_was_credited_in_full_is_not_called_paid(debts: Debts, world: World) -> None:
    order = await debts.on_credit(world)
    await debts.credit(order, 1395)
    await debts.work()
    invoice = await debts.invoice(order)
    assert (invoice.status, invoice.closing) == ("paid", Closing("credited", "2026-03-01"))
    state = await debts.database.run(read_state, invoice, debts.clock())
    text = " ".join(pdf_text(state_pdf(invoice.read_record(), state)).split())
    assert "Credited in full on 1 March 2026, nothing is due" in text
    await debts.check_invariants()


async def test_at_the_deadline_only_orders_that_were_not_fulfilled_are_cancelled(debts: Debts, world: World) -> None:
    ours = world.ours_live.scope
    await debts.set_billing(ours, billing=BillingMode.MONTHLY, fulfil=Fulfil.ON_ORDER, credit_limit="20.00")
    first, second = [await debts.place_order(ours) for _ in range(2)]
    await debts.work()
    debts.clock.turn_to(4, 1, 1)
    await debts.work()
    with pytest.raises(WriteOffInvalid, match="1 order of"):
        await debts.write_off(first)
    for month, day in ((5, 5), (5, 20)):
        debts.clock.turn_to(month, day)
        await debts.work()
    assert (await debts.status(first), await debts.status(second)) == ("paid", "cancelled")
    invoice = await debts.invoice(first)
    assert (invoice.status, invoice.due) == ("open", "13.94 EUR")
    await debts.write_off(first)
    await debts.check_invariants()


async def test_an_operator_writes_off_and_lists(debts: Debts, world: World, operator: Operator) -> None:
    order = await debts.on_credit(world)
    assert "not written off" in operator.is_refused("invoice", "reinstate", "TN-LIVE-000001", "--reason", "x")
    said = operator.does("invoice", "write-off", "TN-LIVE-000001", "--reason", "Insolvent")
    assert said == "13.95 EUR of invoice TN-LIVE-000001 are written off."
    assert "already" in operator.is_refused("invoice", "write-off", "TN-LIVE-000001", "--reason", "Insolvent")
    await debts.book("2026-03-02,3.95,EUR,Ada,TN-LIVE-000001")
    [row] = map(json.loads, operator.does("invoice", "write-offs", "--json").splitlines())
    assert (row["invoice"], row["amount"], row["recovered"], row["state"]) == (
        *("TN-LIVE-000001", "13.95", "3.95", "booked"),
    )
    assert "Insolvent" in operator.does("invoice", "show", "TN-LIVE-000001")
    assert "written off: Insolvent" in operator.does("order", "show", order.id)
    said = operator.does("invoice", "reinstate", "TN-LIVE-000001", "--reason", "They pay")
    assert said == "10.00 EUR of invoice TN-LIVE-000001 are expected to be paid again."


async def test_bank_fees_are_booked_when_an_invoice_is_settled(debts: Debts, world: World, operator: Operator) -> None:
    order = await debts.on_credit(world)
    await debts.book("2026-03-02,9.57,EUR,Ada,TN-LIVE-000001")
    settle = "invoice", "settle", "TN-LIVE-000001"
    assert "Say with --difference" in tonne(*settle, "--received", "9.57", database_url=operator.url).stderr
    assert "9.57 EUR are assigned" in operator.is_refused(*settle, "--received", "9", "--difference", "bank_fees")
    assert "nothing is missing" in operator.is_refused(*settle, "--received", "13.95", "--difference", "bank_fees")
    assert "4.38 EUR" in operator.does(*settle, "--difference", "bank_fees", "--note", "USD transfer")
    balances = await debts.balances()
    assert balances[LedgerAccount.BANK_FEES] == 438
    assert {LedgerAccount.SETTLED_BY_HAND, LedgerAccount.RECEIVABLES}.isdisjoint(balances)
    assert await debts.payment_state(order) is PaymentState.PAID
    assert "already paid" in await debts.book("2026-03-03,4.38,EUR,Ada,TN-LIVE-000001"), "nothing is expected any more"


async def test_what_was_settled_by_hand_and_never_arrives_is_cleared(
    debts: Debts, world: World, operator: Operator
) -> None:
    order = await debts.on_credit(world)
    operator.does("invoice", "settle", "TN-LIVE-000001", "--received", "13.94", "--difference", "small_difference")
    assert (await debts.balances())[LedgerAccount.SETTLED_BY_HAND] == 1394
    await debts.book("2026-03-02,9.00,EUR,Ada,TN-LIVE-000001")
    clear = "invoice", "clear-settled", "TN-LIVE-000001", "--difference", "bank_fees"
    refusal = refusal_of(*clear, database_url=operator.url, refund_approval_above="4.93")
    assert "4.94 EUR" in refusal, "it would replace a write-off that a second person approves"
    assert operator.does(*clear) == "4.94 EUR of invoice TN-LIVE-000001 are booked as bank fees."
    balances = await debts.balances()
    assert (balances[LedgerAccount.BANK_FEES], balances[LedgerAccount.SMALL_DIFFERENCES]) == (494, 1)
    assert LedgerAccount.SETTLED_BY_HAND not in balances
    assert "does not wait" in operator.is_refused(*clear)
    assert json.loads(operator.does("invoice", "show", "TN-LIVE-000001", "--json"))["difference"] == "4.95"
    assert order.id in operator.does("invoice", "show", "TN-LIVE-000001")


async def test_a_discount_is_given_up_with_a_credit_note(debts: Debts, world: World, operator: Operator) -> None:
    order = await debts.on_credit(world)
    settle = "invoice", "settle", "TN-LIVE-000001", "--received", "13.00", "--difference", "credit_note"
    operator.does(*settle)
    invoice = await debts.invoice(order)
    assert (invoice.status, invoice.credited_minor, invoice.settled_minor) == ("paid", 95, 1300)
    balances = await debts.balances()
    assert balances[LedgerAccount.SETTLED_BY_HAND] == 1300
    assert LedgerAccount.BANK_FEES not in balances


async def test_a_small_difference_is_tolerated_by_setting(debts: Debts, world: World) -> None:
    first, second = [await debts.on_credit(world) for _ in range(2)]
    debts.settings = msgspec.structs.replace(debts.settings, payment_tolerance="EUR 0.05")
    assert "0.06 EUR of 13.95 EUR still missing" in await debts.book("2026-03-02,13.89,EUR,Ada,TN-LIVE-000001")
    assert "small difference" in await debts.book("2026-03-02,13.90,EUR,Ada,TN-LIVE-000002")
    assert (await debts.invoice(first)).status == "open"
    assert (await debts.invoice(second)).status == "paid"
    assert (await debts.balances())[LedgerAccount.SMALL_DIFFERENCES] == 5
    assert "small difference" in await debts.book("2026-03-03,0.01,EUR,Ada,TN-LIVE-000001")
    assert (await debts.balances())[LedgerAccount.SMALL_DIFFERENCES] == 10
