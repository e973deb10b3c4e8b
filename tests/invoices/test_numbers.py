"""Numbers without a gap and mails without a double, whoever crashes, and however many work at once."""

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.invoices.billing import ADA, Clock, Office
from tests.support.world import World
from tonne.base.settings import Settings
from tonne.db.batches import RETRY_AFTER
from tonne.db.pool import Database
from tonne.gateways.pdf import _compiler
from tonne.invoices.follow_up_invoices import LEASE, FollowUpInvoices
from tonne.invoices.issue_invoices import BATCH, IssueInvoices, issue_invoices
from tonne.orders.model import Order
from tonne.orders.queue import lock_order


@pytest.fixture
async def office(furnished_db: Database, settings: Settings, world: World) -> Office:
    office = Office(furnished_db, settings, Clock())
    await office.add_admins(world.ours_live.scope.organisation_id, ADA)
    return office


class _Crash(Exception):
    pass


async def _numbers(office: Office, mode: str = "live") -> list[int]:
    rows = await office.fetch("SELECT number FROM invoices WHERE mode = $1 ORDER BY number", mode)
    return [row["number"] for row in rows]


async def _issue_and_crash(office: Office, order: Order) -> None:
    """All that issuing does, up to the commit that never comes."""
    async with office.database.transaction() as tx:
        held = await lock_order(tx, order.scope, order.id)
        assert held is not None
        await issue_invoices(tx, [held], office.settings, office.clock.now)
        raise _Crash


async def test_eight_workers_and_crashing_ones_leave_no_gap(office: Office, world: World) -> None:
    live = [await office.place(world.ours_live.scope) for _ in range(2 * BATCH + 7)]
    doomed = [await office.place(world.ours_live.scope) for _ in range(4)]
    tests = [await office.place(world.ours_test.scope) for _ in range(5)]
    barrier = asyncio.Barrier(12)

    async def worker() -> None:
        await barrier.wait()
        while await IssueInvoices(office.database, office.clock, office.settings).run_once():
            pass

    async def crashing(order: Order) -> None:
        await barrier.wait()
        for _ in range(3):
            with contextlib.suppress(_Crash):
                await _issue_and_crash(office, order)

    await asyncio.gather(*(worker() for _ in range(8)), *(crashing(order) for order in doomed))
    await office.work()
    assert await _numbers(office) == list(range(1, len(live) + len(doomed) + 1))
    assert await _numbers(office, "test") == list(range(1, len(tests) + 1))
    await office.check_nothing_is_broken()


async def test_a_crash_before_the_commit_gives_the_number_back(office: Office, world: World) -> None:
    first, second = [await office.place(world.ours_live.scope) for _ in range(2)]
    with pytest.raises(_Crash):
        await _issue_and_crash(office, first)
    assert await _numbers(office) == []
    async with office.database.transaction() as tx:
        await issue_invoices(tx, [second], office.settings, office.clock.now)
    await office.work()
    assert [(await office.invoice(order)).number for order in (first, second)] == [2, 1]
    assert len(await office.mails()) == 2
    await office.check_nothing_is_broken()


