"""POST /v1/orders/{id}/cancel."""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.money.invoices.billing import pdf_text
from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START
from tests.support.orders import bring_to, receive
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.cli.operations.doctor import examine
from tonne.apps.wiring.app import Services
from tonne.money.refunds.request_refund import NEEDS_REFUND
from tonne.platform.values.context import new_id
from tonne.selling.orders.model import OrderStatus

Row = Callable[..., Awaitable[asyncpg.Record]]


@pytest.fixture
def row(services: Services) -> Row:
    async def read(sql: str, *values: object) -> asyncpg.Record:
        async with services.database.connection() as connection:
            found = await connection.fetchrow(sql, *values)
        assert found is not None
        return found

    return read


async def test_a_cancellation_is_recorded_with_actor_and_reason(
    api: ApiClient, services: Services, world: World, row: Row
) -> None:
    order = await api.order()
    answer = await api.post(f"/v1/orders/{order['id']}/cancel", {"reason": " Ordered twice "})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {**order, "status": "cancelled", "cancellation_reason": "requested_by_client"}
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == answer.json()
    events = (await api.get("/v1/events")).json()["data"]
    assert events[0]["event_type"] == "order.cancelled"
    assert events[0]["data"]["order"] == answer.json()
    stored = await row("SELECT cancelled_by, cancel_reason, next_attempt_at FROM orders")
    assert tuple(stored) == (f"key:{world.ours_test.key_id}", "Ordered twice", None)
    entry = await row("SELECT actor, action, details FROM audit_log WHERE subject_id = $1", order["id"])
    assert (entry["actor"], entry["action"]) == (f"key:{world.ours_test.key_id}", "order.cancelled")
    assert "Ordered twice" in entry["details"]
    async with services.database.transaction() as tx:
        assert await examine(tx) == {}


async def test_an_order_without_a_price_can_be_cancelled(api: ApiClient, services: Services, world: World) -> None:
    order = await receive(services, world.ours_test.scope, START)
    answer = await api.http.post(f"/v1/orders/{order.id}/cancel", headers={"Authorization": f"Bearer {api.key}"})
    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled"), "without any body"


@pytest.mark.parametrize("status", [s for s in OrderStatus if s not in {OrderStatus.RECEIVED, OrderStatus.PLACED}])
async def test_cancelling_from_any_other_status_is_refused(
    api: ApiClient, services: Services, world: World, status: OrderStatus
) -> None:
    order = await bring_to(services, world.ours_test.scope, status, START)
    before = (await api.get(f"/v1/orders/{order.id}")).json()
    answer = await api.post(f"/v1/orders/{order.id}/cancel", {"reason": "Too late"})
    assert (answer.status_code, codes(answer)) == (409, ["order_transition_invalid"])
    expected = f"An order that is {status} cannot become cancelled."
    if status is OrderStatus.CANCELLED:
        expected = "The order is already cancelled."
    if status is OrderStatus.PAID:
        expected = NEEDS_REFUND
    assert answer.json()["error"]["message"] == expected
    assert (await api.get(f"/v1/orders/{order.id}")).json() == before
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT cancelled_by FROM orders") is None
        assert await connection.fetchval("SELECT count(*) FROM audit_log WHERE subject_id = $1", order.id) == 0


async def test_an_order_of_another_account_is_not_found(api: ApiClient, world: World) -> None:
    order = await api.order()
    for client in (api.as_key(world.theirs_test.key), api.as_key(world.ours_live.key)):
        answer = await client.post(f"/v1/orders/{order['id']}/cancel", {})
        assert (answer.status_code, codes(answer)) == (404, ["order_not_found"])
    unknown = await api.post(f"/v1/orders/{new_id('ord')}/cancel", {})
    assert (unknown.status_code, codes(unknown)) == (404, ["order_not_found"])
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == order


@pytest.mark.parametrize("body", [{"reason": "x" * 501}, {"reason": 7}, {"reason": ["x"]}, {"why": "x"}])
async def test_an_invalid_body_is_refused(api: ApiClient, body: dict[str, Any]) -> None:
    order = await api.order()
    answer = await api.post(f"/v1/orders/{order['id']}/cancel", body)
    assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], list(body))
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == order


async def test_the_longest_reason_is_stored(api: ApiClient, row: Row) -> None:
    order = await api.order()
    reason = "木" * 499 + "🌍"
    answer = await api.post(f"/v1/orders/{order['id']}/cancel", {"reason": reason})
    assert answer.status_code == 200
    assert (await row("SELECT cancel_reason FROM orders"))[0] == reason


async def test_an_open_invoice_is_cancelled_with_its_order(api: ApiClient, services: Services, row: Row) -> None:
    order = await api.order()
    await services.issue_invoices.run_once()
    await api.post(f"/v1/orders/{order['id']}/cancel", {})
    invoice = await row("SELECT status, settled_at, settled_by, next_attempt_at FROM invoices")
    assert (invoice["status"], invoice["next_attempt_at"]) == ("cancelled", None)
    assert invoice["settled_at"] is not None
    assert invoice["settled_by"].startswith("key:")
    [note] = (await api.get(f"/v1/orders/{order['id']}/credit-notes")).json()["data"]
    assert note["number"] == "CN-TEST-000001"
    assert (note["invoice_number"], note["cause"], note["total"]) == (
        "TN-TEST-000001",
        "cancellation",
        order["total_cost"],
    )
    pdf = await api.get(f"/v1/credit-notes/{note['id']}")
    assert pdf.headers["content-type"] == "application/pdf"
    assert "TN-TEST-000001" in pdf_text(pdf.content)


async def test_a_paid_invoice_is_not_cancelled(api: ApiClient, services: Services, row: Row) -> None:
    order = await api.order()
    await services.issue_invoices.run_once()
    await Scene(services).execute(
        "UPDATE invoices SET status = 'paid', settled_minor = total_minor, next_attempt_at = NULL"
    )
    await api.post(f"/v1/orders/{order['id']}/cancel", {})
    assert (await row("SELECT status FROM invoices"))[0] == "paid"
