"""Placing an order: the response, and what is stored."""

from tests.support.api_client import ApiClient
from tests.support.events import stored_events
from tonne.platform.db.database import Database


async def test_an_order_by_estimate_is_placed_and_can_be_read_again(api: ApiClient) -> None:
    estimate_id = await api.estimate("1.105697", "t")
    answer = await api.post("/v1/orders/by-estimate", {"estimate_id": estimate_id, "idempotency_key": "k1"})
    assert answer.status_code == 201
    order = answer.json()
    assert order["status"] == "placed"
    assert order["type"] == "quantity"
    assert order["quantity"] == order["requested_quantity"] == "1.105697"
    assert order["requested_value"] is None
    assert order["estimate_id"] == estimate_id
    assert (await api.get(f"/v1/orders/{order['id']}")).content == answer.content
    assert (await api.by_key("k1")).content == answer.content
    page = (await api.get("/v1/orders")).json()
    assert page == {"has_more": False, "next_cursor": None, "data": [order]}


async def test_receiving_and_placing_append_one_event_each(api: ApiClient, populated_db: Database) -> None:
    order = await api.order()
    async with populated_db.connection() as connection:
        events = await stored_events(connection)
    assert [(event.position, event.event_type) for event in events] == [(1, "order.received"), (2, "order.placed")]
    assert events[1].content["data"]["order"]["id"] == order["id"]
