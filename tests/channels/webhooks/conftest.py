"""Receivers with trusted certificates, and back-off pauses that are a thousand times shorter."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from tests.apps.dashboard.conftest import person
from tests.channels.webhooks.stage import Stage
from tests.support.receivers import Receiver, receiving
from tests.support.tls import Authority
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings

__all__ = ["person"]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def settings(settings: Settings, authority: Authority, tmp_path: Path) -> Settings:
    """Back-off pauses take a thousandth of the time; receivers on this machine are allowed."""
    return msgspec.structs.replace(
        settings,
        data_dir=str(tmp_path),
        webhook_allow_private="127.0.0.0/8",
        webhook_ca_file=str(authority.ca_file),
        webhook_time_scale=0.001,
        worker_poll_s=0.005,
    )


@pytest.fixture
async def receiver(authority: Authority) -> AsyncIterator[Receiver]:
    async with receiving(authority.context()) as receiver:
        yield receiver


@pytest.fixture
async def stage(services: Services, world: World) -> AsyncIterator[Stage]:
    """All invariants must hold at the end of every test."""
    stage = Stage(services, world.ours_test)
    yield stage
    await stage.leave()
    assert await stage.breaches() == {}
