import pytest

from tests.verify.seller import Seller


@pytest.fixture(scope="session")
def seller() -> Seller:
    """RSA keys take long to make."""
    return Seller()
