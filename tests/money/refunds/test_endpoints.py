"""Refunds and cancellations over HTTP."""

import asyncio
from typing import Any

import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.scene import Scene
from tonne.apps.wiring.app import Services


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


async def _paid(api: ApiClient, scene: Scene) -> str:
    order_id = str((await api.order())["id"])
    await scene.execute("UPDATE orders SET payment_method = 'card' WHERE id = $1", order_id)
    answer = await api.post(f"/v1/test-helpers/orders/{order_id}/pay", {})
    assert answer.json()["payment_state"] == "paid"
    return order_id


async def _allow(scene: Scene) -> None:
    await scene.execute("UPDATE accounts SET refunds_by_api = true")


async def _order(api: ApiClient, order_id: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.get(f"/v1/orders/{order_id}")).json()
    return found


async def test_refunds_by_api_are_off_by_default(api: ApiClient, scene: Scene) -> None:
    order_id = await _paid(api, scene)
    before = await _order(api, order_id)
    for answer in (
        await api.post(f"/v1/orders/{order_id}/refunds", {}),
        await api.get(f"/v1/orders/{order_id}/refunds"),
        await api.post(f"/v1/orders/{order_id}/cancel", {"refund": True}),
    ):
        assert (answer.status_code, codes(answer)) == (403, ["refund_not_allowed"])
    plain = await api.post(f"/v1/orders/{order_id}/cancel", {})
    assert (plain.status_code, codes(plain)) == (409, ["order_transition_invalid"])
    assert '"refund": true' in plain.json()["error"]["message"]
    assert await _order(api, order_id) == before


async def test_a_paid_order_is_cancelled_with_a_refund(api: ApiClient, scene: Scene) -> None:
    await _allow(scene)
    order_id = await _paid(api, scene)
    cancelled = (await api.post(f"/v1/orders/{order_id}/cancel", {"refund": True, "reason": "Twice"})).json()
    assert (cancelled["status"], cancelled["payment_state"]) == ("cancelled", "paid")
    assert cancelled["cancellation_reason"] == "requested_by_client"
    [refund] = (await api.get(f"/v1/orders/{order_id}/refunds")).json()["data"]
    assert (refund["state"], refund["amount"], refund["reason"]) == ("due", cancelled["amount_due"], "Twice")
    again = await api.post(f"/v1/orders/{order_id}/cancel", {"refund": True})
    assert (again.status_code, codes(again)) == (409, ["order_transition_invalid"])


async def test_a_refund_is_requested_once_per_key(api: ApiClient, scene: Scene) -> None:
    await _allow(scene)
    order_id = await _paid(api, scene)
    body = {"amount": "1.00", "reason": "Late", "idempotency_key": "r-1"}
    first = await api.post(f"/v1/orders/{order_id}/refunds", body)
    assert first.status_code == 201
    assert first.json() | {"id": "", "created_at": ""} == {
        "id": "",
        "order_id": order_id,
        "amount": "1.00",
        "currency": "EUR",
        "state": "due",
        "method": "card",
        "reason": "Late",
        "attempt": 1,
        "created_at": "",
        "settled_at": None,
    }
    repeated = await api.post(f"/v1/orders/{order_id}/refunds", body)
    assert (repeated.status_code, repeated.json()) == (200, first.json())
    assert repeated.headers["Idempotent-Replayed"] == "true"
    other = await api.post(f"/v1/orders/{order_id}/refunds", {**body, "amount": "2.00"})
    assert other.json() == first.json()
    assert other.headers["Idempotency-Mismatch"] == "true"
    assert len((await api.get(f"/v1/orders/{order_id}/refunds")).json()["data"]) == 1


async def test_a_key_that_was_used_for_another_order_is_a_mismatch(api: ApiClient, scene: Scene) -> None:
    await _allow(scene)
    one, other = await _paid(api, scene), await _paid(api, scene)
    body = {"amount": "1.00", "idempotency_key": "r-1"}
    first = await api.post(f"/v1/orders/{one}/refunds", body)
    second = await api.post(f"/v1/orders/{other}/refunds", body)
    assert second.json() == first.json()
    assert second.headers["Idempotency-Mismatch"] == "true"


