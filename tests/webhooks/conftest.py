"""Receivers with trusted certificates, and back-off pauses that are a thousand times shorter."""

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import trustme

from tests.webhooks.receiver import Receiver, receiving
from tests.webhooks.stage import Stage
from tests.world import World
from tonne.app import Services
from tonne.base.settings import Settings


@dataclass(frozen=True)
class Authority:
    """`ca_file` is what Tonne trusts. The contexts are for servers with good and bad certificates."""

    ca_file: Path
    good: ssl.SSLContext
    expired: ssl.SSLContext
    wrong_name: ssl.SSLContext
    self_signed: ssl.SSLContext


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    ca, stranger = trustme.CA(), trustme.CA()
    path = tmp_path_factory.mktemp("authority") / "ca.pem"
    ca.cert_pem.write_to_path(path)
    names = ("127.0.0.1", "localhost", "hooks.example.com")
    long_ago = datetime.now(UTC) - timedelta(days=400)
    return Authority(
        ca_file=path,
        good=_context(ca.issue_cert(*names)),
        expired=_context(ca.issue_cert(*names, not_before=long_ago, not_after=long_ago + timedelta(days=90))),
        wrong_name=_context(ca.issue_cert("elsewhere.example.com")),
        self_signed=_context(stranger.issue_cert(*names)),
    )


def _context(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    certificate.configure_cert(context)
    return context


@pytest.fixture
def settings(settings: Settings, authority: Authority, tmp_path: Path) -> Settings:
    """Back-off pauses take a thousandth of the time; receivers on this machine are allowed."""
    return msgspec.structs.replace(
        settings,
        data_dir=str(tmp_path),
        webhook_allow_private="127.0.0.0/8",
        webhook_ports="*",
        webhook_ca_file=str(authority.ca_file),
        webhook_time_scale=0.001,
        worker_poll_s=0.005,
    )


@pytest.fixture
async def receiver(authority: Authority) -> AsyncIterator[Receiver]:
    async with receiving(authority.good) as receiver:
        yield receiver


@pytest.fixture
async def services(services: Services) -> AsyncIterator[Services]:
    yield services
    await services.webhooks.close()


@pytest.fixture
async def stage(services: Services, world: World) -> AsyncIterator[Stage]:
    """All invariants must hold at the end of every test."""
    stage = Stage(services, world.ours_test)
    yield stage
    await stage.leave()
    assert await stage.breaches() == {}
