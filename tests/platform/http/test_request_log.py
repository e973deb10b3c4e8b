"""The log of requests to the API."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.support.api_client import ApiClient
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.http.authenticator import KeyHolder
from tonne.platform.http.request_log import log as request_log_module
from tonne.platform.http.request_log.log import RequestLog, RequestNotes
from tonne.platform.http.request_log.prune_requests import PruneRequests
from tonne.platform.http.request_log.store import (
    RequestFilter,
    erase_request_texts,
    find_requests,
    list_requests,
    slot_of,
)
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, Tenant, utc_now
from tonne.platform.values.paging import START, Position


async def logged(services: Services) -> list[dict[str, Any]]:
    await services.request_log.write()
    async with services.database.connection() as connection:
        rows = await connection.fetch("SELECT *, tableoid::regclass::text AS part FROM api_requests ORDER BY at")
    return [dict(row) for row in rows]


async def test_a_request_is_logged_with_the_template_of_its_path(
    api: ApiClient, services: Services, world: World
) -> None:
    order = await api.order(metadata={"customer": "Ada"})
    answer = await api.get(f"/v1/orders/{order['id']}?", Service_Account=world.ours_test.client_account_id)
    assert answer.status_code == 404
    await api.http.get("/v1/orders")
    await api.http.get("/docs/try/")
    placed, missing = await logged(services)
    scope = world.ours_test.scope
    assert (placed["organisation_id"], placed["mode"], placed["account_id"]) == (
        *(scope.organisation_id, "test", scope.account_id),
    )
    assert (placed["method"], placed["route"], placed["status"]) == ("POST", "/v1/orders/by-mass", 201)
    assert (placed["key_id"], placed["body"], placed["error_code"]) == (world.ours_test.key_id, None, None)
    assert placed["duration_us"] > 0
    assert placed["part"] == f"api_requests_{slot_of(placed['at'])}"
    assert (missing["route"], missing["status"], missing["error_code"]) == (
        *("/v1/orders/{order_id}", 404, "order_not_found"),
    )
    assert missing["account_id"] == world.ours_test.client_account_id
    assert missing["request_id"] == answer.headers["x-request-id"]


async def test_failed_writes_are_logged_with_their_masked_body(api: ApiClient, services: Services) -> None:
    body = {"mass": {"amount": "1", "unit": "kilos"}, "emial": "ada@example.com", "metadata": {"name": "Ada Lovelace"}}
    assert (await api.post("/v1/orders/by-mass", body)).status_code == 400
    assert (await api.post_raw("/v1/orders/by-mass", b'{"email": "ada@example.com"')).status_code == 400
    faulty, unparsable = await logged(services)
    assert msgspec.json.decode(faulty["body"]) == {
        "mass": {"amount": "1", "unit": "kilos"},
        "emial": "[masked]",
        "metadata": {"name": "[masked]"},
    }
    assert faulty["error_code"] == "validation_error"
    assert "Unknown field emial." in faulty["error_message"]
    assert "mass.unit" in faulty["error_message"]
    assert unparsable["body"] is None
    assert "not valid JSON" in unparsable["error_message"]


async def test_requests_that_a_key_may_not_make_are_logged_too(
    api: ApiClient, services: Services, world: World
) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE api_keys SET networks = '{192.0.2.0/24}' WHERE id = $1", world.ours_test.key_id)
    assert (await api.get("/v1/orders")).status_code == 403
    [refused] = await logged(services)
    assert (refused["error_code"], refused["account_id"]) == ("key_network_not_allowed", None)


async def test_a_database_that_is_away_harms_no_request(api: ApiClient, services: Services) -> None:
    async with services.database.transaction() as tx:
        await tx.execute("ALTER TABLE api_requests RENAME TO away")
    assert (await api.get("/v1/orders")).status_code == 200
    await services.request_log.write()
    async with services.database.transaction() as tx:
        await tx.execute("ALTER TABLE away RENAME TO api_requests")
    assert await logged(services) == []
    assert (await api.get("/v1/orders")).status_code == 200
    assert len(await logged(services)) == 1
    outcomes = services.request_log.metrics[0].snapshot().series
    assert dict(outcomes) == {("failed",): [1], ("written",): [1]}


async def test_the_queue_is_bounded(db: Database, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_log_module, "MAX_WAITING", 3)
    log = RequestLog(db, utc_now)
    for n in range(5):
        _add(log, world, f"req_{n}")
    assert dict(log.metrics[0].snapshot().series) == {("dropped",): [2]}
    await log.write()
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM api_requests") == 3


class TestTurnedOff:
    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return msgspec.structs.replace(settings, request_log=False)

    async def test_nothing_is_logged(self, api: ApiClient, services: Services) -> None:
        await api.order()
        assert await logged(services) == []


def _add(log: RequestLog, world: World, request_id: str, status: int = 200, route: str = "/v1/orders") -> None:
    notes = RequestNotes(KeyHolder(world.ours_test.key_id, world.ours_test.scope))
    log.add(notes, {"request_id": request_id}, "GET", route, status=status, seconds=0.01)


async def test_old_requests_are_removed_by_the_worker(db: Database, world: World) -> None:
    clock = ManualClock()
    log, prune = RequestLog(db, clock), PruneRequests(db, clock)
    for day in range(12):
        _add(log, world, f"req_{day}")
        await log.write()
        assert await prune.run_once() is False
        clock.advance(days=1)
    async with db.connection() as connection:
        kept = [row[0] for row in await connection.fetch("SELECT request_id FROM api_requests ORDER BY at")]
    assert kept == [f"req_{day}" for day in range(4, 12)]
    # The worker was away, and a partition that is in use again has old rows.
    clock.advance(days=9)
    _add(log, world, "req_new")
    await log.write()
    await prune.run_once()
    async with db.connection() as connection:
        kept = [row[0] for row in await connection.fetch("SELECT request_id FROM api_requests ORDER BY at")]
    assert kept == ["req_new"]


async def test_requests_are_listed_newest_first_with_filters(
    db: Database, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    log, scope = RequestLog(db, clock), world.ours_test.scope
    for n in range(30):
        _add(log, world, f"req_{n:02}", 500 if n == 3 else 404 if n % 10 == 0 else 200, f"/v1/{n % 2}")
        clock.advance(minutes=30)
    await log.write()
    place = scope.tenant
    since = clock() - timedelta(days=7)
    async with db.connection() as connection:

        async def ids(requested: RequestFilter, start: Position = START, limit: int = 5) -> list[str]:
            page = await list_requests(connection, place, requested, start=start, since=since, limit=limit)
            return [row.request_id for row in page.rows]

        assert await ids(RequestFilter()) == ["req_29", "req_28", "req_27", "req_26", "req_25"]
        [row] = await find_requests(connection, place, "req_25", since)
        assert (await ids(RequestFilter(), Position(row.at, row.request_id)))[:2] == ["req_24", "req_23"]
        assert await ids(RequestFilter(route="/v1/1", status_from=500)) == ["req_03"]
        assert await ids(RequestFilter(method="POST")) == []
        assert await ids(RequestFilter(key_id="key_other")) == []
        requested = RequestFilter(status_from=400)
        failed = await list_requests(connection, place, requested, start=START, since=since, limit=5)
        assert [row.request_id for row in failed.rows] == ["req_20", "req_10", "req_03", "req_00"]
        assert failed.examined_to is None
        for other in (world.theirs_test.scope.tenant, Tenant(scope.organisation_id, Mode.LIVE)):
            page = await list_requests(connection, other, RequestFilter(), start=START, since=since, limit=5)
            assert page.rows == []
            assert await find_requests(connection, other, "req_25", since) == []
        # A filter that selects little stops after a while, and goes on from there.
        monkeypatch.setattr("tonne.platform.http.request_log.store.EXAMINED", 10)
        requested = RequestFilter(method="POST")
        page = await list_requests(connection, place, requested, start=START, since=since, limit=5)
        assert (page.rows, page.examined_to and page.examined_to.id) == ([], "req_20")


async def test_an_erasure_deletes_texts_that_masking_has_left(api: ApiClient, services: Services, world: World) -> None:
    """A name as the name of a field is not recognised."""
    for client in (api, api.as_key(world.theirs_test.key)):
        assert (await client.post("/v1/orders/by-mass", {"Lovelace": 1})).status_code == 400
        assert (await client.post("/v1/orders/by-mass", {"Byron": 1})).status_code == 400
    assert [row["body"] for row in await logged(services)] == ['{"Lovelace":"[masked]"}', '{"Byron":"[masked]"}'] * 2
    async with services.database.transaction() as tx:
        assert await erase_request_texts(tx, world.ours_test.scope.organisation_id, ["lovelace"]) == 1
    ours, *others = await logged(services)
    assert (ours["body"], ours["error_message"], ours["error_code"]) == (None, None, "validation_error")
    assert all(row["body"] and row["error_message"] for row in others)
