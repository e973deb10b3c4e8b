import httpx
import pytest

from tests.checkout.shopper import Shopper, make_link
from tests.support.world import World
from tonne.app import Services
from tonne.checkout.link_model import OffsetLink


@pytest.fixture
def shopper(browser: httpx.AsyncClient) -> Shopper:
    return Shopper(browser)


@pytest.fixture
async def link(services: Services, world: World) -> OffsetLink:
    """A link of a test account, with the account's default bundles and no limits."""
    return await make_link(services, world.ours_test.scope)
