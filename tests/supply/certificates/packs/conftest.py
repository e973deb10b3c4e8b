from tests.apps.dashboard.conftest import person

__all__ = ["person"]
