"""Credit notes that leave less of an invoice than it has received: no debt becomes negative."""

import os
import random

import msgspec
import pytest

from tests.money.accounting.journal.one_debt import OneDebt, cancel_with_refund
from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import ADA
from tests.money.invoices.test_transfers import DAY, import_file
from tests.stories.test_write_offs import Debts
from tests.support.clock import ManualClock
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.model import LedgerAccount as To
from tonne.money.bank.return_transfer import confirm_return, fail_return
from tonne.money.invoices.errors import WriteOffInvalid
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.model import Fulfil

OWED = {To.BAD_DEBTS, To.RECEIVABLES}


@pytest.fixture
async def debts(services: Services, clock: ManualClock, world: World) -> Debts:
    found = Debts(services, clock)
    await found.add_admins(world.ours_live.scope.organisation_id, ADA)
    await found.renew_rates()
    return found


async def test_a_written_off_invoice_that_is_credited_below_its_part_payment_cannot_be_reinstated(
    debts: Debts, world: World
) -> None:
    order = await debts.on_credit(world)
    await debts.book("2026-03-02,13.94,EUR,Ada,TN-LIVE-000001")
    await debts.write_off(order)
    assert (await debts.balances())[To.BAD_DEBTS] == 1
    await debts.credit(order, 502)
    with pytest.raises(WriteOffInvalid, match="Nothing is left to pay"):
        await debts.reinstate(order)
    balances = await debts.balances()
    assert OWED.isdisjoint(balances), "nobody owes anything"
    assert balances[To.UNALLOCATED] == -501, "the customer gets that back"
    assert await debts.fetchval("SELECT state FROM bank_transfers") == "overpaid"
    await debts.credit(order, 893)
    with pytest.raises(WriteOffInvalid, match="Nothing is left to pay"):
        await debts.reinstate(order)
    balances = await debts.balances()
    assert OWED.isdisjoint(balances)
    assert balances[To.UNALLOCATED] == -1394
    await debts.work()
    assert (await debts.invoice(order)).status == "paid"
    assert await debts.balances() == balances


async def test_the_newest_transfers_are_released_first_whether_they_came_before_the_write_off_or_later(
    debts: Debts, world: World
) -> None:
    order = await debts.on_credit(world)
    await debts.book("2026-03-02,4.00,EUR,Ada,TN-LIVE-000001")
    await debts.write_off(order)
    debts.clock.advance(days=1)
    await debts.book("2026-03-03,3.00,EUR,Ada,TN-LIVE-000001")
    assert (await debts.balances())[To.BAD_DEBTS] == 695
    await debts.credit(order, 1095)
    balances = await debts.balances()
    assert OWED.isdisjoint(balances)
    assert balances[To.UNALLOCATED] == -400
    left = await debts.fetch(
        "SELECT transfer.amount_minor AS minor, sum(assignment.amount_minor)::int AS assigned, transfer.state "
        "FROM transfer_assignments assignment JOIN bank_transfers transfer ON transfer.id = assignment.transfer_id "
        "GROUP BY transfer.id ORDER BY transfer.amount_minor"
    )
    assert [tuple(row) for row in left] == [(300, 0, "unmatched"), (400, 300, "overpaid")]
    details = await debts.fetchval("SELECT details FROM audit_log WHERE action = 'invoice.credited'")
    assert '"released": "4.00 EUR"' in str(details).replace("'", '"')


async def test_a_reinstated_invoice_that_is_credited_below_what_was_recovered_owes_nothing(
    debts: Debts, world: World
) -> None:
    order = await debts.on_credit(world)
    await debts.write_off(order)
    await debts.book("2026-03-02,5.00,EUR,Ada,TN-LIVE-000001")
    await debts.reinstate(order)
    assert (await debts.balances())[To.RECEIVABLES] == 895
    await debts.credit(order, 1000)
    balances = await debts.balances()
    assert OWED.isdisjoint(balances)
    assert balances[To.UNALLOCATED] == -105
    await debts.work()
    assert await debts.balances() == balances


async def test_an_order_is_cancelled_whose_written_off_invoice_was_partly_paid(debts: Debts, world: World) -> None:
    order = await debts.on_credit(world)
    await import_file(debts, camt_file([Line(DAY, 400, "TN-LIVE-000001", reference="R1")]))
    await debts.write_off(order)
    await import_file(debts, camt_file([Line(DAY, 300, "TN-LIVE-000001", reference="R2")]))
    await cancel_with_refund(debts, order)
    assert (await debts.invoice(order)).status == "cancelled"
    assert await debts.balances() == {To.BANK: 700, To.UNALLOCATED: -700}
    returns = [row["id"] for row in await debts.fetch("SELECT id FROM transfer_returns ORDER BY amount_minor")]
    for each in returns:
        async with debts.database.transaction() as tx:
            await confirm_return(tx, each, "Sent", settings=debts.settings, by=TESTER.at(debts.clock.now))
    assert await debts.balances() == {}
    async with debts.database.transaction() as tx:
        await fail_return(tx, returns[0], "The account is closed", by=TESTER.at(debts.clock.now))
    assert await debts.balances() == {To.BANK: 300, To.UNALLOCATED: -300}


async def test_one_of_two_orders_is_cancelled_whose_written_off_invoice_was_partly_paid(
    debts: Debts, world: World
) -> None:
    ours = world.ours_live.scope
    await debts.set_billing(ours, billing=BillingMode.MONTHLY, fulfil=Fulfil.ON_ORDER, credit_limit="100.00")
    first, second = [await debts.place_order(ours) for _ in range(2)]
    await debts.work()
    debts.clock.turn_to(4, 1, 1)
    await debts.work()
    await debts.book("2026-04-02,20.00,EUR,Ada,TN-LIVE-000001")
    await debts.write_off(first)
    await cancel_with_refund(debts, second)
    balances = await debts.balances()
    assert OWED.isdisjoint(balances)
    assert balances[To.UNALLOCATED] == -606
    with pytest.raises(WriteOffInvalid, match="Nothing is left to pay"):
        await debts.reinstate(first)
    await debts.work()
    assert (await debts.invoice(first)).status == "paid"
    assert await debts.balances() == balances


async def test_a_write_off_that_waits_for_approval_is_withdrawn_when_nothing_is_left(
    debts: Debts, world: World
) -> None:
    debts.settings = msgspec.structs.replace(debts.settings, refund_approval_above="EUR 1")
    order = await debts.on_credit(world)
    await debts.write_off(order)
    await debts.book("2026-03-02,5.00,EUR,Ada,TN-LIVE-000001")
    await debts.credit(order, 1000)
    await debts.reinstate(order)
    assert await debts.fetchval("SELECT state FROM write_offs") == "withdrawn"
    balances = await debts.balances()
    assert OWED.isdisjoint(balances)
    assert balances[To.UNALLOCATED] == -105


@pytest.mark.parametrize("chunk", range(6))
async def test_after_every_step_the_books_agree_with_the_invoice(debts: Debts, world: World, chunk: int) -> None:
    seed = int(os.environ.get("DEBT_SEED") or random.SystemRandom().getrandbits(32))
    print(f"DEBT_SEED={seed} chunk={chunk}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
    one = OneDebt(debts, await debts.on_credit(world), rng)
    for _ in range(15):
        print(await one.step())  # noqa: T201 - shown when the test fails
        await debts.check_invariants()
        debts.clock.advance(minutes=rng.choice((0, 1)))
