"""The document declares the headers of every response, and those that it declares as required are sent."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest

from tests.platform.http.test_tenancy import PARAMETER, UNKNOWN, existing  # noqa: F401 - existing is a fixture
from tests.platform.http.writes import CREATES, valid_bodies
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.http.route import MAX_BODY_BYTES, Access, Route
from tonne.platform.settings.settings import Settings
from tools.docs.openapi import inlined

# About the transfer of the body, or for browsers only.
NOT_DECLARED = {"content-type", "content-length", "x-content-type-options", "referrer-policy"}
RATE_LIMIT = {"ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"}
# Accepts nothing: connections fail at once.
RECEIVER = "https://127.0.0.1:9/"
BODIES: dict[str, dict[str, Any]] = {
    "POST /v1/webhooks": {"url": RECEIVER},
    "PUT /v1/webhooks/{webhook_id}": {"url": RECEIVER},
}


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, webhook_allow_private="127.0.0.0/8")


@pytest.fixture
async def services(services: Services) -> AsyncIterator[Services]:
    yield services
    await services.webhooks.close()


@dataclass
class CheckedClient:
    """Sends requests and compares the headers of the responses with the document."""

    api: ApiClient
    document: dict[str, Any]
    statuses: set[int] = field(default_factory=set)
    sent: set[str] = field(default_factory=set)

    async def ask(
        self, route: Route, path: str, headers: dict[str, str] | None = None, **request: Any
    ) -> httpx.Response:
        answer = await self.api.http.request(
            route.method, path, headers=self.api._headers({}) if headers is None else headers, **request
        )
        self.check(route, answer)
        return answer

    def check(self, route: Route, answer: httpx.Response) -> None:
        operation = self.document["paths"][PARAMETER.sub(r"{\1}", route.path)][route.method.lower()]
        where = f"{route.method} {route.path}: {answer.status_code}"
        assert str(answer.status_code) in operation["responses"], f"{where} is not in the document"
        declared = {
            name.lower(): self.document["components"]["headers"][header["$ref"].rpartition("/")[2]]
            for name, header in operation["responses"][str(answer.status_code)]["headers"].items()
        }
        sent = {name.lower() for name in answer.headers} - NOT_DECLARED
        assert sent <= declared.keys(), f"{where}: declare these headers in platform/http/openapi/headers.py"
        required = {name for name, header in declared.items() if header["required"]}
        assert required <= sent, f"{where}: these headers are declared as required"
        if answer.is_success:
            assert sent >= RATE_LIMIT, where
        self.statuses.add(answer.status_code)
        self.sent |= sent


@pytest.fixture
async def client(api: ApiClient) -> CheckedClient:
    return CheckedClient(api, inlined((await api.http.get("/openapi.json")).json()))


def api_routes(services: Services) -> list[Route]:
    """What deletes comes last."""
    routes = [route for route in services.routes() if route.access is Access.API_KEY]
    return sorted(routes, key=lambda route: route.method == "DELETE")


async def test_interface_4_every_response_has_the_declared_headers(
    services: Services,
    client: CheckedClient,
    existing: dict[str, str],  # noqa: F811 - the fixture
) -> None:
    valid = await valid_bodies(client.api)
    change = f"/v1/webhooks/{existing['webhook_id']}"
    await client.api.http.put(change, json={"url": RECEIVER}, headers=client.api._headers({}))
    for route in api_routes(services):
        name = PARAMETER.findall(route.path)
        path = PARAMETER.sub(lambda found: existing[found[1]], route.path)
        await client.ask(route, path, {})
        if name:
            unknown = PARAMETER.sub(UNKNOWN[name[0]], route.path)
            assert (await client.ask(route, unknown, json={} if route.body else None)).status_code >= 400
        await client.ask(route, f"{path}?unknown=1")
        if route.body is None:
            await client.ask(route, path)
            continue
        body = BODIES.get(f"{route.method} {route.path}") or valid.get(route.path) or route.example or {}
        await client.ask(route, path, json=body)
        await client.ask(route, path, json={"unknown": 1})
        await client.ask(route, path, content=b"x" * (MAX_BODY_BYTES + 1))
        plain = {**client.api._headers({}), "Content-Type": "text/plain"}
        await client.ask(route, path, plain, content=b"{}")
    assert client.statuses >= {200, 201, 204, 400, 401, 404, 409, 413, 415}
    for path in CREATES:
        (route,) = [route for route in api_routes(services) if route.path == path and route.method == "POST"]
        for amount, status in (("first", 201), ("first", 200), ("other", 200)):
            body = {**valid[path], "idempotency_key": f"headers {path}", "metadata": {"amount": amount}}
            assert (await client.ask(route, path, json=body)).status_code == status
    everything = {
        name.lower()
        for methods in client.document["paths"].values()
        for operation in methods.values()
        for response in operation["responses"].values()
        for name in response["headers"]
    }
    assert everything - client.sent == {"retry-after"}, "nothing sent these headers; the tests below send Retry-After"


async def test_interface_4_refusals_for_too_many_requests_say_when_to_retry(
    populated_db: Database, settings: Settings, world: World, client: CheckedClient
) -> None:
    strict = msgspec.structs.replace(settings, rate_limit_burst=1, rate_limit_per_second=0.001, failed_auth_burst=1)
    services = Services(populated_db, strict)
    transport = httpx.ASGITransport(build_app(services))
    (route,) = [route for route in services.routes() if (route.method, route.path) == ("GET", "/v1/orders")]
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as http:
        client.api = ApiClient(http, world.ours_test.key)
        statuses = [(await client.ask(route, "/v1/orders")).status_code for _ in range(2)]
        statuses += [(await client.ask(route, "/v1/orders", {})).status_code for _ in range(2)]
    await services.health.close()
    assert statuses == [200, 429, 401, 429]
    assert "retry-after" in client.sent


async def test_interface_4_a_database_that_is_gone_is_answered_as_declared(
    services: Services, client: CheckedClient
) -> None:
    (route,) = [route for route in services.routes() if (route.method, route.path) == ("GET", "/v1/orders")]
    await services.database.close()
    assert (await client.ask(route, "/v1/orders")).status_code == 503
