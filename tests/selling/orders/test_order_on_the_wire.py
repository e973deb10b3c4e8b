"""Every field of an order is always present and has its type."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.platform.http.writes import ORDERS, QUOTES, count_rows, valid_bodies
from tests.selling.orders.wire import assert_wire_form
from tests.support.api_client import ApiClient, codes, fields
from tests.support.events import stored_events
from tests.support.world import World
from tonne.platform.db.database import Database
from tonne.platform.values.context import utc_now

UNKNOWN_ESTIMATE = "est_" + "0" * 26


@pytest.mark.parametrize("path", ORDERS)
async def test_a_placed_order_has_every_field(path: str, api: ApiClient) -> None:
    body = (await valid_bodies(api))[path]
    before = utc_now()
    answer = await api.post(path, body | {"idempotency_key": "k", "metadata": {"a": 1}})
    assert answer.status_code == 201
    order = answer.json()
    assert_wire_form(order)
    assert (order["status"], order["currency"], order["payment_method"]) == ("placed", "EUR", "invoice")
    assert (order["idempotency_key"], order["metadata"]) == ("k", {"a": 1})
    assert order["type"] == ("value" if path.endswith("value") else "quantity")
    assert order["estimate_id"] == body.get("estimate_id")
    assert before <= datetime.fromisoformat(order["created_at"]) <= utc_now()
    total, offset = Decimal(order["total_cost"]), Decimal(order["offset_cost"])
    assert total == offset + Decimal(order["commission"])
    assert offset == sum(Decimal(line["offset_cost"]) for line in order["bundles"])
    assert Decimal(order["quantity"]) == sum(Decimal(line["quantity"]) for line in order["bundles"])
    for found in (await api.get(f"/v1/orders/{order['id']}"), await api.by_key("k")):
        assert (found.status_code, found.content) == (200, answer.content)
    page = await api.get("/v1/orders")
    assert page.content == b'{"has_more":false,"next_cursor":null,"data":[' + answer.content + b"]}"


async def test_receiving_and_placing_are_two_events_with_the_order_at_that_time(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    placed = await api.order(metadata={"a": 1.10})
    async with populated_db.connection() as connection:
        events = await stored_events(connection)
    assert [(event.event_type, event.content["data"]["order"]["status"]) for event in events] == [
        ("order.received", "received"),
        ("order.placed", "placed"),
    ]
    assert {event.account_id for event in events} == {world.ours_test.scope.account_id}
    assert {event.subject_id for event in events} == {placed["id"]}
    assert events[0].sequence < events[1].sequence
    assert events[1].document == (await api.get(f"/v1/orders/{placed['id']}")).content


async def test_the_payment_method_is_the_accounts(api: ApiClient, world: World, populated_db: Database) -> None:
    async with populated_db.connection() as connection:
        await connection.execute(
            "UPDATE accounts SET payment_method = 'card' WHERE id = $1", world.ours_test.client_account_id
        )
    answer = await api.post("/v1/orders/by-value", {"value": "5"}, Service_Account=world.ours_test.client_account_id)
    assert answer.json()["payment_method"] == "card"
    assert (await api.order())["payment_method"] == "invoice"


async def test_orders_of_the_vectors_have_their_prices(api: ApiClient, world: World) -> None:
    wind, removal = world.bundles_test["wind-power"], world.bundles_test["durable-removal"]
    for amount, bundle, gross, costs in (
        ("1040", wind, "7.67", ["7176.00", "7976.80", "800.80"]),
        ("0.1", removal, "277.78", ["25.00", "27.78", "2.78"]),
        ("0.000001", wind, "7.67", ["0.00", "0.01", "0.01"]),
    ):
        order = await api.order(mass={"amount": amount, "unit": "t"}, bundle_selection=[{"bundle_id": bundle}])
        assert [order["offset_cost"], order["total_cost"], order["commission"]] == costs
        assert [line["gross_unit_price"] for line in order["bundles"]] == [gross]
        assert order["quantity"] == amount


async def test_an_unknown_estimate_and_one_of_another_account_or_mode_are_refused_alike(
    api: ApiClient, world: World, populated_db: Database
) -> None:
    client = world.ours_test.client_account_id
    mass = {"mass": {"amount": "1", "unit": "t"}}
    foreign = [
        UNKNOWN_ESTIMATE,
        (await api.post("/v1/estimates", mass, Service_Account=client)).json()["id"],
        await api.as_key(world.theirs_test.key).estimate(),
        await api.as_key(world.ours_live.key).estimate(),
        (await api.estimate()).upper(),
        "",
        "🌍",
    ]
    before = await count_rows(populated_db)
    for path in (ORDERS[0], QUOTES[0]):
        texts = set()
        for estimate_id in foreign:
            answer = await api.post(path, {"estimate_id": estimate_id})
            assert (answer.status_code, codes(answer)) == (400, ["estimate_not_found"]), estimate_id
            assert fields(answer) == ["estimate_id"]
            texts.add(answer.text.replace(answer.headers["x-request-id"], ""))
        assert len(texts) == 1
    assert await count_rows(populated_db) == before


async def test_an_estimate_id_of_another_type_is_refused(api: ApiClient) -> None:
    not_strings: list[Any] = [5, 1.5, True, [], {}, ["est"]]
    for estimate_id in not_strings:
        answer = await api.post("/v1/orders/by-estimate", {"estimate_id": estimate_id})
        assert (answer.status_code, codes(answer)) == (400, ["validation_error"])
        assert fields(answer) == ["estimate_id"]


@pytest.mark.parametrize(
    ("amount", "unit", "tonnes"),
    [
        ("1040", "t", "1040"),
        ("1.105697", "t", "1.105697"),
        ("1.1056979", "t", "1.105697"),
        ("1105.697", "kg", "1.105697"),
        ("1105697.999", "g", "1.105697"),
        ("1", "g", "0.000001"),
        ("0.000001", "t", "0.000001"),
        ("10.500000", "t", "10.5"),
        ("0100", "kg", "0.1"),
        ("100000000", "t", "100000000"),
    ],
)
async def test_a_mass_in_any_unit_is_cut_to_whole_grams(amount: str, unit: str, tonnes: str, api: ApiClient) -> None:
    order = await api.order(mass={"amount": amount, "unit": unit})
    assert order["quantity"] == order["requested_quantity"] == tonnes
    estimate = (await api.post("/v1/estimates", {"mass": {"amount": amount, "unit": unit}})).json()
    assert estimate["quantity"] == tonnes


async def test_a_mass_may_be_a_json_number(api: ApiClient) -> None:
    answer = await api.post_raw("/v1/orders/by-mass", b'{"mass":{"amount":1.105697,"unit":"t"}}')
    assert answer.json()["quantity"] == "1.105697"
