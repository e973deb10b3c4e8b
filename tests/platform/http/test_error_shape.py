"""Error responses: one format, no internal details, and a request id."""

import asyncio
import re

import asyncpg
import httpx
import msgspec
import pytest

from tests.conftest import Server
from tests.platform.http.writes import count_rows
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings

REQUEST_ID = re.compile(r"req_[a-z0-9]{26}")
ONE_TONNE = {"mass": {"amount": "1", "unit": "t"}}


async def test_every_response_has_its_own_request_id(api: ApiClient) -> None:
    answers = [
        await api.get("/v1/orders"),
        await api.get("/v1/orders/unknown"),
        await api.get("/nowhere"),
        await api.post("/v1/orders/by-mass", {}),
        await api.as_key("wrong").get("/v1/orders"),
        await api.http.get("/health/live"),
        await api.http.get("/docs/try/"),
        await api.http.put("/v1/orders"),
        await api.get("/v1/orders", X_Request_Id="mine"),
    ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(REQUEST_ID.fullmatch(one) for one in ids)
    assert len(set(ids)) == len(ids)
    assert all(answer.headers["x-content-type-options"] == "nosniff" for answer in answers)


async def test_an_unknown_path_is_404_with_or_without_a_key(api: ApiClient) -> None:
    for path in (
        "/nothing",
        "/v1",
        "/v2/orders",
        "/v1/order",
        "/v1/orders/a/b",
        "/v1/%00",
        "/%FF",
        "/..%2f..%2fetc/passwd",
    ):
        for client in (api, api.as_key("wrong")):
            answer = await client.get(path)
            assert (answer.status_code, codes(answer)) == (404, ["route_not_found"]), path


async def test_an_unsupported_method_is_405_and_allow_lists_the_supported_ones(api: ApiClient) -> None:
    for method, path, allowed in (
        ("DELETE", "/v1/orders", "GET"),
        ("PUT", "/v1/orders", "GET"),
        ("POST", "/v1/orders/by-idempotency-key/k", "GET"),
        ("GET", "/v1/orders/by-mass", "POST"),
        ("PATCH", "/v1/estimates", "POST"),
        ("BREW", "/v1/bundles", "GET"),
        ("POST", "/health/live", "GET"),
    ):
        answer = await api.http.request(method, path)
        assert (answer.status_code, codes(answer)) == (405, ["method_not_allowed"]), (method, path)
        assert allowed in answer.headers["allow"].split(", ")


async def test_every_404_of_an_order_is_byte_for_byte_the_same(api: ApiClient, world: World) -> None:
    order = await api.order(idempotency_key="k")
    theirs, live = api.as_key(world.theirs_test.key), api.as_key(world.ours_live.key)
    client = world.ours_test.client_account_id
    answers = [
        await api.get("/v1/orders/ord_" + "0" * 26),
        await api.get("/v1/orders/x"),
        await api.get("/v1/orders/%00"),
        await api.get(f"/v1/orders/{order['id'].upper()}"),
        await api.get("/v1/orders/by-idempotency-key/unknown"),
        await api.get(f"/v1/orders/{order['id']}", Service_Account=client),
        await api.get("/v1/orders/by-idempotency-key/k", Service_Account=client),
    ]
    for other in (theirs, live):
        answers += [await other.get(f"/v1/orders/{order['id']}"), await other.by_key("k")]
    assert {(answer.status_code, *codes(answer)) for answer in answers} == {(404, "order_not_found")}
    assert len({sameness(answer) for answer in answers}) == 1


async def test_every_401_is_byte_for_byte_the_same(api: ApiClient, world: World, populated_db: Database) -> None:
    key = world.ours_test.key
    async with populated_db.connection() as connection:
        await connection.execute("UPDATE api_keys SET revoked_at = now() WHERE id = $1", world.ours_live.key_id)
    headers: list[dict[str, str]] = [
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {key}"},
        {"Authorization": key},
        {"Authorization": f"Bearer {key}x"},
        {"Authorization": f"Bearer {key[:-1]}"},
        {"Authorization": f"Bearer {key} "},
        {"Authorization": f"Bearer  {key}"},
        {"Authorization": f"Bearer {key.upper()}"},
        {"Authorization": f"Bearer {key},{key}"},
        {"Authorization": "Bearer tonne_test_" + "A" * 43},
        {"Authorization": f"Bearer {world.ours_live.key}"},
    ]
    # Without the header the message says so: that reveals nothing about keys.
    for kind in (headers, [{}, {"X-Api-Key": key}]):
        answers = [
            await api.http.request(method, path, headers=header)
            for header in kind
            for method, path in (("GET", "/v1/orders"), ("GET", "/v1/orders/x"), ("POST", "/v1/orders/by-mass"))
        ]
        assert {(answer.status_code, *codes(answer)) for answer in answers} == {(401, "unauthorised")}
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
        assert len({sameness(answer) for answer in answers}) == 1


def sameness(answer: httpx.Response) -> tuple[str, str]:
    """Body and headers, except for the request id and the rate limits."""
    headers = {
        name: value for name, value in answer.headers.items() if name != "x-request-id" and "ratelimit" not in name
    }
    return answer.text.replace(answer.headers["x-request-id"], ""), repr(sorted(headers.items()))


async def test_without_a_key_the_body_is_not_validated(api: ApiClient) -> None:
    for raw in (b"", b"{", b"[" * 10_000, b" " * 300_000):
        answer = await api.as_key("wrong").post_raw("/v1/orders/by-mass", raw)
        assert (answer.status_code, codes(answer)) == (401, ["unauthorised"])


async def test_an_internal_error_is_500_and_reveals_no_details(api: ApiClient, services: Services) -> None:
    async with services.database.connection() as connection:
        await connection.execute("ALTER TABLE orders RENAME TO hidden")
    for answer in (await api.get("/v1/orders"), await api.post("/v1/orders/by-mass", ONE_TONNE)):
        assert (answer.status_code, codes(answer)) == (500, ["internal_error"])
        for inside in ("orders", "relation", "Traceback", "asyncpg", "SELECT"):
            assert inside not in answer.text
    async with services.database.connection() as connection:
        await connection.execute("ALTER TABLE hidden RENAME TO orders")
    assert (await api.get("/v1/orders")).status_code == 200


async def test_an_order_that_fails_halfway_is_rolled_back(api: ApiClient, services: Services) -> None:
    async with services.database.connection() as connection:
        await connection.execute("ALTER TABLE events RENAME TO hidden")
    answer = await api.post("/v1/orders/by-mass", ONE_TONNE | {"idempotency_key": "k"})
    assert (answer.status_code, codes(answer)) == (500, ["internal_error"])
    async with services.database.connection() as connection:
        await connection.execute("ALTER TABLE hidden RENAME TO events")
    assert await count_rows(services.database) == 0
    assert (await api.by_key("k")).status_code == 404
    assert (await api.order(idempotency_key="k"))["status"] == "placed"


async def test_an_unavailable_database_is_503(api: ApiClient, services: Services) -> None:
    await services.database.close()
    for answer in (
        await api.get("/v1/orders"),
        await api.post("/v1/orders/by-mass", ONE_TONNE),
        await api.http.get("/health/ready"),
    ):
        assert (answer.status_code, codes(answer)) == (503, ["service_unavailable"])
        assert answer.headers["retry-after"] == "1"
    assert (await api.http.get("/health/live")).status_code == 200
    await services.database.open()
    assert (await api.get("/v1/orders")).status_code == 200


class TestSlowDatabase:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, statement_timeout_s=0.2)

    async def test_a_statement_that_takes_too_long_is_503(
        self, api: ApiClient, services: Services, server: Server
    ) -> None:
        blocker = await asyncpg.connect(await address(server, services.database))
        async with blocker.transaction():
            await blocker.execute("LOCK TABLE orders")
            answer = await api.get("/v1/orders")
        await blocker.close()
        assert (answer.status_code, codes(answer)) == (503, ["service_unavailable"])
        assert (await api.get("/v1/orders")).status_code == 200


