import pytest

from tests.support.command import Operator
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings


@pytest.fixture
def operator(populated_db: Database, settings: Settings) -> Operator:
    return Operator(populated_db._url, secret_key=settings.secret_key)
