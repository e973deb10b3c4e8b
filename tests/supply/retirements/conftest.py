import pytest

from tests.supply.retirements.shop import Shop
from tests.support.clock import MARCH, ManualClock
from tests.support.command import Operator
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def live(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


@pytest.fixture
def operator(populated_db: Database, settings: Settings) -> Operator:
    return Operator(populated_db._url, secret_key=settings.secret_key)


@pytest.fixture
def trial(services: Services, world: World, clock: ManualClock) -> Shop:
    """The same in test mode."""
    return Shop(services, world, clock, Mode.TEST)