async def test_a_connection_that_is_lost_during_a_statement_is_503(api: ApiClient, services: Services) -> None:
    body = ONE_TONNE | {"idempotency_key": "k"}
    for method, path in (("GET", "/v1/orders"), ("POST", "/v1/orders/by-mass")):
        async with services.database.transaction() as tx:
            await tx.execute("LOCK TABLE orders")
            waiting = asyncio.create_task(api.http.request(method, path, json=body, headers=api._headers({})))
            await terminate_waiting_backends(tx)
            answer = await waiting
        assert (answer.status_code, codes(answer)) == (503, ["service_unavailable"])
    assert (await api.by_key("k")).status_code == 404
    assert (await api.order(idempotency_key="k"))["status"] == "placed"


async def test_a_database_that_became_read_only_is_503(api: ApiClient, services: Services) -> None:
    """As after a failover, when the server that we are connected to is a replica."""
    async with services.database.connection() as connection:
        name = await connection.fetchval("SELECT current_database()")
        await connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await services.database.close()
    await services.database.open()
    answer = await api.post("/v1/orders/by-mass", ONE_TONNE)
    assert (answer.status_code, codes(answer)) == (503, ["service_unavailable"])
    assert (await api.get("/v1/orders")).status_code == 200


TERMINATE_WAITING = """
SELECT bool_or(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


async def terminate_waiting_backends(tx: Connection) -> None:
    for _ in range(500):
        # The statistics are otherwise cached for the whole transaction.
        await tx.execute("SELECT pg_stat_clear_snapshot()")
        if await tx.fetchval(TERMINATE_WAITING):
            return
        await asyncio.sleep(0.01)
    pytest.fail("no backend waits for a lock")


async def test_idle_connections_that_the_server_closed_are_replaced(
    api: ApiClient, services: Services, server: Server
) -> None:
    await api.order()
    connection = await asyncpg.connect(await address(server, services.database))
    # The notification of the order uses a connection after the response.
    for _ in range(1000):
        if not services.database._in_use:
            break
        await asyncio.sleep(0.01)
    closed = [asyncio.Event() for _ in services.database._idle]
    for idle, event in zip(services.database._idle, closed, strict=True):
        idle.add_termination_listener(lambda _, event=event: event.set())
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    await connection.close()
    async with asyncio.timeout(10):
        await asyncio.gather(*(event.wait() for event in closed))
    assert (await api.order())["status"] == "placed"


async def address(server: Server, database: Database) -> str:
    async with database.connection() as connection:
        return server.url(await connection.fetchval("SELECT current_database()"))
