import httpx
import pytest

from tests.channels.checkout.shopper import Shopper, make_link
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink


@pytest.fixture
def shopper(browser: httpx.AsyncClient) -> Shopper:
    return Shopper(browser)


@pytest.fixture
async def link(services: Services, world: World) -> OffsetLink:
    """A link of a test account, with the account's default bundles and no limits."""
    return await make_link(services, world.ours_test.scope)
