"""The test helpers pay, decline and cancel."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from tests.money.cards.card_scene import NO_MONEY, CardScene, total
from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.values.context import new_id
from tonne.selling.orders.model import Order

HELPERS = ("pay", "decline", "cancel")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def scene(services: Services, world: World, clock: ManualClock) -> CardScene:
    return CardScene(services, world.ours_test, clock)


@pytest.fixture
async def api(services: Services, world: World) -> AsyncIterator[ApiClient]:
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield ApiClient(client, world.ours_test.key)


async def _help(api: ApiClient, order: Order | dict[str, Any], helper: str, body: Any = None) -> httpx.Response:
    order_id = order.id if isinstance(order, Order) else order["id"]
    return await api.post(f"/v1/test-helpers/orders/{order_id}/{helper}", {} if body is None else body)


async def test_pay_charges_and_returns_the_paid_order(api: ApiClient, scene: CardScene) -> None:
    await scene.wait_for_helpers()
    order = await scene.order(NO_MONEY)
    answer = await _help(api, order, "pay")
    assert (answer.status_code, answer.json()["status"]) == (200, "paid")
    assert (await api.get(f"/v1/orders/{order.id}")).content == answer.content
    assert await scene.outcomes(order) == [("captured", "captured")]
    assert await scene.taken() == [total(order)]
    assert await scene.due_at(order) is None, "the next step waits for its helper too"
    assert await scene.breaches() == {}
    again = await _help(api, order, "pay")
    assert (again.status_code, codes(again)) == (409, ["order_transition_invalid"])
    assert await scene.taken() == [total(order)]


async def test_pay_does_not_wait_for_the_next_attempt(api: ApiClient, scene: CardScene) -> None:
    order = await scene.order(NO_MONEY)
    await scene.work()
    answer = await _help(api, order, "pay")
    assert (answer.status_code, answer.json()["status"]) == (200, "paid")
    assert await scene.outcomes(order) == [("failed", "declined"), ("captured", "captured")]
    assert not await scene.work()
    assert await scene.breaches() == {}


async def test_pay_of_a_zero_total_order(api: ApiClient, scene: CardScene) -> None:
    await scene.wait_for_helpers()
    order = await scene.order(None)
    await scene.execute(
        "UPDATE orders SET total_cost_minor = 0, offset_cost_minor = 0, commission_minor = 0; "
        "UPDATE order_lines SET offset_cost_minor = 0"
    )
    declined = await _help(api, order, "decline")
    assert (declined.status_code, codes(declined)) == (409, ["order_transition_invalid"])
    answer = await _help(api, order, "pay")
    assert (answer.status_code, answer.json()["status"]) == (200, "paid")
    assert await scene.charges(order) == []


async def test_the_helpers_are_refused_while_a_worker_charges(api: ApiClient, scene: CardScene) -> None:
    order = await scene.order()
    batch = await scene.worker.claim()
    for helper in ("pay", "decline"):
        answer = await _help(api, order, helper)
        assert (answer.status_code, codes(answer)) == (409, ["charge_under_way"])
    await scene.worker.settle(await scene.worker.call_gateways(batch))
    assert await scene.status(order) == "paid"
    assert await scene.taken() == [total(order)]


async def test_declines_follow_the_schedule_until_the_order_fails(
    api: ApiClient, scene: CardScene, clock: ManualClock
) -> None:
    order = await scene.order()
    for pause in (timedelta(hours=1), timedelta(days=1), timedelta(days=3)):
        answer = await _help(api, order, "decline", {"code": "insufficient_funds"})
        assert (answer.status_code, answer.json()["status"]) == (200, "placed")
        assert await scene.due_at(order) == clock.now + pause
    answer = await _help(api, order, "decline")
    assert (answer.status_code, answer.json()["status"]) == (200, "failed")
    assert [charge["code"] for charge in await scene.charges(order)] == ["insufficient_funds"] * 3 + ["card_declined"]
    assert (await scene.event_types(order))[-1] == "order.failed"
    assert await scene.taken() == []
    assert await scene.breaches() == {}


async def test_a_declined_order_of_a_waiting_account_keeps_waiting(api: ApiClient, scene: CardScene) -> None:
    await scene.wait_for_helpers()
    order = await scene.order()
    assert (await _help(api, order, "decline")).json()["status"] == "placed"
    assert await scene.due_at(order) is None
    scene.clock.advance(days=30)
    assert not await scene.work()
    assert (await _help(api, order, "pay")).json()["status"] == "paid"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("stolen_card", "failed"),
        ("expired_card", "failed"),
        ("do_not_try_again", "failed"),
        ("authentication_required", "placed"),
        ("try_again_later", "placed"),
    ],
)
async def test_the_decline_code_decides_the_outcome(api: ApiClient, scene: CardScene, code: str, status: str) -> None:
    order = await scene.order()
    answer = await _help(api, order, "decline", {"code": code})
    assert (answer.status_code, answer.json()["status"]) == (200, status)
    assert (await scene.charges(order))[0]["code"] == code


async def test_authentication_required_waits_for_the_payer_whom_the_pay_helper_simulates(
    api: ApiClient, scene: CardScene
) -> None:
    order = await scene.order()
    await _help(api, order, "decline")
    declined = await _help(api, order, "decline", {"code": "authentication_required"})
    assert declined.json()["status"] == "placed"
    assert await scene.due_at(order) is None, "its charge is due, not the order"
    again = await _help(api, order, "decline", {"code": "authentication_required"})
    assert (again.status_code, codes(again)) == (409, ["charge_under_way"])
    paid = await _help(api, order, "pay")
    assert paid.json()["status"] == "paid"
    assert await scene.outcomes(order) == [("failed", "declined"), ("captured", "captured")]
    assert await scene.breaches() == {}


async def test_an_unknown_code_is_refused(api: ApiClient, scene: CardScene) -> None:
    order = await scene.order()
    answer = await _help(api, order, "decline", {"code": "bad_mood"})
    assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], ["code"])
    assert await scene.charges(order) == []


async def test_an_order_paid_by_invoice_is_refused(api: ApiClient) -> None:
    order = await api.order()
    for helper in ("pay", "decline"):
        answer = await _help(api, order, helper)
        assert (answer.status_code, codes(answer)) == (409, ["order_paid_by_invoice"])
        assert "settle-invoice" in answer.json()["error"]["message"]


async def test_cancel_works_like_the_endpoint_for_all_orders(api: ApiClient) -> None:
    order = await api.order()
    answer = await _help(api, order, "cancel", {"reason": "Trying it out"})
    assert (answer.status_code, answer.json()) == (
        200,
        {**order, "status": "cancelled", "cancellation_reason": "requested_by_client"},
    )
    again = await _help(api, order, "cancel")
    assert (again.status_code, codes(again)) == (409, ["order_transition_invalid"])


@pytest.mark.parametrize("helper", HELPERS)
async def test_a_live_key_gets_404(api: ApiClient, world: World, helper: str) -> None:
    live = api.as_key(world.ours_live.key)
    order = await live.order()
    answer = await _help(live, order, helper)
    assert (answer.status_code, codes(answer)) == (404, ["route_not_found"])
    assert answer.json()["error"]["message"] == "Test helpers work with test API keys only."
    assert (await live.get(f"/v1/orders/{order['id']}")).json() == order


@pytest.mark.parametrize("helper", HELPERS)
async def test_orders_of_others_and_unknown_orders_are_not_found(api: ApiClient, world: World, helper: str) -> None:
    order = await api.order()
    for client, order_id in ((api.as_key(world.theirs_test.key), order["id"]), (api, new_id("ord"))):
        answer = await _help(client, {"id": order_id}, helper)
        assert (answer.status_code, codes(answer)) == (404, ["order_not_found"])
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == order
