import pytest

from tests.money.cards.card_scene import CardScene
from tests.support.world import World
from tonne.apps.wiring.app import Services


@pytest.fixture
def scene(services: Services, world: World) -> CardScene:
    return CardScene(services, world.ours_test)
