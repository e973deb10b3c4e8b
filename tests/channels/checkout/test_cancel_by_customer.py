"""A customer who paid at checkout may cancel, with a full refund, until credits are allocated."""

import asyncio
import re

import httpx
import pytest

from tests.channels.checkout.scene import Rows, work
from tests.channels.checkout.shopper import Form, Shopper, form_of, make_link
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.orders.mails.order_links import order_url
from tonne.selling.orders.queue import lock_order
from tonne.supply.retirements.allocate_orders import allocate_orders

ORDERS = "SELECT id, status, payment_state, cancellation_reason FROM orders"


@pytest.fixture
async def page(services: Services, world: World, shopper: Shopper, rows: Rows) -> httpx.Response:
    """The page of an order that is paid, and not allocated yet."""
    link = await make_link(services, world.ours_test.scope)
    await shopper.pay(await shopper.begin(link, amount="2"))
    [row] = await rows(ORDERS)
    assert row["status"] == "paid"
    scope, settings = world.ours_test.scope, services.settings
    async with services.database.transaction() as tx:
        url = await order_url(tx, scope, row["id"], settings=settings, now=services.clock())
    assert url is not None
    return await shopper.open(url.removeprefix(services.settings.base_url))


async def send(shopper: Shopper, form: Form) -> httpx.Response:
    return await shopper.http.post(form.action, data=form.values())


async def test_the_page_of_a_paid_order_cancels_it_and_refunds_all(
    services: Services, shopper: Shopper, page: httpx.Response, rows: Rows
) -> None:
    form = form_of(page)
    assert form.action.endswith("/cancel")
    assert (await send(shopper, form)).status_code == 303
    await work(services)
    [order] = await rows(ORDERS)
    assert (order["status"], order["cancellation_reason"]) == ("cancelled", "requested_by_customer")
    assert order["payment_state"] == "refunded"
    shown = await shopper.open(form.action.removesuffix("/cancel"))
    assert "This order was cancelled" in shown.text
    assert "is refunded to the card" in shown.text
    [refund] = await rows("SELECT amount_minor, state, requested_by FROM refunds")
    [charge] = await rows("SELECT amount_minor FROM charges")
    assert (refund["amount_minor"], refund["state"]) == (charge["amount_minor"], "succeeded")
    assert re.match("payer:lnk_", refund["requested_by"])
    written = await rows("SELECT action, actor FROM audit_log WHERE actor LIKE 'payer:%'")
    assert {(entry["action"], entry["actor"]) for entry in written} >= {("order.cancelled", refund["requested_by"])}
    # Once more, in another tab.
    again = await send(shopper, form)
    assert (again.status_code, "can no longer be cancelled" in again.text) == (409, True)
    assert len(await rows("SELECT id FROM refunds")) == 1


async def test_credits_that_are_allocated_cannot_be_returned(
    services: Services, shopper: Shopper, page: httpx.Response, rows: Rows
) -> None:
    await work(services)
    late = await send(shopper, form_of(page))
    assert (late.status_code, "can no longer be cancelled" in late.text) == (409, True)
    assert '/cancel"' not in late.text
    assert [row["status"] for row in await rows(ORDERS)] == ["complete"]
    assert await rows("SELECT id FROM refunds") == []


async def test_cancelling_and_allocating_at_once_ends_in_exactly_one_of_them(
    services: Services, shopper: Shopper, page: httpx.Response, rows: Rows
) -> None:
    answer, _ = await asyncio.gather(send(shopper, form_of(page)), services.allocate_orders.run_once())
    await work(services)
    [order] = await rows(ORDERS)
    refunds = await rows("SELECT id FROM refunds")
    ends = {("cancelled", 303, 1), ("complete", 409, 0)}
    assert (order["status"], answer.status_code, len(refunds)) in ends


async def test_while_the_customer_cancels_nothing_is_allocated(
    services: Services, shopper: Shopper, page: httpx.Response, rows: Rows
) -> None:
    """The job skips an order that is locked; a cancellation waits for the job and sees what it did."""
    async with services.database.transaction() as tx:
        await tx.execute("SELECT FROM orders FOR UPDATE")
        cancelling = asyncio.create_task(send(shopper, form_of(page)))
        assert await services.allocate_orders.run_once() is False
    assert (await cancelling).status_code == 303
    assert [row["status"] for row in await rows(ORDERS)] == ["cancelled"]


async def test_a_cancellation_waits_for_an_allocation_and_sees_it(
    services: Services, shopper: Shopper, page: httpx.Response, rows: Rows, world: World
) -> None:
    [row] = await rows(ORDERS)
    async with services.database.transaction() as tx:
        order = await lock_order(tx, world.ours_test.scope, row["id"])
        assert order is not None
        await allocate_orders(tx, [order], services.settings, services.clock())
        cancelling = asyncio.create_task(send(shopper, form_of(page)))
        await Scene(services).until_waiting_for_lock()
    assert (await cancelling).status_code == 409
    assert [row["status"] for row in await rows(ORDERS)] == ["retiring"]
    assert await rows("SELECT id FROM refunds") == []
