"""Settings that keep events for 60 days, and archive everything into a folder of the test."""

from pathlib import Path

import msgspec
import pytest

from tests.apps.privacy.retention.months import Months
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return msgspec.structs.replace(
        settings,
        events_days=60,
        archive_tables="events,webhook_attempts,mails",
        archive_dir=str(tmp_path / "archive"),
        webhook_allow_private="127.0.0.0/8",
    )


@pytest.fixture
async def months(services: Services, world: World, settings: Settings) -> Months:
    months = Months(services, world.ours_test, settings)
    await months.open()
    return months
