import pytest

from tests.retirements.shop import Calendar, Shop
from tests.support.world import World
from tonne.app import Services
from tonne.base.scope import Mode
from tonne.base.settings import Settings
from tonne.db.pool import Database


@pytest.fixture
def calendar() -> Calendar:
    return Calendar()


@pytest.fixture
def services(furnished_db: Database, settings: Settings, calendar: Calendar) -> Services:
    """As everywhere, but the story sets its clock."""
    return Services(furnished_db, settings, clock=calendar)


@pytest.fixture
def live(services: Services, world: World, calendar: Calendar) -> Shop:
    return Shop(services, world, calendar, Mode.LIVE)


@pytest.fixture
def trial(services: Services, world: World, calendar: Calendar) -> Shop:
    """The same in test mode."""
    return Shop(services, world, calendar, Mode.TEST)
