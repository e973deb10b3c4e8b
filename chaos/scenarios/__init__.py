"""All scenarios, in the order in which they are played."""

from chaos.scenarios import kills
from chaos.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (*kills.SCENARIOS,)
