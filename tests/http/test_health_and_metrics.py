"""For load balancers and monitoring."""

import re

from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.app import Services

SAMPLE = re.compile(r'tonne_http_requests_total\{method="(\w+)",route="([^"]*)",status="(\d+)"\} ([0-9.]+)')


async def test_a_healthy_server_is_live_and_ready(api: ApiClient) -> None:
    for path in ("/health/live", "/health/ready"):
        answer = await api.http.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_a_server_whose_database_has_another_schema_is_live_and_not_ready(
    api: ApiClient, services: Services
) -> None:
    async with services.database.connection() as connection:
        await connection.execute("DELETE FROM schema_migrations")
    answer = await api.http.get("/health/ready")
    assert (answer.status_code, codes(answer)) == (503, ["service_unavailable"])
    assert (await api.http.get("/health/live")).status_code == 200


async def test_requests_are_counted_by_method_route_and_status(api: ApiClient) -> None:
    await api.order()
    for _ in range(3):
        await api.get("/v1/orders/unknown")
    await api.get("/nowhere")
    answer = await api.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    counts = {(method, route, status): float(n) for method, route, status, n in SAMPLE.findall(answer.text)}
    assert counts["POST", "/v1/orders/by-mass", "201"] == 1
    assert counts["GET", "/v1/orders/{order_id}", "404"] == 3
    assert counts["GET", "unmatched", "404"] == 1
    for name in ("tonne_http_request_seconds_bucket", "tonne_http_requests_in_flight", "process_resident_memory_bytes"):
        assert f"\n{name}" in answer.text


async def test_nothing_that_a_client_sends_becomes_a_label(api: ApiClient, world: World) -> None:
    """Labels live for ever: a client that could make them up could fill the memory."""
    await api.order(idempotency_key="canary-key", metadata={"a": "canary-text"})
    await api.by_key("canary-key")
    await api.get("/v1/orders/canary-id?limit=canary-query")
    await api.get("/canary-path")
    for method in ("CANARY", "canary-method"):
        await api.http.request(method, "/v1/orders")
        await api.http.request(method, "/canary-path")
    text = (await api.http.get("/metrics")).text
    assert "canary" not in text.lower()
    assert world.ours_test.scope.account_id not in text
    assert world.ours_test.key_id not in text
