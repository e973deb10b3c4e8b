"""Filters of the list of orders."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.api_client import ApiClient, codes, fields
from tests.support.clock import START, ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Clock, to_wire
from tonne.selling.orders import filter_store


@pytest.fixture
def clock() -> Clock:
    return ManualClock(START)


async def found(api: ApiClient, more: dict[str, str] | None = None, *, limit: int = 100, **query: str) -> list[str]:
    """The ids of all orders that match, over all pages."""
    ids: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await api.get(f"/v1/orders?{urlencode({**(more or {}), **query, **cursor, 'limit': str(limit)})}")
        assert answer.status_code == 200, answer.text
        page = answer.json()
        ids += [order["id"] for order in page["data"]]
        if not page["has_more"]:
            return ids
        cursor = {"after": page["next_cursor"]}


async def test_filters_select_and_combine(api: ApiClient, services: Services, world: World, clock: ManualClock) -> None:
    first, second, *_ = world.bundles_test.values()
    estimate = await api.estimate()
    plain = (await api.order(bundle_selection=[{"bundle_id": first}], metadata={"invoice": "A-17", "n": 1}))["id"]
    clock.advance(hours=1)
    by_estimate = {"estimate_id": estimate, "bundle_selection": [{"bundle_id": second}]}
    of_estimate = (await api.post("/v1/orders/by-estimate", by_estimate)).json()["id"]
    clock.advance(hours=1)
    both = (
        await api.order(
            bundle_selection=[{"bundle_id": first}, {"bundle_id": second}],
            metadata={"invoice": "A-17", "big": 1e300, "ö]": "ü&", "nested": {"a": [1]}},
        )
    )["id"]
    cancelled = (await api.order(bundle_selection=[{"bundle_id": second}]))["id"]
    await api.post(f"/v1/orders/{cancelled}/cancel", {})
    others = api.as_key(world.theirs_test.key)
    await others.order(metadata={"invoice": "A-17"})

    assert await found(api, status="placed") == [both, of_estimate, plain]
    assert await found(api, status="cancelled") == [cancelled]
    assert await found(api, status="complete") == []
    assert await found(api, estimate_id=estimate) == [of_estimate]
    assert await found(others, estimate_id=estimate) == []
    assert await found(api, bundle_id=first, status="placed", limit=1) == [both, plain]
    assert await found(api, bundle_id="bun_x") == []
    assert await found(api, {"metadata[invoice]": "A-17"}) == [both, plain]
    assert await found(api, {"metadata[invoice]": "A-17", "metadata[n]": "1"}) == [plain]
    assert await found(api, {"metadata[ö]]": "ü&"}, bundle_id=second) == [both]
    assert await found(api, {"metadata[missing]": ""}) == []
    assert await found(api, created_after=to_wire(START + timedelta(hours=1)), status="placed") == [both, of_estimate]
    assert await found(api, created_before=to_wire(START + timedelta(hours=1))) == [plain]
    after, before = (START + timedelta(hours=1)).isoformat(), (START + timedelta(hours=2)).isoformat()
    assert await found(api, created_after=after, created_before=before, limit=1) == [of_estimate]
    assert await found(api, created_after=str((START + timedelta(days=1)).date())) == []
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE orders SET status = 'complete' WHERE id = $1", plain)
    assert await found(api, {"metadata[invoice]": "A-17"}, status="complete") == [plain]


async def test_a_page_reads_a_bounded_number_of_orders(
    api: ApiClient, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    """With 2 rows read per page instead of 10,000: pages may be empty, and the cursor goes on."""
    for name in ("LIST_OF_ACCOUNT", "LIST_OF_STATUS"):
        statement: str = getattr(filter_store, name)
        monkeypatch.setattr(filter_store, name, statement.replace(str(filter_store.SCANNED), "2"))
    monkeypatch.setattr(filter_store, "SCANNED", 2)
    placed: list[dict[str, Any]] = []
    for number in range(7):
        placed.append(await api.order(metadata={"is": "wanted" if number in {0, 5} else "other"}))
        clock.advance(milliseconds=1)
    requested = [placed[5]["id"], placed[0]["id"]]
    for limit in (1, 2, 100):
        assert await found(api, {"metadata[is]": "wanted"}, limit=limit) == requested
        assert await found(api, {"metadata[is]": "wanted"}, limit=limit, status="placed") == requested
    first = (await api.get(f"/v1/orders?{urlencode({'metadata[is]': 'none'})}")).json()
    assert (first["data"], first["has_more"]) == ([], True)


async def test_wrong_filters_are_refused(api: ApiClient) -> None:
    for query, code, field in (
        ({"status": "done"}, "validation_error", "status"),
        ({"created_after": "yesterday"}, "time_range_invalid", "created_after"),
        ({"created_before": "2026-13-01"}, "time_range_invalid", "created_before"),
        ({"created_after": "2026-11-02", "created_before": "2026-11-02"}, "time_range_invalid", "created_after"),
        ({"metadata[]": "x"}, "validation_error", "metadata[]"),
        ({"metadata": "x"}, "validation_error", "metadata"),
        ({"meta[a]": "x"}, "validation_error", "meta[a]"),
        ({"metadata[a]": "x\0"}, "validation_error", "metadata[a]"),
        ({f"metadata[{i}]": "x" for i in range(6)}, "validation_error", "metadata"),
    ):
        answer = await api.get(f"/v1/orders?{urlencode(query)}")
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), query
    await api.order()
    await api.order()
    cursor = (await api.get("/v1/orders?limit=1&status=placed")).json()["next_cursor"]
    answer = await api.get(f"/v1/orders?status=paid&after={cursor}")
    assert codes(answer) == ["pagination_cursor_invalid"], "a cursor belongs to its filters"


async def test_the_filter_by_bundle_looks_up_the_lines_of_each_order(
    api: ApiClient, services: Services, world: World
) -> None:
    """With many orders the planner must not read the lines of all orders of all accounts into a hash table."""
    await api.order()
    scope, nothing = world.ours_test.scope, (None,) * 3
    parameters = (START, "", START - timedelta(days=9), 21, *nothing, "bun_x", None, None, None, None)
    async with services.database.transaction() as tx:
        # Looking up a line is made expensive, as it seems to the planner with millions of orders.
        await tx.execute("SET LOCAL random_page_cost = 1000")
        plan = await tx.fetch(f"EXPLAIN VERBOSE {filter_store.LIST_OF_ACCOUNT}", scope.account_id, *parameters)
    text = "\n".join(line[0] for line in plan)
    assert "order_lines" in text
    assert "hashed SubPlan" not in text, text
