import pytest

from tests.retirements.shop import Calendar, Shop
from tests.world import World
from tonne.app import House
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.pool import Database


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def house(furnished_db: Database, settings: Settings, calendar: Calendar) -> House:
    """As everywhere, but the story sets its clock."""
    return House(furnished_db, settings, clock=calendar)


@pytest.fixture
def live(house: House, world: World, calendar: Calendar) -> Shop:
    return Shop(house, world, calendar, Mode.LIVE)


@pytest.fixture
def trial(house: House, world: World, calendar: Calendar) -> Shop:
    """The same in test mode."""
    return Shop(house, world, calendar, Mode.TEST)
