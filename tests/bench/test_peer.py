"""The peer of `python -m bench peer` does what Tonne does: the same requests get the same documents."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.conftest import Server
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services

BODY = {"idempotency_key": "flight 7/2026", "metadata": {"invoice": "A-17", "cost_centre": 4711}}


@pytest.fixture
async def estimate_id(api: ApiClient) -> str:
    return await api.estimate()


@pytest.fixture
async def orders(api: ApiClient, estimate_id: str) -> list[dict[str, Any]]:
    """Three orders that both services have."""
    bodies = [{"estimate_id": estimate_id, "idempotency_key": f"before {n}", "metadata": {"n": n}} for n in range(3)]
    return [(await api.post("/v1/orders/by-estimate", body)).json() for body in bodies]


@pytest.fixture
async def peer(
    server: Server, services: Services, world: World, orders: list[dict[str, Any]]
) -> AsyncIterator[ApiClient]:
    # Every test process would import FastAPI and SQLAlchemy for a second.
    from bench.peer import fill  # noqa: PLC0415
    from bench.peer.app import create_app  # noqa: PLC0415

    name = await server.clone_of("template0")
    await fill.create_tables(server.url(name))
    tenants = [(world.ours_test.scope, world.ours_test.key), (world.theirs_test.scope, world.theirs_test.key)]
    async with server.connection(name) as connection, services.database.connection() as tonne:
        assert await tonne.fetchval("SELECT count(*) FROM orders") == len(orders)
        accounts = await fill.copy_tenants(services, tenants, connection)
        await fill.copy_orders(tonne, connection, accounts)
    app = create_app(server.url(name))
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://peer.test") as client,
    ):
        yield ApiClient(client, world.ours_test.key)
    await server.drop(name)


def but(document: dict[str, Any], *own: str) -> list[tuple[str, Any]]:
    """The members in their order, without those that every order has of its own."""
    return [(name, value) for name, value in document.items() if name not in own]


@pytest.mark.parametrize("percentages", [None, ["37.5", "62.5"], [None, None]])
async def test_a_new_order_is_priced_and_shown_alike(
    api: ApiClient, peer: ApiClient, estimate_id: str, world: World, percentages: list[str | None] | None
) -> None:
    body: dict[str, Any] = {"estimate_id": estimate_id, **BODY}
    if percentages is not None:
        slugs = ("wind-power", "living-soil")
        body["bundle_selection"] = [
            {"bundle_id": world.bundles_test[slug], "percentage": percentage}
            for slug, percentage in zip(slugs, percentages, strict=True)
        ]
    ours, theirs = [await one.post("/v1/orders/by-estimate", body) for one in (api, peer)]
    assert ours.status_code == theirs.status_code == 201
    assert but(ours.json(), "id", "created_at") == but(theirs.json(), "id", "created_at")
    assert len(ours.content) == len(theirs.content)


async def test_reads_and_pages_are_byte_for_byte_equal(
    api: ApiClient, peer: ApiClient, orders: list[dict[str, Any]]
) -> None:
    for order in orders:
        ours, theirs = [await one.by_key(order["idempotency_key"]) for one in (api, peer)]
        assert ours.content == theirs.content
    ours, theirs = [await one.get("/v1/orders?limit=100") for one in (api, peer)]
    assert ours.content == theirs.content


async def test_pages_follow_each_other(peer: ApiClient, orders: list[dict[str, Any]]) -> None:
    first = (await peer.get("/v1/orders?limit=2")).json()
    second = (await peer.get(f"/v1/orders?limit=2&after={first['next_cursor']}")).json()
    assert [order["id"] for order in first["data"] + second["data"]] == [order["id"] for order in reversed(orders)]
    assert (first["has_more"], second["has_more"], second["next_cursor"]) == (True, False, None)


async def test_a_used_key_is_replayed(api: ApiClient, peer: ApiClient, estimate_id: str) -> None:
    body = {"estimate_id": estimate_id, **BODY}
    for one in (api, peer):
        placed = await one.post("/v1/orders/by-estimate", body)
        again = await one.post("/v1/orders/by-estimate", body)
        other = await one.post("/v1/orders/by-estimate", {**body, "metadata": {}})
        assert (again.status_code, again.content) == (200, placed.content)
        assert again.headers["idempotent-replayed"] == "true"
        assert "idempotency-mismatch" not in again.headers
        assert (other.status_code, other.content) == (200, placed.content)
        assert other.headers["idempotency-mismatch"] == "true"


async def test_an_order_writes_two_events(peer: ApiClient, estimate_id: str) -> None:
    placed = await peer.post("/v1/orders/by-estimate", {"estimate_id": estimate_id, **BODY})
    engine = peer.http._transport.app.state.engine  # type: ignore[attr-defined]
    async with engine.connect() as connection:
        query = "SELECT event_type, payload FROM outbox ORDER BY position DESC LIMIT 2"
        (last_type, payload), (first_type, _) = (await connection.exec_driver_sql(query)).all()
    assert (first_type, last_type) == ("order.received", "order.placed")
    assert f'"data":{{"order":{placed.text}}}' in payload


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"estimate_id": "est_unknown"}, 400),
        ({"estimate_id": None}, 400),
        ({"unknown": 1}, 400),
        ({"metadata": {str(number): number for number in range(51)}}, 400),
        ({"bundle_selection": [{"bundle_id": "bun_unknown", "percentage": "100"}]}, 400),
        ({"bundle_selection": []}, 400),
    ],
)
async def test_invalid_orders_are_refused(
    api: ApiClient, peer: ApiClient, estimate_id: str, change: dict[str, Any], status: int
) -> None:
    for one in (api, peer):
        answer = await one.post("/v1/orders/by-estimate", {"estimate_id": estimate_id, **BODY, **change})
        assert answer.status_code == status, answer.text


async def test_keys_see_only_their_account(
    api: ApiClient, peer: ApiClient, orders: list[dict[str, Any]], world: World
) -> None:
    for one in (api, peer):
        other = one.as_key(world.theirs_test.key)
        assert (await other.by_key(orders[0]["idempotency_key"])).status_code == 404
        assert (await other.get("/v1/orders")).json()["data"] == []
        assert (await one.as_key("tonne_test_wrong").get("/v1/orders")).status_code == 401
