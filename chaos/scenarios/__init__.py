"""All scenarios, in the order in which they are played."""

from chaos.scenarios import bad_receivers, changes, kills, life_kills, life_load, load, outages, parked, several_workers
from chaos.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *kills.SCENARIOS,
    *several_workers.SCENARIOS,
    *outages.SCENARIOS,
    *bad_receivers.SCENARIOS,
    *changes.SCENARIOS,
    *parked.SCENARIOS,
    *load.SCENARIOS,
    *life_kills.SCENARIOS,
    *life_load.SCENARIOS,
)