@pytest.mark.parametrize("same_order", [True, False], ids=["same order", "different orders"])
async def test_requests_with_one_key_at_the_same_time_make_one_refund(
    api: ApiClient, scene: Scene, same_order: bool
) -> None:
    await _allow(scene)
    one = await _paid(api, scene)
    paths = [f"/v1/orders/{each}/refunds" for each in (one, one if same_order else await _paid(api, scene))]
    body = {"amount": "1.00", "idempotency_key": "r-1"}
    # Both requests have looked for the key before either of them commits.
    async with scene.database.transaction() as tx:
        await tx.execute("SELECT true FROM orders FOR UPDATE")
        requests = [asyncio.create_task(api.post(path, body)) for path in paths]
        await scene.until(lambda: _both_wait(scene))
    answers = sorted(await asyncio.gather(*requests), key=lambda answer: answer.status_code, reverse=True)
    assert [answer.status_code for answer in answers] == [201, 200]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["Idempotent-Replayed"] == "true"
    assert ("Idempotency-Mismatch" in answers[1].headers) is not same_order
    assert await scene.fetchval("SELECT count(*) FROM refunds") == 1


async def _both_wait(scene: Scene) -> bool:
    waiting: int = await scene.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return waiting == 2


async def test_refunds_are_listed_newest_first_in_pages(api: ApiClient, scene: Scene) -> None:
    await _allow(scene)
    order_id = await _paid(api, scene)
    made = [(await api.post(f"/v1/orders/{order_id}/refunds", {"amount": "0.01"})).json()["id"] for _ in range(3)]
    page = (await api.get(f"/v1/orders/{order_id}/refunds?limit=2")).json()
    rest = (await api.get(f"/v1/orders/{order_id}/refunds?limit=2&after={page['next_cursor']}")).json()
    assert [each["id"] for each in (*page["data"], *rest["data"])] == sorted(made, reverse=True)
    assert (page["has_more"], rest["has_more"]) == (True, False)


@pytest.mark.parametrize(
    ("amount", "code"),
    [
        ("0.00", "refund_amount_invalid"),
        ("1.001", "refund_amount_invalid"),
        (1, "validation_error"),
        ("one", "validation_error"),
        ("-1.00", "validation_error"),
        ("1000000.00", "refund_exceeds_paid"),
    ],
)
async def test_wrong_amounts_are_refused(api: ApiClient, scene: Scene, amount: Any, code: str) -> None:
    await _allow(scene)
    order_id = await _paid(api, scene)
    answer = await api.post(f"/v1/orders/{order_id}/refunds", {"amount": amount})
    assert codes(answer) == [code]
    assert (await api.get(f"/v1/orders/{order_id}/refunds")).json()["data"] == []


async def test_the_test_helper_disputes_a_payment(api: ApiClient, scene: Scene) -> None:
    order_id = await _paid(api, scene)
    path = f"/v1/test-helpers/orders/{order_id}/dispute"
    assert (await api.post(path, {})).json()["payment_state"] == "disputed"
    assert (await api.post(path, {"outcome": "won"})).json()["payment_state"] == "paid"
    over = await api.post(path, {"outcome": "lost"})
    assert (over.status_code, codes(over)) == (409, ["nothing_to_dispute"])
    unpaid = (await api.order())["id"]
    refused = await api.post(f"/v1/test-helpers/orders/{unpaid}/dispute", {"outcome": "lost"})
    assert codes(refused) == ["nothing_to_dispute"]


async def test_a_lost_dispute_cancels_a_test_order(api: ApiClient, scene: Scene) -> None:
    order_id = await _paid(api, scene)
    lost = (await api.post(f"/v1/test-helpers/orders/{order_id}/dispute", {"outcome": "lost"})).json()
    assert (lost["status"], lost["cancellation_reason"]) == ("cancelled", "dispute_lost")
    await scene.check_invariants()


@pytest.mark.parametrize("helper", ["retire", "complete"])
async def test_a_disputed_test_order_is_held_by_the_helpers_too(api: ApiClient, scene: Scene, helper: str) -> None:
    order_id = await _paid(api, scene)
    await api.post(f"/v1/test-helpers/orders/{order_id}/dispute", {})
    refused = await api.post(f"/v1/test-helpers/orders/{order_id}/{helper}", {})
    assert (refused.status_code, codes(refused)) == (409, ["order_transition_invalid"])
    assert "disputes the payment" in refused.json()["error"]["message"]
    assert (await _order(api, order_id))["status"] == "paid"
    await api.post(f"/v1/test-helpers/orders/{order_id}/dispute", {"outcome": "won"})
    assert (await api.post(f"/v1/test-helpers/orders/{order_id}/{helper}", {})).status_code == 200
    await scene.check_invariants()
