from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from tests.support.clock import ManualClock
from tests.support.people import Person
from tonne.platform.http.asgi import AsgiApp


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def person(app: AsgiApp) -> AsyncIterator[Callable[[], Person]]:
    """Makes people, each with cookies of their own."""
    clients = list[httpx.AsyncClient]()

    def make() -> Person:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://tonne.test")
        clients.append(client)
        return Person(client)

    yield make
    for client in clients:
        await client.aclose()
