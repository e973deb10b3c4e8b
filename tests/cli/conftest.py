import pytest

from tests.support.command import Operator
from tonne.db.pool import Database


@pytest.fixture
def operator(furnished_db: Database) -> Operator:
    return Operator(furnished_db._url)
