import pytest

from tests.retirements.shop import Shop
from tests.support.clock import MARCH, ManualClock
from tests.support.world import World
from tonne.app import Services
from tonne.base.scope import Mode


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def live(services: Services, world: World, clock: ManualClock) -> Shop:
    return Shop(services, world, clock, Mode.LIVE)


@pytest.fixture
def trial(services: Services, world: World, clock: ManualClock) -> Shop:
    """The same in test mode."""
    return Shop(services, world, clock, Mode.TEST)
