import pytest

from tests.support.command import Operator
from tonne.db.pool import Database


@pytest.fixture
def operator(populated_db: Database) -> Operator:
    return Operator(populated_db._url)
