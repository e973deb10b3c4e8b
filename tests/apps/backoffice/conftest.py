from collections.abc import Callable

import pytest

from tests.apps.dashboard.conftest import clock, person
from tests.support.people import Person, operator
from tonne.apps.wiring.app import Services

__all__ = ["clock", "person"]


@pytest.fixture
async def olga(services: Services, person: Callable[[], Person]) -> Person:
    """An operator who gave a second factor."""
    olga = person()
    await operator(services, olga)
    return olga
