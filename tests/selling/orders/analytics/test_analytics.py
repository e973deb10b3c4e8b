"""Analytics equal the orders at any time, folded or not, and show nothing of others."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.orders import bring_to
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.selling.estimates.fold_counts import FoldEstimateCounts
from tonne.selling.orders.model import OrderStatus
from tonne.selling.orders.totals.fold_totals import FoldTotals
from tonne.selling.orders.totals.metadata_totals import CountMetadata

NAMES = (
    "the totals of accounts match the orders",
    "the totals of bundles and projects match the orders",
    "the totals of metadata match the orders",
    "the numbers of estimates match the estimates",
)


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


async def fold(scene: Scene) -> None:
    await scene.run_jobs(FoldTotals(scene.database), FoldEstimateCounts(scene.database), CountMetadata(scene.database))


async def miscounted(scene: Scene) -> dict[str, list[str]]:
    breaches = await scene.breaches()
    return {name: breaches[name] for name in NAMES if breaches.get(name)}


async def read(api: ApiClient, path: str, **headers: str) -> Any:
    answer = await api.get(f"/v1/analytics/{path}", **headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def complete_all(services: Services) -> None:
    for job in (services.issue_invoices, services.follow_up_invoices, services.follow_up_invoices):
        await job.run_once()
    await services.allocate_orders.run_once()


async def name_keys(api: ApiClient, *keys: str) -> Any:
    answer = await api.http.put("/v1/analytics/metadata-keys", json={"keys": keys}, headers=api._headers({}))
    assert answer.status_code == 200, answer.text
    return answer.json()["keys"]


def total(rows: list[dict[str, Any]], name: str) -> Decimal:
    return sum((Decimal(row[name]) for row in rows), Decimal(0))


async def test_every_view_sums_up_to_the_orders(scene: Scene, api: ApiClient, world: World) -> None:
    wind, forest = world.bundles_test["wind-power"], world.bundles_test["forest-mix"]
    both = [{"bundle_id": wind, "percentage": "30"}, {"bundle_id": forest, "percentage": "70"}]
    await name_keys(api, "team", "trip")
    done = [
        await api.order(mass={"amount": "10", "unit": "t"}, bundle_selection=both, metadata={"team": "red", "trip": 7}),
        await api.order(bundle_selection=[{"bundle_id": wind}], metadata={"team": "blue", "n": [1]}),
    ]
    await complete_all(scene.services)
    await fold(scene)
    waiting = await api.order(mass={"amount": "2.5", "unit": "t"}, bundle_selection=both, metadata={"team": "red"})
    cancelled = await api.order(metadata={"team": "red"})
    assert (await api.post(f"/v1/orders/{cancelled['id']}/cancel", {})).status_code == 200
    theirs = await api.as_key(world.theirs_test.key).order(metadata={"team": "red"})
    beside = await api.post(
        "/v1/orders/by-mass", {"mass": {"amount": "3", "unit": "t"}}, Service_Account=world.ours_test.client_account_id
    )
    assert theirs["quantity"] == "1"
    orders = [*done, waiting]
    for is_folded in (False, True):
        if is_folded:
            await fold(scene)
        assert await miscounted(scene) == {}
        [whole] = (await read(api, "orders"))["data"]
        expected = {
            name: str(sum(Decimal(order[name]) for order in orders))
            for name in ("offset_cost", "commission", "total_cost", "tax")
        }
        assert {name: whole[name] for name in expected} == expected
        assert (whole["orders"], whole["quantity"], whole["refunded"], whole["month"]) == (3, "13.5", "0.00", None)
        by_bundle = (await read(api, "orders?group_by=bundle"))["data"]
        assert {row["bundle_id"]: (row["orders"], row["quantity"]) for row in by_bundle} == {
            wind: (3, "4.75"),
            forest: (2, "8.75"),
        }
        for grouping in ("bundle", "project", "month&group_by=bundle&group_by=project&group_by=account"):
            rows = (await read(api, f"orders?group_by={grouping}"))["data"]
            assert total(rows, "quantity") == Decimal("13.5")
            assert total(rows, "offset_cost") == Decimal(whole["offset_cost"])
            assert all(row["total_cost"] is None for row in rows)
        by_project = {row["project_name"]: row for row in (await read(api, "orders?group_by=project"))["data"]}
        assert (by_project["Not yet allocated"]["orders"], by_project["Not yet allocated"]["quantity"]) == (1, "2.5")
        assert by_project["Not yet allocated"]["project_id"] is None
        by_team = (await read(api, "orders?group_by=metadata[team]"))["data"]
        assert [(row["metadata_value"], row["orders"], row["quantity"]) for row in by_team] == [
            ("blue", 1, "1"),
            ("red", 2, "12.5"),
        ]
        assert total(by_team, "total_cost") == Decimal(whole["total_cost"])
        by_trip = (await read(api, "orders?group_by=metadata[trip]"))["data"]
        assert [(row["metadata_value"], row["orders"]) for row in by_trip] == [("7", 1), (None, 2)]
        [red] = (await read(api, "orders?metadata[team]=red&group_by=month"))["data"]
        assert (red["orders"], red["quantity"], red["metadata_value"]) == (2, "12.5", None)
        accounts = (await read(api, "orders?all_accounts=true&group_by=account"))["data"]
        assert {row["account_id"]: row["quantity"] for row in accounts} == {
            world.ours_test.scope.account_id: "13.5",
            world.ours_test.client_account_id: beside.json()["quantity"],
        }
        aggregated = await read(api, "aggregated-by-property")
        for name in ("bundle", "location", "registry", "offset_type"):
            assert total(aggregated[name], "quantity") == Decimal("13.5"), name
            assert total(aggregated[name], "value") == Decimal(whole["offset_cost"]), name
        places = {row["location"]: row["quantity"] for row in aggregated["location"]}
        assert places["Not yet allocated"] == "2.5"
        assert {"Africa", "Asia"} <= places.keys()
        # Wind farms that are not allocated yet have one type; the forest mix has several.
        assert total(aggregated["oxford_offsetting_principles"], "quantity") == Decimal("11.75")
        await check_metrics(api, len(by_project) - 1, (wind, forest))


async def check_metrics(api: ApiClient, projects: int, bundles: tuple[str, str]) -> None:
    metrics = await read(api, "metrics")
    assert metrics["number_of_projects"] == projects
    assert metrics["number_of_un_sdgs"] == len(metrics["un_sdg"])
    assert [each["un_sdg_number"] for each in metrics["un_sdg"]] == sorted(
        {each["un_sdg_number"] for each in metrics["un_sdg"]}
    )
    cumulative = await read(api, "cumulative-per-bundle")
    assert {each["bundle_id"]: each["timeseries"][-1]["quantity"] for each in cumulative} == {
        bundles[0]: "4.75",
        bundles[1]: "8.75",
    }
    assert all(len(each["timeseries"]) == 31 for each in cumulative)


async def test_orders_count_on_the_day_of_their_creation(scene: Scene, api: ApiClient, world: World) -> None:
    """Through random changes, folded in between, the sums of every day equal the orders."""
    scope = world.ours_test.scope
    at = datetime(2026, 3, 1, 0, 30, tzinfo=UTC)
    for number, status in enumerate([*OrderStatus, *OrderStatus]):
        await bring_to(scene.services, scope, status, at - timedelta(hours=number * 7))
        if number == 6:
            await fold(scene)
    expected: defaultdict[str, int] = defaultdict(int)
    for row in await scene.fetch(
        "SELECT created_at, quantity_grams FROM orders WHERE account_id = $1 AND status IN ('placed', 'paid')",
        scope.account_id,
    ):
        expected[f"{row['created_at'].astimezone(UTC):%Y-%m}"] += row["quantity_grams"]
    assert set(expected) == {"2026-02"}
    path = "orders?from=2026-02-01&through=2026-03-01&group_by=month"
    months = {row["month"]: row for row in (await read(api, path))["data"]}
    assert set(months) == {"2026-02", "2026-03"}
    assert sum(row["orders"] for row in months.values()) == 10
    [bundle, *_] = await read(api, "cumulative-per-bundle?from=2026-02-01&through=2026-02-28")
    assert bundle["timeseries"][0] == {"date": "2026-02-01", "quantity": "0", "value": "0.00"}
    series = await read(api, "cumulative-per-bundle?from=2026-02-01&through=2026-03-01")
    grams = sum(int(Decimal(each["timeseries"][-1]["quantity"]) * 1_000_000) for each in series)
    assert grams == sum(expected.values())
    assert await miscounted(scene) == {}
    await fold(scene)
    assert await miscounted(scene) == {}


async def test_refunds_are_shown_and_not_subtracted(scene: Scene, api: ApiClient) -> None:
    order = await api.order()
    await complete_all(scene.services)
    await fold(scene)
    await scene.execute("UPDATE orders SET refunded_minor = 150 WHERE id = $1", order["id"])
    [row] = (await read(api, "orders"))["data"]
    assert (row["refunded"], row["total_cost"], row["orders"]) == ("1.50", order["total_cost"], 1)


async def test_estimates_are_counted(scene: Scene, api: ApiClient, world: World) -> None:
    await api.estimate()
    await fold(scene)
    await api.estimate()
    client = world.ours_test.client_account_id
    mass = {"mass": {"amount": "1", "unit": "t"}}
    assert (await api.post("/v1/estimates", mass, Service_Account=client)).status_code == 201
    assert (await api.as_key(world.theirs_test.key).post("/v1/estimates", mass)).status_code == 201
    series = (await read(api, "emission-calculations"))["timeseries"]
    assert (len(series), sum(each["count"] for each in series), series[-1]["count"]) == (31, 2, 2)
    of_all = (await read(api, "emission-calculations?all_accounts=true&interval=month"))["timeseries"]
    assert sum(each["count"] for each in of_all) == 3
    assert {each["date"][-2:] for each in of_all} == {"01"}
    assert await miscounted(scene) == {}


async def test_earlier_orders_are_counted_for_a_new_key(scene: Scene, api: ApiClient, world: World) -> None:
    for team in ("red", "blue", "red"):
        await api.order(metadata={"team": team})
    # One is folded, and has changes that are not.
    await fold(scene)
    await complete_all(scene.services)
    assert await name_keys(api, "team") == [{"key": "team", "is_ready": False}]
    answer = await api.get("/v1/analytics/orders?group_by=metadata[team]")
    assert (answer.status_code, codes(answer)) == (409, ["analytics_metadata_key_not_ready"])
    await scene.run_jobs(CountMetadata(scene.database))
    later = await api.order(metadata={"team": "green"})
    for _ in range(2):
        assert await miscounted(scene) == {}
        rows = (await read(api, "orders?group_by=metadata[team]"))["data"]
        assert [(row["metadata_value"], row["orders"]) for row in rows] == [("blue", 1), ("green", 1), ("red", 2)]
        await fold(scene)
    assert await name_keys(api, "team") == [{"key": "team", "is_ready": True}]
    assert (await api.post(f"/v1/orders/{later['id']}/cancel", {})).status_code == 200
    rows = (await read(api, "orders?group_by=metadata[team]"))["data"]
    assert [row["metadata_value"] for row in rows] == ["blue", "red"]
    # Keys belong to the account.
    answer = await api.as_key(world.theirs_test.key).get("/v1/analytics/orders?group_by=metadata[team]")
    assert (answer.status_code, codes(answer)) == (400, ["analytics_metadata_key_unknown"])
    assert await name_keys(api) == []
    assert await scene.fetchval("SELECT count(*) FROM metadata_totals") == 0


async def test_bad_queries_say_what_to_do(api: ApiClient) -> None:
    await name_keys(api, "team", "trip")
    bad = [
        ("metrics?from=2026-02-02&through=2026-02-01", "time_range_invalid", "from"),
        ("metrics?from=yesterday", "time_range_invalid", "from"),
        ("metrics?through=20260201", "time_range_invalid", "through"),
        ("metrics?from=2020-01-01&through=2026-01-01", "time_range_invalid", "from"),
        ("metrics?through=0001-01-01", "time_range_invalid", "through"),
        ("emission-calculations?interval=week", "validation_error", "interval"),
        ("emission-calculations?all_accounts=1", "validation_error", "all_accounts"),
        ("orders?group_by=year", "analytics_grouping_invalid", "group_by"),
        ("orders?group_by=month&group_by=month", "analytics_grouping_invalid", "group_by"),
        ("orders?group_by=bundle&group_by=metadata[team]", "analytics_grouping_invalid", "group_by"),
        ("orders?group_by=metadata[trip]&metadata[team]=red", "analytics_grouping_invalid", "group_by"),
        ("orders?metadata[other]=red", "analytics_metadata_key_unknown", None),
        ("orders?groupby=month", "validation_error", "groupby"),
    ]
    for path, code, field in bad:
        answer = await api.get(f"/v1/analytics/{path}")
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), path
    for keys in (["a"] * 2, ["a", "b", "c", "d", "e", "f"], [""], [1], "team", ["x" * 101]):
        answer = await api.http.put("/v1/analytics/metadata-keys", json={"keys": keys}, headers=api._headers({}))
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], ["keys"]), keys


async def test_a_key_for_one_account_sees_no_other(scene: Scene, api: ApiClient, world: World) -> None:
    await api.order()
    client = world.ours_test.client_account_id
    assert (
        await api.post("/v1/orders/by-mass", {"mass": {"amount": "3", "unit": "t"}}, Service_Account=client)
    ).is_success
    await scene.execute(
        "UPDATE api_keys SET account_ids = ARRAY [$2] WHERE id = $1",
        world.ours_test.key_id,
        world.ours_test.scope.account_id,
    )
    await scene.execute("UPDATE api_keys SET permissions = '{analytics:read}' WHERE id = $1", world.ours_test.key_id)
    [row] = (await read(api, "orders?all_accounts=true"))["data"]
    assert (row["orders"], row["quantity"]) == (1, "1")
