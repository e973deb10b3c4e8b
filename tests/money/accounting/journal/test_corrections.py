"""Corrections are entries of their own: a month that was exported gives the same entries afterwards."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.money.cards.card_scene import total
from tests.money.invoices.bank import Line, camt_file
from tests.money.invoices.billing import Billing
from tests.money.invoices.test_transfers import DAY, bill, import_file, open_returns
from tests.money.refunds.refund_scene import ADA, RefundScene
from tests.support.clock import MARCH, ManualClock
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.import_payouts import reopen_and_unmatch
from tonne.money.accounting.journal.model import JournalEntry, LedgerAccount
from tonne.money.accounting.journal.read_journal import Period, read_entries_any_account, sum_balances
from tonne.money.accounting.matching.assign_transfer import unassign_transfer
from tonne.money.bank.errors import ReturnInvalid, TransferNotUnresolved
from tonne.money.bank.export_returns import export_returns
from tonne.money.bank.return_store import resolve_transfer
from tonne.money.bank.return_transfer import confirm_return, fail_return, return_transfer
from tonne.money.cards.captured_store import find_captured
from tonne.money.cards.gateways.card import ChargeRequest, ChargeResult, DisputeState, RecordedPayment
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.refunds.approve_refund import settle_refund
from tonne.money.refunds.disputes.check_payments import record_payment
from tonne.money.refunds.disputes.mismatched_charge import accept_mismatched, read_mismatched, return_mismatched
from tonne.platform.db.database import Connection
from tonne.platform.values.context import By, Mode, replace
from tonne.selling.orders.model import Order

DEFERRED = "deferred revenue is what was billed or paid and is not delivered"
APRIL, MAY = datetime(2026, 4, 1, tzinfo=UTC), datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def billing(services: Services, clock: ManualClock) -> Billing:
    return Billing(services, clock)


@pytest.fixture
def scene(services: Services, world: World) -> RefundScene:
    found = RefundScene(services, world.ours_test)
    found.clock.now = MARCH
    return found


async def _march(scene: Scene, mode: Mode) -> list[JournalEntry]:
    await scene.post_entries()
    async with scene.database.transaction() as tx:
        return [each async for each in read_entries_any_account(tx, Period(mode, MARCH, APRIL))]


async def _balances(scene: Scene, mode: Mode) -> dict[LedgerAccount, int]:
    await scene.post_entries()
    async with scene.database.connection() as connection:
        found = await sum_balances(connection, Period(mode, MARCH, MAY))
    return {each.account: each.amount_minor for each in found}


async def test_a_reopened_transfer_is_booked_back_in_its_own_month(billing: Billing) -> None:
    await import_file(billing, camt_file([Line(DAY, 500, "Interest", reference="R1")]))
    found = await billing.fetchval("SELECT id FROM bank_transfers")
    facts: dict[str, Any] = {"by": ADA.at(billing.clock.now)}
    async with billing.database.transaction() as tx:
        await resolve_transfer(tx, found, "Interest", **facts)
    before = await _march(billing, Mode.LIVE)
    assert (await _balances(billing, Mode.LIVE))[LedgerAccount.RESOLVED_BY_HAND] == -500
    for _ in range(2):
        facts["by"] = ADA.at(APRIL)
        async with billing.database.transaction() as tx:
            await reopen_and_unmatch(tx, found, "Not interest", **facts)
        assert await _balances(billing, Mode.LIVE) == {LedgerAccount.BANK: 500, LedgerAccount.UNALLOCATED: -500}
        async with billing.database.transaction() as tx:
            await resolve_transfer(tx, found, "It was interest", **facts)
    assert await _march(billing, Mode.LIVE) == before
    await billing.check_invariants()


async def test_a_return_that_comes_back_is_booked_when_it_does(billing: Billing) -> None:
    await import_file(billing, camt_file([Line(DAY, 500, "A mistake", reference="R1")]))
    found = await billing.fetchval("SELECT id FROM bank_transfers")
    facts: dict[str, Any] = {"by": ADA.at(billing.clock.now)}
    async with billing.database.transaction() as tx:
        await return_transfer(tx, found, None, reason="A mistake", to=None, **facts)
    [planned] = await open_returns(billing)
    async with billing.database.transaction() as tx:
        await confirm_return(tx, planned.id, "Seen", settings=billing.settings, **facts)
    before = await _march(billing, Mode.LIVE)
    assert await _balances(billing, Mode.LIVE) == {}
    async with billing.database.transaction() as tx:
        await fail_return(tx, planned.id, "The account is closed", by=ADA.at(APRIL))
    assert await _march(billing, Mode.LIVE) == before
    assert await _balances(billing, Mode.LIVE) == {LedgerAccount.BANK: 500, LedgerAccount.UNALLOCATED: -500}
    await billing.check_invariants()


async def test_a_return_that_comes_back_as_a_line_of_a_statement_is_counted_once(billing: Billing) -> None:
    await import_file(billing, camt_file([Line(DAY, 500, "A mistake", reference="R1")]))
    first = await billing.fetchval("SELECT id FROM bank_transfers")
    facts: dict[str, Any] = {"by": ADA.at(billing.clock.now)}
    async with billing.database.transaction() as tx:
        planned = await return_transfer(tx, first, None, reason="A mistake", to=None, **facts)
        await _export(tx, billing, **facts)
    paid_on = DAY + timedelta(days=2)
    await import_file(billing, camt_file([Line(paid_on, -500, planned.payment_id, reference="R2")]))
    assert await _balances(billing, Mode.LIVE) == {}
    returned_at = await billing.fetchval("SELECT returned_at FROM transfer_returns")
    assert returned_at.date() == paid_on, "the day of the bank's booking, not that of the import"
    async with billing.database.transaction() as tx:
        with pytest.raises(ReturnInvalid, match="--transfer"):
            await fail_return(tx, planned.id, "It came back", **facts)
    # The bank repeats our text, which names the invoice that the payer meant.
    text = f"RETURN {planned.payment_id[:20]} {planned.payment_id[20:]} ACCOUNT CLOSED"
    await import_file(billing, camt_file([Line(DAY + timedelta(days=5), 500, text, reference="R3")]))
    back = await billing.fetchval("SELECT id FROM bank_transfers WHERE state = 'unmatched'")
    assert await _balances(billing, Mode.LIVE) == {LedgerAccount.BANK: 500, LedgerAccount.UNALLOCATED: -500}
    async with billing.database.transaction() as tx:
        await fail_return(tx, planned.id, "It came back", incoming_id=back, **facts)
    assert await _balances(billing, Mode.LIVE) == {LedgerAccount.BANK: 500, LedgerAccount.UNALLOCATED: -500}
    rows = await billing.fetch("SELECT id, state FROM bank_transfers WHERE amount_minor > 0")
    assert {row["id"]: row["state"] for row in rows} == {first: "unmatched", back: "assigned"}
    async with billing.database.transaction() as tx:
        with pytest.raises(TransferNotUnresolved, match="brought return"):
            await reopen_and_unmatch(tx, back, "Mine", **facts)
    await billing.check_invariants()


async def test_a_return_that_comes_back_does_not_pay_the_invoice_that_its_text_names(
    billing: Billing, world: World
) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    await import_file(billing, camt_file([Line(DAY, 500, "TN-LIVE-000001 and 999", reference="R1")]))
    first = await billing.fetchval("SELECT id FROM bank_transfers")
    facts: dict[str, Any] = {"by": ADA.at(billing.clock.now)}
    async with billing.database.transaction() as tx:
        assigned = await billing.fetchval("SELECT id FROM transfer_assignments")
        await unassign_transfer(tx, assigned, note="Another order", **facts)
        planned = await return_transfer(tx, first, None, reason="Another order", to=None, **facts)
        await _export(tx, billing, **facts)
    text = f"{planned.payment_id} TN-LIVE-000001"
    await import_file(billing, camt_file([Line(DAY + timedelta(days=5), 500, text, reference="R3")]))
    assert await billing.fetchval("SELECT sum(amount_minor) FROM transfer_assignments") == 0
    assert await billing.status(order) == "placed"


async def _export(tx: Connection, billing: Billing, *, by: By) -> None:
    exported = await export_returns(tx, Mode.LIVE, "EUR", format_="sepa", settings=billing.settings, by=by)
    assert len(exported.exported) == 1


async def test_a_reversed_payment_leaves_the_bank_when_it_is_resolved(billing: Billing) -> None:
    await import_file(billing, camt_file([Line(DAY, -500, "Reversal", reference="R1")]))
    await billing.execute("UPDATE bank_transfers SET is_reversal = true, state = 'unmatched'")
    found = await billing.fetchval("SELECT id FROM bank_transfers")
    async with billing.database.transaction() as tx:
        await resolve_transfer(tx, found, "A direct debit came back", by=ADA.at(billing.clock.now))
    assert await _balances(billing, Mode.LIVE) == {LedgerAccount.BANK: -500, LedgerAccount.RESOLVED_BY_HAND: 500}


async def test_a_refund_by_hand_clears_what_the_customer_is_owed(billing: Billing, world: World) -> None:
    [order] = await bill(billing, world)
    await billing.settle(order)
    await RefundScene.refund(billing, order)  # type: ignore[arg-type]
    refund = await billing.fetchval("SELECT id FROM refunds")
    async with billing.database.transaction() as tx:
        await settle_refund(tx, refund, "In cash", by=ADA.at(billing.clock.now))
    found = await _balances(billing, Mode.LIVE)
    assert LedgerAccount.RECEIVABLES not in found
    assert LedgerAccount.SETTLED_BY_HAND not in found
    await billing.check_invariants()


async def test_a_refund_that_fails_later_is_booked_back_when_it_fails(scene: RefundScene) -> None:
    order = await scene.paid()
    await scene.refund(order)
    await scene.send()
    before, books = await _march(scene, Mode.TEST), await _balances(scene, Mode.TEST)
    scene.clock.now = APRIL
    await scene.execute("UPDATE simulated_refunds SET status = 'failed', later = 'failed'")
    await scene.execute("UPDATE simulated_charges SET refunded_minor = 0")
    await scene.execute("UPDATE charges SET check_at = $1", APRIL)
    await scene.refunds.checks.run_once()
    assert await scene.states(order) == [("failed", total(order)), ("due", total(order))]
    assert await _march(scene, Mode.TEST) == before
    assert (await _balances(scene, Mode.TEST))[LedgerAccount.CARD_CLEARING] == total(order)
    scene.clock.advance(days=1)
    await scene.send()
    assert await _balances(scene, Mode.TEST) == books, "all tax goes back with the second attempt"
    await scene.check_invariants()


async def _mismatched(scene: RefundScene, **facts: Any) -> tuple[Order, str]:
    async def take(request: ChargeRequest) -> ChargeResult:
        result = await scene.gateway.inner.charge(request)
        return replace(result, **facts)

    order = await scene.order()
    scene.gateway.faults = [take]
    await scene.work()
    [charge] = await scene.charges(order)
    assert charge["status"] == "mismatched"
    return order, charge["id"]


async def test_a_payment_with_another_amount_is_unallocated_until_it_is_accepted(scene: RefundScene) -> None:
    async def take(request: ChargeRequest) -> ChargeResult:
        return await scene.gateway.inner.charge(replace(request, amount_minor=request.amount_minor + 7))

    order = await scene.order()
    scene.gateway.faults = [take]
    await scene.work()
    before = await _march(scene, Mode.TEST)
    await scene.check_invariants()
    [charge] = await scene.charges(order)
    async with scene.database.connection() as connection:
        payment = await read_mismatched(connection, scene.gateways, charge["id"])
    scene.clock.now = APRIL
    async with scene.database.transaction() as tx:
        await accept_mismatched(tx, charge["id"], payment, by=ADA.at(APRIL), reason="Agreed")
    await scene.send()
    assert await _march(scene, Mode.TEST) == before
    found = await _balances(scene, Mode.TEST)
    assert found[LedgerAccount.CARD_CLEARING] == total(order)
    assert not found.keys() & {LedgerAccount.UNALLOCATED, LedgerAccount.REFUNDS}
    await scene.check_invariants()


@pytest.mark.parametrize("is_written_off", [True, False])
async def test_a_payment_of_the_other_mode_is_no_money(scene: RefundScene, *, is_written_off: bool) -> None:
    order, charge_id = await _mismatched(scene, mode=Mode.LIVE)
    assert await _march(scene, Mode.TEST) == []
    assert DEFERRED not in await scene.breaches()
    if is_written_off:
        async with scene.database.transaction() as tx:
            await return_mismatched(tx, charge_id, None, by=ADA.at(scene.clock()), reason="A test key")
    else:
        await scene.cancel_with_refund(order)
    assert await scene.status(order) == "cancelled"
    assert Counter(each.kind for each in await _march(scene, Mode.TEST)) == {}
    assert DEFERRED not in await scene.breaches()


async def test_a_surplus_that_the_payer_wins_back_by_dispute_is_no_loss(scene: RefundScene) -> None:
    async def take(request: ChargeRequest) -> ChargeResult:
        return await scene.gateway.inner.charge(replace(request, amount_minor=request.amount_minor + 7))

    order = await scene.order()
    scene.gateway.faults = [take]
    await scene.work()
    [row] = await scene.charges(order)
    async with scene.database.connection() as connection:
        payment = await read_mismatched(connection, scene.gateways, row["id"])
    async with scene.database.transaction() as tx:
        await return_mismatched(tx, row["id"], payment, by=ADA.at(scene.clock()), reason="Another amount")
    await _check(scene, order)
    assert await scene.states(order) == [("due", total(order) + 7)]
    await scene.dispute_at_gateway(order, DisputeState.LOST)
    await _check(scene, order)
    await scene.send()
    assert await scene.states(order) == [("cancelled", total(order) + 7)]
    assert not await _balances(scene, Mode.TEST)
    await scene.check_invariants()
    # If the payer gets it twice, by the refund and by the dispute, once is a loss.
    await scene.execute("UPDATE refunds SET state = 'succeeded', succeeded_at = settled_at")
    found = await _balances(scene, Mode.TEST)
    assert found[LedgerAccount.DISPUTE_LOSSES] == total(order) + 7
    assert LedgerAccount.UNALLOCATED not in found


async def _check(scene: RefundScene, order: Order) -> RecordedPayment:
    """Read the payment from the gateway, as a worker does, before refunds are sent."""
    async with scene.database.connection() as connection:
        [charge] = await find_captured(connection, order)
    found = await SimulatedCardGateway(scene.database).read_payment(charge.reference)
    await scene.database.commit(record_payment, charge, found, held_until=None, now=scene.clock())
    return found
