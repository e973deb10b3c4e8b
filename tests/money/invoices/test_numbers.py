"""Gapless numbers and no duplicate mails, with crashes and concurrent workers."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from tests.money.invoices.billing import Billing
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.money.invoices.follow_up_invoices import LEASE
from tonne.money.invoices.issuing.issue_invoices import BATCH, IssueInvoices, issue_invoices
from tonne.money.invoices.store import claim_due
from tonne.platform.db.batches import RETRY_AFTER
from tonne.platform.documents.pdf import _compiler
from tonne.platform.values.context import replace
from tonne.selling.orders.model import Order
from tonne.selling.orders.queue import lock_order


class _Crash(Exception):
    pass


async def _numbers(billing: Billing, mode: str = "live") -> list[int]:
    rows = await billing.fetch("SELECT number FROM invoices WHERE mode = $1 ORDER BY number", mode)
    return [row["number"] for row in rows]


async def _issue_and_crash(billing: Billing, order: Order) -> None:
    """Issue an invoice and roll back instead of committing."""
    async with billing.database.transaction() as tx:
        held = await lock_order(tx, order.scope, order.id)
        assert held is not None
        await issue_invoices(tx, [held], billing.settings, billing.clock.now)
        raise _Crash


async def test_concurrent_and_crashing_workers_leave_no_gap(billing: Billing, world: World) -> None:
    live = [await billing.place_order(world.ours_live.scope) for _ in range(2 * BATCH + 7)]
    doomed = [await billing.place_order(world.ours_live.scope) for _ in range(4)]
    tests = [await billing.place_order(world.ours_test.scope) for _ in range(5)]
    barrier = asyncio.Barrier(12)

    async def worker() -> None:
        await barrier.wait()
        while await IssueInvoices(billing.database, billing.clock, billing.settings).run_once():
            pass

    async def crashing(order: Order) -> None:
        await barrier.wait()
        for _ in range(3):
            with contextlib.suppress(_Crash):
                await _issue_and_crash(billing, order)

    await asyncio.gather(*(worker() for _ in range(8)), *(crashing(order) for order in doomed))
    await billing.work()
    assert await _numbers(billing) == list(range(1, len(live) + len(doomed) + 1))
    assert await _numbers(billing, "test") == list(range(1, len(tests) + 1))
    await billing.check_invariants()


async def test_a_rollback_returns_the_number(billing: Billing, world: World) -> None:
    first, second = [await billing.place_order(world.ours_live.scope) for _ in range(2)]
    with pytest.raises(_Crash):
        await _issue_and_crash(billing, first)
    assert await _numbers(billing) == []
    async with billing.database.transaction() as tx:
        await issue_invoices(tx, [second], billing.settings, billing.clock.now)
    await billing.work()
    assert [(await billing.invoice(order)).number for order in (first, second)] == [2, 1]
    assert len(await billing.mails()) == 2
    await billing.check_invariants()


async def test_a_crash_between_issuing_and_mailing_mails_it_later(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    assert await billing.issue.run_once()
    assert await billing.mails() == []
    billing.clock.now += timedelta(hours=5)
    await billing.work()
    assert len(await billing.mails()) == 1
    assert (await billing.invoice(order)).mailed_at == billing.clock.now


async def test_an_invoice_is_mailed_after_the_lease_of_a_dead_worker(billing: Billing, world: World) -> None:
    await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    await billing.render.run_once()
    now = billing.clock.now
    [_] = await billing.database.run(claim_due, now, now + LEASE, 10)
    await billing.work()
    assert await billing.mails() == [], "it is held for the one that died, until its lease is over"
    billing.clock.now += LEASE
    await billing.work()
    assert len(await billing.mails()) == 1


async def test_money_22_dates_never_run_against_numbers(billing: Billing, world: World) -> None:
    """A worker reads its clock just before midnight and waits for the series; another one issues meanwhile."""
    first, second = [await billing.place_order(world.ours_live.scope) for _ in range(2)]
    midnight = ManualClock(datetime(2026, 3, 2, tzinfo=UTC))
    late = midnight() - timedelta(seconds=1)
    async with billing.database.transaction() as tx:
        await issue_invoices(tx, [first], billing.settings, midnight())
        issuing = asyncio.create_task(_issue(billing, second, late))
        await billing.until_waiting_for_lock()
    await issuing
    invoices = [await billing.invoice(order) for order in (first, second)]
    assert [invoice.number for invoice in invoices] == [1, 2]
    assert [invoice.issued_on for invoice in invoices] == [date(2026, 3, 2), date(2026, 3, 2)]
    assert invoices[0].due_on == invoices[1].due_on
    assert invoices[1].read_record().issued_on == "2026-03-02"


async def _issue(billing: Billing, order: Order, now: datetime) -> None:
    async with billing.database.transaction() as tx:
        await issue_invoices(tx, [order], billing.settings, now)


async def test_two_workers_with_one_invoice_mail_it_once_and_remind_once(billing: Billing, world: World) -> None:
    """The lease of the first worker has expired, and a second one has claimed the invoice too."""
    await billing.place_order(world.ours_live.scope)
    await billing.issue.run_once()
    await billing.execute("UPDATE invoices SET next_attempt_at = created_at")
    for month, day, count in ((3, 1, 1), (4, 3, 2)):
        now = billing.clock.turn_to(month, day)
        with _no_pdf():
            both = [asyncio.create_task(billing.follow_up.run_once())]
            await billing.until_held(now + LEASE)
            later = replace(billing.follow_up, clock=ManualClock(now + LEASE))
            both.append(asyncio.create_task(later.run_once()))
            await billing.until_held(now + 2 * LEASE)
            assert len(await billing.mails()) == count - 1
        assert await asyncio.gather(*both) == [True, True]
        assert len(await billing.mails()) == count


async def test_two_workers_with_one_invoice_cancel_it_once(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    billing.clock.turn_to(4, 3)
    await billing.work()
    now = billing.clock.turn_to(4, 14)
    async with billing.database.transaction() as tx:
        await lock_order(tx, order.scope, order.id)
        both = [asyncio.create_task(billing.follow_up.run_once())]
        await billing.until_held(now + LEASE)
        later = replace(billing.follow_up, clock=ManualClock(now + LEASE))
        both.append(asyncio.create_task(later.run_once()))
        await billing.until_held(now + 2 * LEASE)
    assert await asyncio.gather(*both) == [True, True]
    billing.clock.advance(minutes=10)
    await billing.work()
    assert len(await billing.mails()) == 3
    assert await billing.status(order) == "cancelled"
    await billing.check_invariants()


@contextlib.contextmanager
def _no_pdf() -> Iterator[None]:
    """Block the rendering of PDFs meanwhile."""
    with _compiler()[1]:
        yield


async def test_if_a_payment_races_the_deadline_exactly_one_wins(billing: Billing, world: World) -> None:
    orders = [await billing.place_order(world.ours_live.scope) for _ in range(6)]
    await billing.work()
    billing.clock.turn_to(4, 3)
    await billing.work()
    billing.clock.turn_to(4, 14)
    barrier = asyncio.Barrier(len(orders) + 1)

    async def pay(order: Order) -> None:
        await barrier.wait()
        await billing.settle(order)

    async def chase() -> None:
        await barrier.wait()
        await billing.work()

    await asyncio.gather(chase(), *(pay(order) for order in orders), return_exceptions=True)
    stands = {(await billing.status(order), (await billing.invoice(order)).status.value) for order in orders}
    assert stands <= {("paid", "paid"), ("cancelled", "cancelled")}
    await billing.check_invariants()


@pytest.mark.parametrize(
    "poison",
    [
        "UPDATE orders SET organisation_id = 'org_gone' WHERE id = '{}'",
        "ALTER TABLE invoice_orders ADD CHECK (order_id <> '{}')",
    ],
    ids=["unreadable", "unwritable"],
)
async def test_an_order_that_cannot_be_billed_does_not_block_the_others(
    billing: Billing, world: World, poison: str
) -> None:
    before = await billing.place_order(world.ours_test.scope)
    poisoned = await billing.place_order(world.theirs_test.scope)
    after = await billing.place_order(world.ours_test.scope)
    async with billing.database.transaction() as tx:
        await tx.execute(poison.replace("{}", poisoned.id))
    assert await billing.issue.run_once()
    assert not await billing.issue.run_once()
    assert [(await billing.invoice(order)).number for order in (before, after)] == [1, 2]
    assert await _numbers(billing, "test") == [1, 2]
    [row] = await billing.fetch("SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'test'")
    assert row["last_number"] == 2
    [row] = await billing.fetch("SELECT next_attempt_at FROM orders WHERE id = $1", poisoned.id)
    assert row["next_attempt_at"] == billing.clock.now + RETRY_AFTER


async def test_an_order_that_is_due_twice_keeps_its_invoice(billing: Billing, world: World) -> None:
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE orders SET next_attempt_at = $1", billing.clock.now)
    await billing.work()
    assert await _numbers(billing) == [1]
    assert await billing.status(order) == "placed"
    assert not await billing.issue.run_once()
