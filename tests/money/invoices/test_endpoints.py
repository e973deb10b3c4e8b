"""The invoice as a PDF, and the test helper that settles one."""

import asyncio

import httpx
import pytest

from tests.money.invoices.billing import Billing, pdf_text
from tests.support.api_client import ApiClient, codes
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import new_id, utc_now


@pytest.fixture
def billing(populated_db: Database, settings: Settings) -> Billing:
    clock = ManualClock(utc_now())
    return Billing(Services(populated_db, settings, clock), clock)


async def _wait_for_helpers(billing: Billing, world: World) -> None:
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE accounts SET auto_advance = false WHERE id = $1", world.ours_test.scope.account_id)


async def _settle(api: ApiClient, order_id: str, **headers: str) -> httpx.Response:
    return await api.http.post(f"/v1/test-helpers/orders/{order_id}/settle-invoice", headers=api._headers(headers))


async def test_an_invoice_is_available_once_it_is_issued(billing: Billing, api: ApiClient) -> None:
    order = await api.order()
    path = f"/v1/orders/{order['id']}/invoice"
    early = await api.get(path)
    assert (early.status_code, codes(early)) == (404, ["invoice_not_available"])
    billing.clock.now = billing.clock.now.replace(year=billing.clock.now.year + 1)
    await billing.work()
    answer = await api.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf")
    assert answer.headers["content-disposition"] == 'inline; filename="TN-TEST-000001.pdf"'
    assert order["total_cost"] in pdf_text(answer.content)
    assert (await api.get(path)).content == answer.content
    unknown = await api.get(f"/v1/orders/{new_id('ord')}/invoice")
    assert (unknown.status_code, codes(unknown)) == (404, ["order_not_found"])


async def test_a_test_helper_settles_an_invoice_and_issues_it_first(
    billing: Billing, api: ApiClient, world: World
) -> None:
    await _wait_for_helpers(billing, world)
    order = await api.order()
    answer = await _settle(api, order["id"])
    assert (answer.status_code, answer.json()["status"]) == (200, "paid")
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == answer.json()
    assert (await api.get(f"/v1/orders/{order['id']}/invoice")).status_code == 200
    again = await _settle(api, order["id"])
    assert (again.status_code, codes(again)) == (409, ["invoice_not_open"])
    [row] = await billing.fetch("SELECT settled_by FROM invoices")
    assert row["settled_by"] == f"key:{world.ours_test.key_id}"
    await billing.check_invariants()


async def test_the_helper_marks_a_zero_total_order_as_paid(billing: Billing, api: ApiClient, world: World) -> None:
    await _wait_for_helpers(billing, world)
    order = await api.order()
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE orders SET offset_cost_minor = 0, commission_minor = 0, total_cost_minor = 0")
        await tx.execute("UPDATE order_lines SET offset_cost_minor = 0")
    answer = await _settle(api, order["id"])
    assert (answer.status_code, answer.json()["status"]) == (200, "paid")
    assert (await api.get(f"/v1/orders/{order['id']}/invoice")).status_code == 404


async def test_an_order_paid_by_card_has_no_invoice_to_settle(billing: Billing, api: ApiClient) -> None:
    order = await api.order()
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE orders SET payment_method = 'card'")
    answer = await _settle(api, order["id"])
    assert (answer.status_code, codes(answer)) == (409, ["order_paid_by_card"])


async def test_a_live_key_gets_404(billing: Billing, api: ApiClient, world: World) -> None:
    live = api.as_key(world.ours_live.key)
    order = await live.order()
    answer = await _settle(live, order["id"])
    assert (answer.status_code, codes(answer)) == (404, ["route_not_found"])
    assert answer.json()["error"]["message"] == "Test helpers work with test API keys only."
    assert await billing.fetch("SELECT FROM invoices") == []


async def test_an_order_of_another_account_is_not_found(api: ApiClient, world: World) -> None:
    order = await api.order()
    for stranger, headers in (
        (api.as_key(world.theirs_test.key), {}),
        (api, {"Service_Account": world.ours_test.client_account_id}),
    ):
        answer = await _settle(stranger, order["id"], **headers)
        assert (answer.status_code, codes(answer)) == (404, ["order_not_found"])
        read = await stranger.get(f"/v1/orders/{order['id']}/invoice", **headers)
        assert (read.status_code, codes(read)) == (404, ["order_not_found"])


async def test_helper_and_workers_settle_an_invoice_once(billing: Billing, api: ApiClient) -> None:
    billing.clock.now = billing.clock.now.replace(year=billing.clock.now.year + 1)
    orders = [await api.order() for _ in range(4)]
    answers, *_ = await asyncio.gather(
        asyncio.gather(*(_settle(api, order["id"]) for order in orders for _ in range(2))),
        billing.work(),
        billing.work(),
    )
    assert {answer.status_code for answer in answers} <= {200, 409}
    await billing.work()
    assert {(await api.get(f"/v1/orders/{order['id']}")).json()["status"] for order in orders} == {"paid"}
    assert len(await billing.fetch("SELECT FROM audit_log WHERE action = 'invoice.settled'")) == len(orders)
    await billing.check_invariants()
