"""An order that cannot be priced is received, and is placed or fails later. Every transition has one event."""

from datetime import timedelta

import pytest

from tests.platform.http.writes import count_rows
from tests.selling.orders.wire import assert_wire_form
from tests.support.api_client import ApiClient, codes
from tests.support.clock import START, ManualClock
from tests.support.events import stored_events
from tests.support.world import TESTER, World, open_tenant
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode, to_wire
from tonne.selling.catalogue.bundle_store import switch_bundle
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.supply.stock.lots.import_lots import import_files

UNIT_OF_WAITING = timedelta(seconds=31)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START + timedelta(days=1))


@pytest.fixture
async def norwegian(api: ApiClient, world: World, populated_db: Database) -> ApiClient:
    """A client of an account in NOK, for which the catalogue has no exchange rate."""
    async with populated_db.transaction() as tx:
        tenant = await open_tenant(tx, world.ours_test.scope.organisation_id, Mode.TEST, "NOK")
    return api.as_key(tenant.key)


async def import_rate(database: Database) -> None:
    content = b"base,quote,rate,source,as_of\nEUR,NOK,11.80,bank,2026-11-01T08:00:00Z\n"
    async with database.transaction() as tx:
        files = {FileKind.EXCHANGE_RATES: SheetFile("rates.csv", content)}
        await import_files(tx, Mode.TEST, files, by=TESTER.at(START + timedelta(days=1)))


async def events_of(database: Database, order_id: str) -> list[tuple[str, str]]:
    """Type and order document of each, in order."""
    async with database.connection() as connection:
        events = await stored_events(connection, order_id)
    return [(event.event_type, event.document.decode()) for event in events]


async def run_all(services: Services) -> int:
    count = 0
    while await services.price_waiting.run_once():
        count += 1
    return count


async def test_without_an_exchange_rate_an_order_is_received_and_waits(
    norwegian: ApiClient, populated_db: Database
) -> None:
    estimate_id = await norwegian.estimate()
    for path, body in {
        "/v1/orders/by-estimate": {"estimate_id": estimate_id},
        "/v1/orders/by-mass": {"mass": {"amount": "1", "unit": "t"}},
        "/v1/orders/by-value": {"value": "100.00"},
    }.items():
        answer = await norwegian.post(path, body)
        assert answer.status_code == 201
        order = answer.json()
        assert_wire_form(order)
        assert (order["status"], order["currency"]) == ("received", "NOK")
        assert await events_of(populated_db, order["id"]) == [("order.received", answer.text)]
        assert (await norwegian.get(f"/v1/orders/{order['id']}")).content == answer.content


async def test_without_an_exchange_rate_a_quote_is_refused_and_an_estimate_has_none(
    norwegian: ApiClient, populated_db: Database
) -> None:
    estimate = await norwegian.post("/v1/estimates", {"mass": {"amount": "1", "unit": "t"}})
    assert (estimate.status_code, estimate.json()["quote"]) == (201, None)
    before = await count_rows(populated_db)
    for path, body in {
        "/v1/orders/by-estimate/quote": {"estimate_id": estimate.json()["id"]},
        "/v1/orders/by-mass/quote": {"mass": {"amount": "1", "unit": "t"}},
        "/v1/orders/by-value/quote": {"value": "100.00"},
    }.items():
        answer = await norwegian.post(path, body)
        assert (answer.status_code, codes(answer)) == (409, ["price_unavailable"])
    assert await count_rows(populated_db) == before
    bundles = (await norwegian.get("/v1/bundles")).json()["data"]
    assert {(bundle["unit_price"], bundle["gross_unit_price"]) for bundle in bundles} == {(None, None)}


async def test_an_invalid_request_is_refused_even_without_a_price(norwegian: ApiClient, populated_db: Database) -> None:
    before = await count_rows(populated_db)
    for body, code in (
        ({"bundle_selection": [{"bundle_id": "bun_unknown"}]}, "bundle_selection_bundle_invalid"),
        ({"bundle_selection": []}, "bundle_selection_ratios_invalid"),
        ({"value": "0.001"}, "order_value_invalid"),
    ):
        answer = await norwegian.post("/v1/orders/by-value", {"value": "5", **body})
        assert (answer.status_code, codes(answer)) == (400, [code])
    assert await count_rows(populated_db) == before


