from tests.dashboard.conftest import person

__all__ = ["person"]
