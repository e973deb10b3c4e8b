from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.support.clock import ManualClock
from tests.support.people import Person
from tonne.apps.wiring.app import Services, build_app


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def person(services: Services) -> AsyncIterator[Callable[[], Person]]:
    """Makes people, each with cookies of their own."""
    app, clients = build_app(services), list[httpx.AsyncClient]()

    def make() -> Person:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tonne.test")
        clients.append(client)
        return Person(client)

    yield make
    for client in clients:
        await client.aclose()
