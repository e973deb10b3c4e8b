"""The wait before an order is fulfilled, over HTTP."""

import asyncio
from typing import Any

import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.scene import Scene
from tonne.apps.wiring.app import Services

MANUAL = {"mass": {"amount": "2", "unit": "t"}, "fulfil_after": "manual"}


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


async def _paid(api: ApiClient, scene: Scene, body: dict[str, Any]) -> dict[str, Any]:
    await scene.execute("UPDATE accounts SET payment_method = 'card'")
    order = (await api.post("/v1/orders/by-mass", body)).json()
    answer = await api.post(f"/v1/test-helpers/orders/{order['id']}/pay", {})
    paid: dict[str, Any] = answer.json()
    assert paid["status"] == "paid"
    return paid


async def test_a_reduction_is_made_once_per_key_without_the_right_to_refund(api: ApiClient, scene: Scene) -> None:
    order = await _paid(api, scene, MANUAL)
    assert order["fulfil_after"] == "manual"
    path = f"/v1/orders/{order['id']}/reduce"
    first = await api.post(path, {"quantity": "1.5"}, Idempotency_Key="r-1")
    assert (first.status_code, first.json()["quantity"]) == (200, "1.5")
    repeated = await api.post(path, {"quantity": "1.5"}, Idempotency_Key="r-1")
    assert (repeated.json(), repeated.headers["Idempotent-Replayed"]) == (first.json(), "true")
    assert await scene.fetchval("SELECT count(*) FROM order_reductions") == 1
    assert (await api.get(f"/v1/orders/{order['id']}")).json() == first.json()
    again = await api.post(path, {"quantity": "1.5"})
    assert (again.status_code, codes(again)) == (400, ["reduction_invalid"])
    cancelled, repeated = [
        await api.post(f"/v1/orders/{order['id']}/cancel", {"refund": True}, Idempotency_Key="c-1") for _ in range(2)
    ]
    assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert (repeated.json(), repeated.headers["Idempotent-Replayed"]) == (cancelled.json(), "true")
    other = await api.post(f"/v1/orders/{order['id']}/cancel", {"refund": False}, Idempotency_Key="c-1")
    assert other.headers["Idempotency-Mismatch"] == "true"


async def test_of_two_copies_of_a_reduction_at_once_one_counts(api: ApiClient, scene: Scene) -> None:
    order = await _paid(api, scene, MANUAL)
    copies = (api.post(f"/v1/orders/{order['id']}/reduce", {"quantity": "1"}, Idempotency_Key="r-1") for _ in range(4))
    answers = await asyncio.gather(*copies)
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert {answer.json()["quantity"] for answer in answers if answer.status_code == 200} == {"1"}
    assert await scene.fetchval("SELECT count(*) FROM order_reductions") == 1
    assert await scene.breaches() == {}


async def test_who_may_not_refund_may_not_cancel_after_the_wait(api: ApiClient, scene: Scene) -> None:
    order = await _paid(api, scene, MANUAL)
    released = await api.post(f"/v1/orders/{order['id']}/release", {})
    assert (released.status_code, released.json()["status"]) == (200, "paid")
    refused = await api.post(f"/v1/orders/{order['id']}/cancel", {"refund": True})
    assert (refused.status_code, codes(refused)) == (403, ["refund_not_allowed"])
    late = await api.post(f"/v1/orders/{order['id']}/reduce", {"quantity": "1"})
    assert (late.status_code, codes(late)) == (409, ["order_fulfilled"])


async def test_a_time_is_a_time_at_most_ninety_days_ahead(api: ApiClient, scene: Scene) -> None:
    for text in ("soon", "", "2026-13-01T00:00:00Z", 5):
        answer = await api.post("/v1/orders/by-mass", {**MANUAL, "fulfil_after": text})
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"]), text
    answer = await api.post("/v1/orders/by-mass", {**MANUAL, "fulfil_after": "2199-01-01T00:00:00Z"})
    assert (answer.status_code, codes(answer)) == (400, ["fulfil_after_invalid"])
    passed = await _paid(api, scene, {**MANUAL, "fulfil_after": "2020-01-01T01:00:00+01:00"})
    assert passed["fulfil_after"] == "2020-01-01T00:00:00.000Z"
    late = await api.post(f"/v1/orders/{passed['id']}/reduce", {"quantity": "1"})
    assert (late.status_code, codes(late)) == (409, ["order_fulfilled"])


async def test_the_delay_of_the_account_is_fixed_at_the_payment(api: ApiClient, scene: Scene) -> None:
    await scene.execute("UPDATE accounts SET fulfil_delay = '48'")
    order = await _paid(api, scene, {"mass": MANUAL["mass"]})
    paid_at = await scene.fetchval("SELECT status_changed_at FROM orders WHERE id = $1", order["id"])
    fulfil_after = await scene.fetchval("SELECT fulfil_after FROM orders WHERE id = $1", order["id"])
    assert (fulfil_after - paid_at).total_seconds() == 48 * 3_600
    await scene.execute("UPDATE accounts SET fulfil_delay = NULL")
    reduced = await api.post(f"/v1/orders/{order['id']}/reduce", {"quantity": "1"})
    assert reduced.json()["fulfil_after"] == order["fulfil_after"]


async def test_orders_of_an_account_wait_for_their_release_unless_they_say_otherwise(
    api: ApiClient, scene: Scene
) -> None:
    await scene.execute("UPDATE accounts SET fulfil_delay = 'manual'")
    order = await _paid(api, scene, {"mass": MANUAL["mass"]})
    assert order["fulfil_after"] == "manual"
    await scene.execute("UPDATE accounts SET fulfil_delay = NULL")
    assert (await api.get(f"/v1/orders/{order['id']}")).json()["fulfil_after"] == "manual"
    reduced = await api.post(f"/v1/orders/{order['id']}/reduce", {"quantity": "1"})
    assert reduced.json()["fulfil_after"] == "manual"
    released = await api.post(f"/v1/orders/{order['id']}/release", {})
    assert released.json()["fulfil_after"] < "9"
    await scene.execute("UPDATE accounts SET fulfil_delay = 'manual'")
    timed = await _paid(api, scene, {**MANUAL, "fulfil_after": "2020-01-01T00:00:00Z"})
    assert timed["fulfil_after"] == "2020-01-01T00:00:00.000Z"


async def test_events_are_recorded_for_webhooks_that_name_them(api: ApiClient, scene: Scene) -> None:
    quiet = await _paid(api, scene, MANUAL)
    await api.post(f"/v1/orders/{quiet['id']}/reduce", {"quantity": "1"})
    await scene.execute("UPDATE event_streams SET recorded_types = ARRAY['order.reduced', 'order.released']")
    order = await _paid(api, scene, MANUAL)
    await api.post(f"/v1/orders/{order['id']}/reduce", {"quantity": "1.25"})
    await api.post(f"/v1/orders/{order['id']}/release", {})
    events = [each for each in (await api.get("/v1/events?order=asc")).json()["data"] if "rele" in each["event_type"]]
    assert [each["data"]["order"]["quantity"] for each in events] == ["1.25"]
    types = [row["event_type"] for row in await scene.fetch("SELECT event_type FROM events ORDER BY position")]
    assert (types.count("order.reduced"), types.count("order.released")) == (1, 1)
    await scene.execute("UPDATE event_streams SET recorded_types = '{}'")
    assert await scene.breaches() == {}
