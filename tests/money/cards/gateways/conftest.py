from collections.abc import Iterator

import pytest

from tests.money.cards.gateways.localstripe_server import localstripe


@pytest.fixture(scope="session")
def localstripe_url() -> Iterator[str]:
    """One server for all tests of a process: each test creates its own customers."""
    with localstripe() as url:
        yield url
