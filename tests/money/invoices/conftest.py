import msgspec
import pytest

from tests.money.invoices.billing import ADA, Billing
from tests.money.invoices.card_billing import CardBilling
from tests.support.clock import MARCH, ManualClock
from tests.support.command import Operator
from tests.support.world import SELLER, World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """With what live invoices need."""
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
async def billing(populated_db: Database, settings: Settings, world: World) -> Billing:
    """On 1 March, with an administrator."""
    clock = ManualClock(MARCH)
    billing = Billing(Services(populated_db, settings, clock), clock)
    await billing.add_admins(world.ours_live.scope.organisation_id, ADA)
    return billing


@pytest.fixture
def operator(populated_db: Database) -> Operator:
    return Operator(populated_db._url)


@pytest.fixture
async def card_billing(populated_db: Database, settings: Settings, world: World) -> CardBilling:
    """On 1 March, with an administrator."""
    clock = ManualClock(MARCH)
    scene = CardBilling(Services(populated_db, settings, clock), world.ours_test, clock)
    await scene.add_admin()
    return scene
