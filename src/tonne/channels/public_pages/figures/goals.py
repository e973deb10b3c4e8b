"""What a total is compared with: goals of the United Nations, and flights."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from tonne.selling.catalogue.model import Project

# One passenger in economy class, one way: 5,540 km (great circle, JFK to LHR) at 0.11704 kg per km, the factor of DESNZ
# 2025 for long-haul flights with radiative forcing.
GRAMS_PER_FLIGHT = 648_402


class Goal(NamedTuple):
    number: int
    # How many projects contribute to it.
    projects_count: int


def goals_of(projects: Iterable[Project]) -> tuple[Goal, ...]:
    """The UN Sustainable Development Goals that the projects contribute to, by number."""
    counts = Counter(number for project in projects for number in set(project.details.un_sdg or ()))
    return tuple(Goal(number, counts[number]) for number in sorted(counts))


def flights_of(grams: int) -> int:
    """Whole flights from New York to London that cause at most these emissions."""
    return grams // GRAMS_PER_FLIGHT
