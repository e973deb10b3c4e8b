import pytest

from tests.supply.transparency.scene import LogScene
from tests.support.clock import MARCH, ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.values.context import Mode


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def scene(services: Services, world: World, clock: ManualClock) -> LogScene:
    return LogScene(services, world, clock, Mode.LIVE)
