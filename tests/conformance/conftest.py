"""One service for the tests of a process that need it."""

import asyncio
import secrets
from collections.abc import Iterator

import pytest

from tests.conformance.own_installation import OwnInstallation, own_installation
from tests.conftest import EMPTY, Server


@pytest.fixture(scope="package")
def own(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnInstallation]:
    """With the settings of the demo, except for the database: starting a second PostgreSQL takes long."""
    name = asyncio.run(server.clone_of(EMPTY))
    settings = {"database_url": server.url(name), "secret_key": secrets.token_urlsafe(32)}
    with own_installation(tmp_path_factory.mktemp("conformance"), **settings) as service:
        yield service
    asyncio.run(server.drop(name))
