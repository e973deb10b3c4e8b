"""The log of a real server: one JSON object per line, with the request id and without data of clients."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from tests.platform.http.conftest import METRICS_TOKEN, LiveServer
from tests.support.api_client import ApiClient, codes
from tests.support.world import World

ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}
# What a log line of a request may say. A new field is a decision: it must never hold what a client sent.
ALLOWED = {
    "client",
    "event",
    "level",
    "timestamp",
    "process",
    "request_id",
    "method",
    "route",
    "status",
    "ms",
    "key_id",
    "account_id",
}
CANARY = "canary-5f1d"


async def lines_of(live: LiveServer, request_id: str) -> list[dict[str, Any]]:
    """All lines of one request. The last line is written after the response was sent, so it may take a moment."""
    deadline = asyncio.get_running_loop().time() + 5
    while True:
        parsed: list[dict[str, Any]] = [json.loads(line) for line in live.log_lines()]
        found = [line for line in parsed if line.get("request_id") == request_id]
        if any(line["event"] == "request" for line in found):
            return found
        assert asyncio.get_running_loop().time() < deadline, "the request was not logged"
        await asyncio.sleep(0.01)


async def test_every_request_is_one_line_with_id_route_and_status(
    live_api: ApiClient, live_server: LiveServer, world: World
) -> None:
    for answer, route in (
        (await live_api.post("/v1/orders/by-mass", ONE_TONNE), "/v1/orders/by-mass"),
        (await live_api.get("/v1/orders/unknown"), "/v1/orders/{order_id}"),
        (await live_api.get("/nowhere"), "unmatched"),
        (await live_api.as_key("wrong").get("/v1/orders"), "/v1/orders"),
        (await live_api.post_raw("/v1/orders/by-mass", b"{"), "/v1/orders/by-mass"),
    ):
        (line,) = await lines_of(live_server, answer.headers["x-request-id"])
        assert set(line) <= ALLOWED
        assert (line["event"], line["level"], line["process"]) == ("request", "info", "api")
        assert (line["route"], line["status"]) == (route, answer.status_code)
        assert line["method"] in {"GET", "POST"}
        assert 0 <= line["ms"] < 60_000
        known = route.startswith("/v1") and answer.status_code != 401
        assert line.get("key_id") == (world.ours_test.key_id if known else None)
        assert line.get("account_id") == (world.ours_test.scope.account_id if known else None)


async def test_successful_health_checks_are_not_logged(live_api: ApiClient, live_server: LiveServer) -> None:
    """A later request proves that their lines are not just late."""
    probes = [await live_api.http.get(path) for path in ("/health/live", "/health/ready")]
    probes.append(await live_api.http.get("/metrics", headers={"Authorization": f"Bearer {METRICS_TOKEN}"}))
    assert [probe.status_code for probe in probes] == [200] * 3
    later = await live_api.get("/v1/orders/later")
    await lines_of(live_server, later.headers["x-request-id"])
    text = live_server.log.read_text()
    assert not any(probe.headers["x-request-id"] in text for probe in probes)


async def test_every_line_is_json_from_the_first_on(live_api: ApiClient, live_server: LiveServer) -> None:
    answer = await live_api.get("/v1/orders")
    await lines_of(live_server, answer.headers["x-request-id"])
    for line in live_server.log_lines():
        parsed = json.loads(line)
        assert {"event", "level", "timestamp"} <= set(parsed), line


async def test_nothing_that_a_client_sends_is_logged(
    live_api: ApiClient, live_server: LiveServer, world: World
) -> None:
    """Canaries in bodies, keys, queries and paths, of successful and of refused requests."""
    email = f"{CANARY}@example.com"
    body = ONE_TONNE | {"idempotency_key": f"{CANARY} key", "metadata": {CANARY: email}}
    await live_api.post("/v1/orders/by-mass", body)
    await live_api.post("/v1/orders/by-mass", body | {"mass": CANARY})
    await live_api.post("/v1/orders/by-mass", body | {"idempotency_key": "\n" + CANARY, CANARY: email})
    await live_api.post(
        "/v1/orders/by-mass", body | {"bundle_selection": [{"bundle_id": CANARY, "percentage": CANARY}]}
    )
    await live_api.post("/v1/orders/by-estimate", {"estimate_id": CANARY})
    await live_api.post("/v1/orders/by-value", {"value": CANARY})
    await live_api.post("/v1/estimates", ONE_TONNE | {"description": email, "metadata": {"a": CANARY}})
    await live_api.post_raw("/v1/orders/by-mass", f'{{"{CANARY}'.encode())
    await live_api.post_raw("/v1/orders/by-mass", CANARY.encode(), CANARY)
    await live_api.by_key(f"{CANARY} key")
    await live_api.get(f"/v1/orders/{CANARY}?limit={CANARY}&after={CANARY}&offset_link_id={email}")
    await live_api.get(f"/v1/orders?after={CANARY}")
    await live_api.get(f"/{CANARY}")
    await live_api.get("/v1/orders", Service_Account=CANARY, User_Agent=CANARY, X_Forwarded_For=CANARY, Cookie=CANARY)
    await live_api.as_key(f"tonne_test_{CANARY}").get("/v1/orders")
    await live_api.as_key(CANARY).get("/v1/orders")
    last = await live_api.get("/v1/orders/last")
    await lines_of(live_server, last.headers["x-request-id"])
    text = live_server.log.read_text()
    for secret in (CANARY, world.ours_test.key, world.ours_test.key[11:], "Bearer"):
        assert secret not in text


@pytest.fixture
async def live_database(live_server: LiveServer) -> Any:
    connection = await asyncpg.connect(live_server.database_url)
    yield connection
    await connection.execute("ALTER TABLE orders DROP CONSTRAINT IF EXISTS no_canary")
    await connection.close()


async def test_an_internal_error_is_logged_with_its_traceback_and_without_data_of_clients(
    live_api: ApiClient, live_server: LiveServer, live_database: Any
) -> None:
    """PostgreSQL quotes the row that violated a constraint in the error's details."""
    planted = "canary-9c07"
    await live_database.execute(
        f"ALTER TABLE orders ADD CONSTRAINT no_canary CHECK (idempotency_key NOT LIKE '{planted}%')"
    )
    body = ONE_TONNE | {"idempotency_key": f"{planted} key", "metadata": {"mail": f"{planted}@example.com"}}
    answer = await live_api.post("/v1/orders/by-mass", body)
    assert (answer.status_code, codes(answer)) == (500, ["internal_error"])
    assert planted not in answer.text
    failed, request = await lines_of(live_server, answer.headers["x-request-id"])
    assert (failed["event"], failed["level"]) == ("request_failed", "error")
    assert "CheckViolationError" in failed["exception"]
    assert "place_order" in failed["exception"]
    assert (request["event"], request["status"]) == ("request", 500)
    assert planted not in live_server.log.read_text()


async def test_operations_20_the_request_id_of_a_client_is_kept_if_it_is_well_formed(
    live_api: ApiClient, live_server: LiveServer
) -> None:
    given = "0f5c4ad2-9c6e-4a39-8f4b-2f5d2d1b7e55"
    answer = await live_api.http.get("/v1/orders/unknown", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"] == given
    assert answer.json()["request_id"] == given
    (line,) = await lines_of(live_server, given)
    assert line["event"] == "request"


@pytest.mark.parametrize("given", ["short", f"{CANARY}@example.com", "<script>alert(1)</script>", "a" * 65, ""])
async def test_another_request_id_is_replaced(live_api: ApiClient, given: str) -> None:
    answer = await live_api.http.get("/v1/orders/unknown", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"].startswith("req_")


async def test_two_request_ids_are_replaced(live_api: ApiClient) -> None:
    twice = [("X-Request-Id", "0123456789abcdef"), ("X-Request-Id", "fedcba9876543210")]
    answer = await live_api.http.get("/v1/orders/unknown", headers=twice)
    assert answer.headers["x-request-id"].startswith("req_")
