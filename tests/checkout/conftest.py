from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.checkout.scene import Rows
from tests.checkout.shopper import Shopper, make_link
from tests.world import World
from tonne.app import Services, build_app
from tonne.checkout.link_model import OffsetLink


@pytest.fixture
async def browser(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, follows nothing by itself, and is nobody's client."""
    transport = httpx.ASGITransport(build_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


@pytest.fixture
def shopper(browser: httpx.AsyncClient) -> Shopper:
    return Shopper(browser)


@pytest.fixture
async def link(services: Services, world: World) -> OffsetLink:
    """Of a test account, with the account's own selection and everything left open."""
    return await make_link(services, world.ours_test.scope)


@pytest.fixture
def rows(services: Services) -> Rows:
    async def fetch(statement: str) -> list[dict[str, Any]]:
        async with services.database.connection() as connection:
            return [dict(row) for row in await connection.fetch(statement)]

    return fetch
