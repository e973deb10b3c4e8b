"""The ASGI application: HEAD, Allow, bodies in pieces, start and stop."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import pytest

from tests.conftest import Server
from tests.support.api_client import ApiClient, codes
from tests.support.world import World
from tonne.apps.wiring.app import Services, build_app
from tonne.platform.db.database import Database
from tonne.platform.http.asgi import Message
from tonne.platform.http.limits.admission import Admission
from tonne.platform.http.server import Application
from tonne.platform.keys.replays.respond_once import RespondOnce
from tonne.platform.settings.settings import Settings
from tonne.selling.accounts.organisations.client_account import ActForClient

PARAMETER = re.compile(r"\{\w+(?::path)?\}")
ONE_TONNE = b'{"mass":{"amount":"1","unit":"t"}}'
# These differ between any two requests.
OF_ONE_REQUEST = {"x-request-id", "ratelimit-remaining", "ratelimit-reset", "set-cookie"}


async def test_head_gives_the_headers_of_get_on_every_route(api: ApiClient, services: Services) -> None:
    paths = sorted({PARAMETER.sub("x", route.path) for route in services.routes() if route.method == "GET"})
    assert len(paths) > 30
    # A compressed body would have another length than the one that the client shows.
    api.http.headers["Accept-Encoding"] = "identity"
    for path in paths:
        get = await api.get(path)
        head = await api.http.head(path, headers=api._headers({}))
        assert head.status_code == get.status_code, path
        assert head.content == b"", path
        assert int(head.headers["content-length"]) == len(get.content), path
        same = [{k: v for k, v in answer.headers.items() if k not in OF_ONE_REQUEST} for answer in (head, get)]
        assert same[0] == same[1], path


async def test_head_without_a_get_is_405(api: ApiClient) -> None:
    answer = await api.http.head("/v1/orders/by-mass")
    assert (answer.status_code, answer.headers["allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize(
    "key", ["a/b", "/", "//x", "a//b/", "a/../b", "50%", "%2F", "a?b#c", "ключ", "..x", ";", "by-mass"]
)
async def test_an_idempotency_key_with_an_encoded_slash_is_one_parameter(api: ApiClient, key: str) -> None:
    order = await api.order(idempotency_key=key)
    assert (await api.by_key(key)).json()["id"] == order["id"]


async def test_an_encoded_slash_does_not_end_a_segment(api: ApiClient) -> None:
    answer = await api.get("/v1/orders/a%2Finvoice")
    assert (answer.status_code, codes(answer)) == (404, ["order_not_found"])
    answer = await api.get("/v1%2Forders")
    assert (answer.status_code, codes(answer)) == (404, ["route_not_found"])


async def test_one_slash_at_the_end_is_accepted(api: ApiClient) -> None:
    assert (await api.get("/v1/orders/")).status_code == 200
    assert (await api.post("/v1/orders/by-mass/", {"mass": {"amount": "1", "unit": "t"}})).status_code == 201


async def post_in_pieces(app: Any, key: str, messages: Sequence[Message]) -> int:
    left, sent = list(messages), []

    async def receive() -> Message:
        return left.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/orders/by-mass",
        "raw_path": b"/v1/orders/by-mass",
        "query_string": b"",
        "client": ("192.0.2.1", 1),
        "headers": [
            (b"host", b"tonne.test"),
            (b"authorization", f"Bearer {key}".encode()),
            (b"content-type", b"application/json"),
            (b"transfer-encoding", b"chunked"),
        ],
    }
    await app(scope, receive, send)
    status: int = sent[0]["status"]
    return status


def piece(body: bytes, *, more: bool) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


async def test_a_body_in_pieces_is_read_whole(services: Services, world: World) -> None:
    pieces = [piece(ONE_TONNE[:10], more=True), piece(b"", more=True), piece(ONE_TONNE[10:], more=False)]
    assert await post_in_pieces(build_app(services), world.ours_test.key, pieces) == 201


async def test_a_body_that_breaks_off_is_not_processed(services: Services, world: World) -> None:
    """The part that arrived may be valid by itself."""
    pieces = [piece(ONE_TONNE, more=True), {"type": "http.disconnect"}]
    assert await post_in_pieces(build_app(services), world.ours_test.key, pieces) == 400
    async with services.database.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM orders") == 0


class Lifespan:
    """A server that starts an application and stops it at once."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self._left: list[Message] = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def run(self, app: Any) -> list[str]:
        await app({"type": "lifespan"}, self._receive, self._send)
        return [message["type"] for message in self.sent]

    async def _receive(self) -> Message:
        return self._left.pop(0)

    async def _send(self, message: Message) -> None:
        self.sent.append(message)


async def test_the_database_is_opened_at_startup_and_closed_at_shutdown(
    server: Server, populated_db: Database, settings: Settings
) -> None:
    async with populated_db.connection() as connection:
        name = await connection.fetchval("SELECT current_database()")
    database = Database(server.url(name), settings)
    app = build_app(Services(database, settings))
    assert await Lifespan().run(app) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert database._count == 0


async def test_an_unavailable_database_at_startup_is_reported_to_the_server(settings: Settings) -> None:
    app = build_app(Services(Database("postgresql://postgres@/x?host=/nowhere", settings), settings))
    lifespan = Lifespan()
    with pytest.raises(OSError, match=r"nowhere|No such file"):
        await lifespan.run(app)
    assert [message["type"] for message in lifespan.sent] == ["lifespan.startup.failed"]
    assert "Traceback" in lifespan.sent[0]["message"]


class LostDatabase(Lifespan):
    """Between start and stop a key is used, and the database is lost."""

    def __init__(self, services: Services, key: str) -> None:
        super().__init__()
        self._services = services
        self._key = key

    async def _receive(self) -> Message:
        if len(self._left) == 1:
            holder = await self._services.directory.find_key(hashlib.sha256(self._key.encode()).digest())
            assert holder is not None
            self._services.directory.note_use(holder)
            await self._services.database.close()
        return await super()._receive()


async def test_a_server_stops_cleanly_without_its_database(
    server: Server, populated_db: Database, settings: Settings, world: World
) -> None:
    async with populated_db.connection() as connection:
        name = await connection.fetchval("SELECT current_database()")
    services = Services(Database(server.url(name), settings), settings)
    lifespan = LostDatabase(services, world.ours_test.key)
    assert await lifespan.run(build_app(services)) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_failure_at_shutdown_is_reported_to_the_server(services: Services) -> None:
    async def start() -> None:
        pass

    async def stop() -> None:
        raise RuntimeError("cannot stop")

    lifespan = Lifespan()
    with pytest.raises(RuntimeError):
        await lifespan.run(
            Application(
                [],
                services.authenticator,
                Admission(1, 1, 1),
                hold=services.hold,
                respond_once=RespondOnce(services.database, services.box, services.clock),
                act_for_client=ActForClient(services.manage_accounts),
                start=start,
                stop=stop,
            )
        )
    assert [message["type"] for message in lifespan.sent] == ["lifespan.startup.complete", "lifespan.shutdown.failed"]
    assert "cannot stop" in lifespan.sent[1]["message"]


async def test_other_protocols_are_refused(services: Services) -> None:
    with pytest.raises(ValueError, match="websocket"):
        await build_app(services)({"type": "websocket"}, None, None)  # type: ignore[arg-type]
