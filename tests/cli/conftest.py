import pytest

from tests.support.command import Operator
from tonne.base.settings import Settings
from tonne.db.pool import Database


@pytest.fixture
def operator(populated_db: Database, settings: Settings) -> Operator:
    return Operator(populated_db._url, secret_key=settings.secret_key)