async def test_a_crash_between_issuing_and_mailing_mails_it_later(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    assert await office.issue.run_once()
    assert await office.mails() == []
    office.clock.now += timedelta(hours=5)
    await office.work()
    assert len(await office.mails()) == 1
    assert (await office.invoice(order)).mailed_at == office.clock.now


async def test_a_worker_that_dies_while_it_sets_the_pdf_leaves_the_invoice_to_the_next(
    office: Office, world: World
) -> None:
    await office.place(world.ours_live.scope)
    await office.issue.run_once()
    with _no_pdf():
        dying = asyncio.create_task(office.follow_up.run_once())
        await office.until_held(office.clock.now + LEASE)
        dying.cancel()
        await asyncio.gather(dying, return_exceptions=True)
    await office.work()
    assert await office.mails() == [], "it is held for the one that died, until its lease is over"
    office.clock.now += LEASE
    await office.work()
    assert len(await office.mails()) == 1


async def test_two_workers_with_one_invoice_mail_it_once_and_remind_once(office: Office, world: World) -> None:
    """The first is so slow that its lease is over, and a second one has the invoice too."""
    await office.place(world.ours_live.scope)
    await office.issue.run_once()
    for month, day, count in ((3, 1, 1), (4, 3, 2)):
        now = office.clock.turn_to(month, day)
        with _no_pdf():
            both = [asyncio.create_task(office.follow_up.run_once())]
            await office.until_held(now + LEASE)
            later = FollowUpInvoices(office.database, Clock(now + LEASE), office.settings)
            both.append(asyncio.create_task(later.run_once()))
            await office.until_held(now + 2 * LEASE)
            assert len(await office.mails()) == count - 1
        assert await asyncio.gather(*both) == [True, True]
        assert len(await office.mails()) == count


async def test_two_workers_with_one_invoice_cancel_it_once(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.work()
    office.clock.turn_to(4, 3)
    await office.work()
    now = office.clock.turn_to(4, 14)
    async with office.database.transaction() as tx:
        await lock_order(tx, order.scope, order.id)
        both = [asyncio.create_task(office.follow_up.run_once())]
        await office.until_held(now + LEASE)
        later = FollowUpInvoices(office.database, Clock(now + LEASE), office.settings)
        both.append(asyncio.create_task(later.run_once()))
        await office.until_held(now + 2 * LEASE)
    assert await asyncio.gather(*both) == [True, True]
    assert len(await office.mails()) == 3
    assert await office.status(order) == "cancelled"
    await office.check_nothing_is_broken()


@contextlib.contextmanager
def _no_pdf() -> Iterator[None]:
    """Whoever wants one set waits until this is over."""
    with _compiler()[1]:
        yield


async def test_settling_and_the_deadline_meet_and_one_of_them_wins(office: Office, world: World) -> None:
    orders = [await office.place(world.ours_live.scope) for _ in range(6)]
    await office.work()
    office.clock.turn_to(4, 3)
    await office.work()
    office.clock.turn_to(4, 14)
    barrier = asyncio.Barrier(len(orders) + 1)

    async def pay(order: Order) -> None:
        await barrier.wait()
        await office.settle(order)

    async def chase() -> None:
        await barrier.wait()
        await office.work()

    await asyncio.gather(chase(), *(pay(order) for order in orders), return_exceptions=True)
    stands = {(await office.status(order), (await office.invoice(order)).status.value) for order in orders}
    assert stands <= {("paid", "paid"), ("cancelled", "cancelled")}
    await office.check_nothing_is_broken()


@pytest.mark.parametrize(
    "poison",
    [
        "UPDATE orders SET organisation_id = 'org_gone' WHERE id = '{}'",
        "ALTER TABLE invoices ADD CHECK (order_id <> '{}')",
    ],
    ids=["unreadable", "unwritable"],
)
async def test_an_order_that_cannot_be_billed_does_not_hold_up_the_others(
    office: Office, world: World, poison: str
) -> None:
    before = await office.place(world.ours_test.scope)
    poisoned = await office.place(world.theirs_test.scope)
    after = await office.place(world.ours_test.scope)
    async with office.database.transaction() as tx:
        await tx.execute(poison.replace("{}", poisoned.id))
    assert await office.issue.run_once()
    assert not await office.issue.run_once()
    assert [(await office.invoice(order)).number for order in (before, after)] == [1, 2]
    assert await _numbers(office, "test") == [1, 2]
    [row] = await office.fetch("SELECT last_number FROM invoice_series WHERE mode = 'test'")
    assert row["last_number"] == 2
    [row] = await office.fetch("SELECT next_attempt_at FROM orders WHERE id = $1", poisoned.id)
    assert row["next_attempt_at"] == office.clock.now + RETRY_AFTER


async def test_an_order_that_comes_up_twice_keeps_its_invoice(office: Office, world: World) -> None:
    order = await office.place(world.ours_live.scope)
    await office.work()
    async with office.database.transaction() as tx:
        await tx.execute("UPDATE orders SET next_attempt_at = $1", office.clock.now)
    await office.work()
    assert await _numbers(office) == [1]
    assert await office.status(order) == "placed"
    assert not await office.issue.run_once()
