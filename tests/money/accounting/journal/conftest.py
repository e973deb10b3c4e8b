import msgspec
import pytest

from tests.support.clock import MARCH, ManualClock
from tests.support.world import SELLER
from tonne.platform.settings.settings import Settings


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(MARCH)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With what live invoices need."""
    return msgspec.structs.replace(settings, **SELLER, seller_country="DE", seller_vat_id="DE136695976")
