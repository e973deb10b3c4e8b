from collections.abc import AsyncIterator

import pytest

from tests.money.cards.payer import BILLING, PayerScene, payer_scene
from tests.support.clock import ManualClock
from tests.support.world import World
from tonne.apps.wiring.app import Services


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def payer(services: Services, world: World, clock: ManualClock) -> AsyncIterator[PayerScene]:
    """Its receipts have an address of their own."""
    async with payer_scene(services, world.ours_test, clock) as scene:
        await scene.mail_receipts_to(BILLING)
        yield scene
