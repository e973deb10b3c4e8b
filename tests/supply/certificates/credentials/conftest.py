import httpx
import pytest

from tests.supply.certificates.credentials.scene import Verifier
from tests.support.api_client import ApiClient
from tests.support.world import World
from tonne.apps.wiring.app import Services


@pytest.fixture
def verifier(services: Services, world: World, api: ApiClient, browser: httpx.AsyncClient) -> Verifier:
    return Verifier(services, world, api, browser)
