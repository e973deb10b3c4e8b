"""One organisation whose requests all wait leaves connections to the others."""

import asyncio

import pytest

from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.app import Services
from tonne.http.errors import ServiceUnavailable
from tonne.http.fair_share import FairShare

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
        answer = await asyncio.wait_for(api.as_key(world.theirs_test.key).get("/v1/orders"), 1)
        assert answer.status_code == 200
        assert (await api.http.get("/health/ready")).status_code == 200
    answers = await asyncio.gather(*stuck)
    assert {answer.status_code for answer in answers} <= {201, 503}
    assert all(answer.headers["retry-after"] for answer in answers if answer.status_code == 503)


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
    with pytest.raises(ServiceUnavailable):
        await shares.enter("org")
    shares.leave("org")
    await shares.enter("org")
    shares.leave("org")
    assert shares._running == {}
