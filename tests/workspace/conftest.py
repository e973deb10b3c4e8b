from tests.dashboard.conftest import clock, person

__all__ = ["clock", "person"]
