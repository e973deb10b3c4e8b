"""One service for the tests of a process that need it."""

import asyncio
import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.own_installation import RunningInstallation, own_installation
from tests.conftest import EMPTY, Server


@pytest.fixture(scope="package")
def own(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningInstallation]:
    with _installed(server, tmp_path_factory.mktemp("conformance")) as service:
        yield service


@pytest.fixture(scope="module")
def impatient(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningInstallation]:
    """It repeats deliveries after shorter pauses."""
    with _installed(server, tmp_path_factory.mktemp("impatient"), webhook_time_scale=0.05) as service:
        yield service


@contextlib.contextmanager
def _installed(server: Server, folder: Path, **settings: object) -> Iterator[RunningInstallation]:
    """With the settings of the demo, except for the database: starting a second PostgreSQL takes long."""
    name = asyncio.run(server.clone_of(EMPTY))
    needed = {"database_url": server.url(name), "secret_key": secrets.token_urlsafe(32)}
    with own_installation(folder, **needed, **settings) as service:
        yield service
    asyncio.run(server.drop(name))
