"""Stories of an operator: a month with a limit, and an account that is closed while orders are open."""

from datetime import UTC, datetime

import msgspec
import pytest

from tests.support.api_client import ApiClient, codes
from tests.support.clock import ManualClock
from tests.support.command import Operator
from tests.support.scene import Scene
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings

TONNE = {"mass": {"amount": "1", "unit": "t"}}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, key_refresh_s=0.0, **SELLER)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(datetime(2026, 11, 2, 9, 0, tzinfo=UTC))


@pytest.fixture
def operator(services: Services) -> Operator:
    return Operator(services.database._url, secret_key=services.settings.secret_key)


async def test_a_month_with_a_limit_that_is_reached_and_resets(
    api: ApiClient, operator: Operator, services: Services, world: World, clock: ManualClock
) -> None:
    account_id = world.ours_test.scope.account_id
    operator.does("account", "update", account_id, "--monthly-limit", "40.00")
    placed = []
    for day in (2, 9, 16):
        clock.turn_to(11, day)
        placed.append(await api.order())
    clock.turn_to(11, 23)
    refused = await api.post("/v1/orders/by-mass", TONNE)
    assert (refused.status_code, codes(refused)) == (403, ["spending_limit_reached"])
    assert "37.86 EUR are spent in 2026-11" in refused.json()["error"]["message"]
    assert "2026-12-01T00:00:00.000Z" in refused.json()["error"]["message"]
    # The client cancels one of the orders, and orders again.
    assert (await api.post(f"/v1/orders/{placed[1]['id']}/cancel", {})).status_code == 200
    await api.order()
    assert codes(await api.post("/v1/orders/by-mass", TONNE)) == ["spending_limit_reached"]
    clock.now = datetime(2026, 11, 30, 23, 59, 59, 999_000, tzinfo=UTC)
    assert codes(await api.post("/v1/orders/by-mass", TONNE)) == ["spending_limit_reached"]
    clock.now = datetime(2026, 12, 1, 0, 0, tzinfo=UTC)
    for _ in range(3):
        await api.order()
    assert codes(await api.post("/v1/orders/by-mass", TONNE)) == ["spending_limit_reached"]
    await Scene(services, clock).check_invariants()


async def test_an_account_is_closed_and_its_open_orders_finish(
    api: ApiClient, operator: Operator, services: Services, world: World, clock: ManualClock
) -> None:
    ours, scene = world.ours_live, Scene(services, clock)
    selection = [{"bundle_id": world.bundles_live["forest-mix"]}]
    live = api.as_key(ours.key)
    open_order = await live.order(bundle_selection=selection)
    await scene.run_jobs(services.issue_invoices)
    reference = operator.facts("order", "show", open_order["id"])["invoice"].partition(",")[0]
    operator.does("account", "close", ours.scope.account_id, "--reason", "The contract ended")
    assert codes(await live.post("/v1/orders/by-mass", {**TONNE, "bundle_selection": selection})) == ["account_closed"]
    clock.turn_to(11, 20)
    operator.does("invoice", "settle", reference, "--note", "paid on 20 November")
    await services.allocate_orders.run_once()
    facts = operator.facts("order", "show", open_order["id"])
    assert (facts["status"], facts["money"]) == ("retiring", "paid")
    async with services.database.connection() as connection:
        parcels = await connection.fetchval("SELECT count(*) FROM parcels WHERE status IN ('to_retire', 'open')")
        events = await connection.fetch(
            "SELECT event_type FROM events WHERE subject_id = $1 ORDER BY position", open_order["id"]
        )
    assert parcels > 0, "what is left to retire is on the work list"
    assert [row["event_type"] for row in events][-2:] == ["order.paid", "order.retiring"]
    operator.does("account", "reopen", ours.scope.account_id)
    await live.order(bundle_selection=selection)
    await scene.check_invariants()
