from tests.supply.retirements.conftest import clock, live, operator, trial

__all__ = ["clock", "live", "operator", "trial"]
