from tests.apps.dashboard.conftest import clock, person

__all__ = ["clock", "person"]
