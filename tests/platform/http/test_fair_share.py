"""One organisation whose requests all wait leaves connections to the others."""

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.group_commit import QueueTimeout
from tonne.platform.http.authenticator import hash_key
from tonne.platform.http.errors import InternalError, RateLimited, ServiceUnavailable
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.http.refusals import refusal_of_item
from tonne.platform.process.single_flight import SingleFlight

LOCK_STREAM = "SELECT FROM event_streams WHERE organisation_id = $1 AND mode = 'test' FOR UPDATE"


async def test_operations_11_others_are_served_while_one_organisation_waits_for_a_locked_row(
    services: Services, api: ApiClient, world: World
) -> None:
    await api.order()
    async with services.database.transaction() as tx:
        await tx.execute(LOCK_STREAM, world.ours_test.scope.organisation_id)
        body = {"mass": {"amount": "1", "unit": "t"}}
        stuck = [asyncio.create_task(api.post("/v1/orders/by-mass", body)) for _ in range(60)]
        await asyncio.sleep(0)
        answer = await asyncio.wait_for(api.as_key(world.theirs_test.key).get("/v1/orders"), 20)
        assert answer.status_code == 200
        assert (await api.http.get("/health/ready")).status_code == 200
    answers = await asyncio.gather(*stuck)
    assert {answer.status_code for answer in answers} <= {201, 429, 503}
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code != 201)


async def test_a_turn_goes_to_the_one_that_waits_longest() -> None:
    shares = FairShare(1, 10)
    await shares.enter("org")
    order: list[int] = []

    async def work(number: int) -> None:
        await shares.enter("org")
        order.append(number)
        shares.leave("org")

    tasks = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    shares.leave("org")
    await asyncio.gather(*tasks)
    assert order == [0, 1, 2]
    assert shares._running == {}
    assert shares._waiters == {}


async def test_waiting_ends_in_time_and_leaves_the_places_as_they_were() -> None:
    shares = FairShare(1, 0.01)
    await shares.enter("org")
    with pytest.raises(RateLimited):
        await shares.enter("org")
    shares.leave("org")
    await shares.enter("org")
    shares.leave("org")
    assert shares._running == {}


async def test_a_request_that_waits_too_long_for_others_of_its_organisation_gets_429_and_no_traceback(
    services: Services, api: ApiClient, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = FairShare(1, 0.01)
    monkeypatch.setattr(services.place_orders, "_shares", shares)
    await shares.enter(world.ours_test.scope.organisation_id)
    with capture_logs() as lines:
        answer = await api.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}})
    assert (answer.status_code, answer.json()["error"]["error_code"]) == (429, "rate_limited")
    assert "your organisation" in answer.json()["error"]["message"]
    assert answer.headers["retry-after"] == "2"
    assert [line["event"] for line in lines] == ["request"]
    theirs = api.as_key(world.theirs_test.key)
    assert (await theirs.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}})).status_code == 201


async def test_a_burst_of_requests_looks_up_its_key_and_its_account_once(
    services: Services, api: ApiClient, world: World
) -> None:
    """After the start of a process, or when a copy has expired. Otherwise they would need a connection each."""
    for table in ("api_keys", "accounts"):
        services.authenticator._keys.drop(hash_key(world.ours_test.key.encode()))
        services.directory.forget_terms(world.ours_test.scope)
        async with services.database.transaction() as tx:
            await tx.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            body = {"mass": {"amount": "1", "unit": "t"}, "idempotency_key": "one"}
            burst = [asyncio.create_task(api.post("/v1/orders/by-mass", body)) for _ in range(100)]
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = $1::regclass"
            while not await tx.fetchval(waiting, table):
                continue
            # All of them wait for the one lookup, which has the only other connection.
            assert services.database._count == len(services.database._idle) + 2, table
        answers = await asyncio.gather(*burst)
        assert {answer.status_code for answer in answers} <= {200, 201}
        assert len({answer.json()["id"] for answer in answers}) == 1


async def test_a_cancelled_request_does_not_stop_the_lookup_of_others() -> None:
    flight: SingleFlight[str, int] = SingleFlight()
    go, calls = asyncio.Event(), []

    async def look_up() -> int:
        calls.append(1)
        await go.wait()
        return len(calls)

    async def fail() -> int:
        raise ServiceUnavailable

    first, second = (asyncio.create_task(flight.run("key", look_up)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    flight.forget("key")
    # Asked after a change: what the running lookup finds may be outdated.
    third = asyncio.create_task(flight.run("key", look_up))
    await asyncio.sleep(0)
    go.set()
    assert (await second, await third, len(calls)) == (2, 2, 2)
    with pytest.raises(ServiceUnavailable):
        await flight.run("key", fail)
    assert flight._running == {}


def test_an_outage_is_not_logged_for_every_item_of_a_batch() -> None:
    """A tenant that sends more batches than are written in time had a traceback in the log for each of its orders."""
    with capture_logs() as lines:
        refusals = [refusal_of_item(QueueTimeout("not in time"), "item_failed") for _ in range(100)]
        assert isinstance(refusal_of_item(ZeroDivisionError(), "item_failed"), InternalError)
    assert all(isinstance(each, ServiceUnavailable) for each in refusals)
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["item_failed"]
