"""All scenarios, in the order in which they are played."""

from chaos.scenarios import bad_receivers, database, kills, several_workers
from chaos.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    *kills.SCENARIOS,
    *several_workers.SCENARIOS,
    *database.SCENARIOS,
    *bad_receivers.SCENARIOS,
)
