import pytest

from tests.money.refunds.refund_scene import RefundScene
from tests.support.world import World
from tonne.apps.wiring.app import Services


@pytest.fixture
def scene(services: Services, world: World) -> RefundScene:
    return RefundScene(services, world.ours_test)