async def test_a_waiting_order_is_placed_once_there_is_a_rate(
    norwegian: ApiClient, services: Services, clock: ManualClock, world: World
) -> None:
    bundle = world.bundles_test["forest-mix"]
    selection = [{"bundle_id": bundle, "percentage": "100.00"}]
    received = await norwegian.order(idempotency_key="k", bundle_selection=selection, metadata={"a": [1.10]})
    by_value = (await norwegian.post("/v1/orders/by-value", {"value": "100.00"})).json()
    await import_rate(services.database)
    assert await run_all(services) == 0, "not due yet"
    clock.now += UNIT_OF_WAITING
    assert await run_all(services) == 2
    answer = await norwegian.get(f"/v1/orders/{received['id']}")
    placed = answer.json()
    assert_wire_form(placed)
    assert (placed["status"], placed["created_at"]) == ("placed", received["created_at"])
    assert (placed["quantity"], placed["requested_quantity"], placed["metadata"]) == ("1", "1", {"a": [1.1]})
    # 12.65 EUR at 11.80 is 149.27 NOK; over 0.9 that is 165.86.
    assert [line["bundle_id"] for line in placed["bundles"]] == [bundle]
    assert (placed["offset_cost"], placed["total_cost"], placed["commission"]) == ("149.27", "165.86", "16.59")
    events = await events_of(services.database, received["id"])
    assert [name for name, _ in events] == ["order.received", "order.placed"]
    assert events[1][1] == answer.text
    assert (await norwegian.by_key("k")).content == answer.content
    later = (await norwegian.get(f"/v1/orders/{by_value['id']}")).json()
    assert_wire_form(later)
    assert float(later["total_cost"]) <= float(later["requested_value"]) == 100
    assert await run_all(services) == 0, "nothing waits any more"


async def test_a_waiting_order_is_retried_and_then_fails(
    norwegian: ApiClient, services: Services, clock: ManualClock
) -> None:
    received = await norwegian.order()
    for _ in range(3):
        clock.now += UNIT_OF_WAITING
        assert await run_all(services) == 1
    assert [name for name, _ in await events_of(services.database, received["id"])] == ["order.received"]
    clock.now += timedelta(seconds=services.settings.pricing_give_up_s)
    assert await run_all(services) == 1
    answer = await norwegian.get(f"/v1/orders/{received['id']}")
    assert_wire_form(answer.json())
    assert answer.json() == received | {"status": "failed", "failure_reason": "price_unavailable"}
    events = await events_of(services.database, received["id"])
    assert [name for name, _ in events] == ["order.received", "order.failed"]
    assert events[1][1] == answer.text
    await import_rate(services.database)
    clock.now += UNIT_OF_WAITING
    assert await run_all(services) == 0, "a failed order stays failed"


async def test_a_repeat_of_a_waiting_order_returns_its_current_state(norwegian: ApiClient, services: Services) -> None:
    received = await norwegian.order(idempotency_key="k")
    again = await norwegian.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}, "idempotency_key": "k"})
    assert (again.status_code, again.json()) == (200, received)
    assert len(await events_of(services.database, received["id"])) == 1


async def test_a_default_that_is_no_longer_on_sale_makes_orders_wait_until_it_is_again(
    api: ApiClient, services: Services, clock: ManualClock, world: World
) -> None:
    bundle = world.bundles_test["forest-mix"]
    async with services.database.transaction() as tx:
        await switch_bundle(tx, bundle, enabled=False, by=TESTER.now())
    received = await api.order()
    assert received["status"] == "received"
    assert codes(await api.post("/v1/orders/by-value/quote", {"value": "5"})) == ["price_unavailable"]
    selection = [{"bundle_id": world.bundles_test["wind-power"]}]
    assert (await api.order(bundle_selection=selection))["status"] == "placed"
    clock.now += UNIT_OF_WAITING
    assert await run_all(services) == 1
    async with services.database.transaction() as tx:
        await switch_bundle(tx, bundle, enabled=True, by=TESTER.now())
    clock.now += UNIT_OF_WAITING
    assert await run_all(services) == 1
    placed = (await api.get(f"/v1/orders/{received['id']}")).json()
    assert placed["status"] == "placed"
    assert bundle in {line["bundle_id"] for line in placed["bundles"]}


async def test_a_waiting_order_whose_chosen_bundle_is_gone_fails_at_once(
    norwegian: ApiClient, services: Services, clock: ManualClock, world: World
) -> None:
    bundle = world.bundles_test["wind-power"]
    received = await norwegian.order(bundle_selection=[{"bundle_id": bundle}])
    async with services.database.transaction() as tx:
        await switch_bundle(tx, bundle, enabled=False, by=TESTER.now())
    await import_rate(services.database)
    clock.now += UNIT_OF_WAITING
    assert await run_all(services) == 1
    assert (await norwegian.get(f"/v1/orders/{received['id']}")).json()["status"] == "failed"


async def test_the_clock_of_orders_is_the_one_given(api: ApiClient, clock: ManualClock) -> None:
    assert (await api.order())["created_at"] == to_wire(clock.now)
