"""Several quantities from shared projects: covered if, and only if, it is possible."""

import itertools
import random

import pytest

from tonne.selling.catalogue.coverage import Demand, cover

CASES = 5_000


def is_possible(demands: list[Demand], free: dict[str, int]) -> bool:
    """Hall's condition: no group of demands wants more than all its projects have."""
    for size in range(1, len(demands) + 1):
        for group in itertools.combinations(demands, size):
            projects = {project_id for demand in group for project_id in demand.project_ids}
            if sum(demand.quantity_grams for demand in group) > sum(free[project_id] for project_id in projects):
                return False
    return True


def test_everything_that_is_possible_is_covered_and_nothing_is_taken_twice() -> None:
    rng = random.Random(5)  # noqa: S311 - repeatable on purpose
    possible = 0
    for _ in range(CASES):
        free = {f"prj_{number}": rng.randint(0, 6) for number in range(rng.randint(1, 4))}
        demands = [
            Demand(rng.randint(1, 6), rng.sample(sorted(free), rng.randint(0, len(free))))
            for _ in range(rng.randint(1, 4))
        ]
        found = cover(demands, free)
        assert (not found.short) == is_possible(demands, free)
        possible += not found.short
        for project_id, grams in free.items():
            assert sum(taken.get(project_id, 0) for taken in found.taken) <= grams
        for i, (demand, taken) in enumerate(zip(demands, found.taken, strict=True)):
            assert set(taken) <= set(demand.project_ids)
            assert all(grams > 0 for grams in taken.values())
            missing = demand.quantity_grams - sum(taken.values())
            assert missing == 0 or (missing > 0 and i in found.short)
    assert CASES / 10 < possible < CASES * 9 / 10


@pytest.mark.parametrize(
    ("demands", "short"),
    [
        ([(10, "a")], set()),
        ([(11, "a")], {0}),
        ([(10, "a"), (10, "a")], {0, 1}),
        ([(10, "ab"), (10, "a")], set()),
        ([(10, "ab"), (11, "a"), (1, "c")], {1}),
        ([(12, "ab"), (9, "a"), (5, "b"), (10, "c")], {0, 1, 2}),
        ([(1, "")], {0}),
    ],
)
def test_demands_that_compete_for_too_few_grams_are_all_short(demands: list[tuple[int, str]], short: set[int]) -> None:
    free = {"a": 10, "b": 10, "c": 10}
    assert cover([Demand(grams, list(projects)) for grams, projects in demands], free).short == short
