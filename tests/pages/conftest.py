from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.pages.scene import Rows
from tests.pages.shopper import Shopper, make_link
from tests.world import World
from tonne.app import House, build_app
from tonne.payments.offset_link_model import OffsetLink


@pytest.fixture
async def browser(house: House) -> AsyncIterator[httpx.AsyncClient]:
    """Keeps cookies, follows nothing by itself, and is nobody's client."""
    transport = httpx.ASGITransport(build_app(house), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        yield client


@pytest.fixture
def shopper(browser: httpx.AsyncClient) -> Shopper:
    return Shopper(browser)


@pytest.fixture
async def link(house: House, world: World) -> OffsetLink:
    """Of a test account, with the account's own selection and everything left open."""
    return await make_link(house, world.ours_test.scope)


@pytest.fixture
def rows(house: House) -> Rows:
    async def fetch(statement: str) -> list[dict[str, Any]]:
        async with house.database.connection() as connection:
            return [dict(row) for row in await connection.fetch(statement)]

    return fetch
