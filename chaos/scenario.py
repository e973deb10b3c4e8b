"""What a scenario is, and the list of all."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from chaos.cluster import SHORT_TIMES, Cluster

Play = Callable[[Cluster], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """`play` injects faults and waits until everything is delivered. The checker reads the records afterwards."""

    name: str
    play: Play
    within_s: float
    settings: Mapping[str, object]
    # Part of `--quick`.
    quick: bool
    # Scenarios of a family run only if they or the family are named.
    family: str | None
    # Whether the api of the cluster is started before.
    api: bool


# In the order in which they are defined, which is the order in which they run.
SCENARIOS: list[Scenario] = []


def scenario(
    name: str,
    *,
    within_s: float = 60.0,
    settings: Mapping[str, object] = SHORT_TIMES,
    quick: bool = False,
    family: str | None = None,
    api: bool = True,
) -> Callable[[Play], Play]:
    def register(play: Play) -> Play:
        SCENARIOS.append(Scenario(name, play, within_s, settings, quick, family, api))
        return play

    return register
