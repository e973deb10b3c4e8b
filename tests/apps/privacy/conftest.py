import httpx
import pytest

from tests.apps.privacy.scene import Persons
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services


@pytest.fixture
def persons(services: Services, world: World, api: ApiClient, browser: httpx.AsyncClient) -> Persons:
    return Persons(services, world, api, browser)
