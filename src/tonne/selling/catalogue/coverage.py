"""Whether the projects of several bundles together cover several quantities. No I/O."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from msgspec import Struct


class Demand(Struct, frozen=True):
    """Grams that may come from any of these projects."""

    quantity_grams: int
    project_ids: Sequence[str]


class Coverage(Struct, frozen=True):
    """How much of each project each demand gets, and the demands that compete for too few grams, by their indexes."""

    taken: list[dict[str, int]]
    short: set[int]


def cover(demands: Sequence[Demand], free_grams: Mapping[str, int]) -> Coverage:
    """Cover as much as possible. `short` also has the demands that got the grams another one lacks.

    A maximum flow from demands through projects, by augmenting paths. Two bundles may share a project: comparing each
    quantity with the free grams of its bundle would count them twice.
    """
    left = {id_: max(0, free_grams.get(id_, 0)) for demand in demands for id_ in demand.project_ids}
    taken: list[dict[str, int]] = [{} for _ in demands]
    short: set[int] = set()
    for i, demand in enumerate(demands):
        missing = demand.quantity_grams
        while missing:
            path, reached = _find_path(i, demands, taken, left)
            if not path:
                short |= reached
                break
            missing -= _shift(path, missing, taken, left)
    return Coverage([{id_: grams for id_, grams in each.items() if grams} for each in taken], short)


def _find_path(
    start: int, demands: Sequence[Demand], taken: Sequence[Mapping[str, int]], left: Mapping[str, int]
) -> tuple[list[tuple[int, str]], set[int]]:
    """The shortest way to a project with free grams, and the demands that were reached if there is none.

    On the way, each demand takes grams of its project from the next demand, which goes on to another project.
    """
    paths: list[list[tuple[int, str]]] = [[]]
    ends, reached, seen = [start], {start}, set[str]()
    for path, demand in zip(paths, ends, strict=False):
        for id_ in demands[demand].project_ids:
            if id_ in seen:
                continue
            seen.add(id_)
            step = [*path, (demand, id_)]
            if left[id_]:
                return step, reached
            for other, grams in enumerate(taken):
                if grams.get(id_) and other not in reached:
                    reached.add(other)
                    paths.append(step)
                    ends.append(other)
    return [], reached


def _shift(path: Sequence[tuple[int, str]], needed: int, taken: Sequence[dict[str, int]], left: dict[str, int]) -> int:
    last_project = path[-1][1]
    given = [taken[demand][id_] for (_, id_), (demand, _) in pairwise(path)]
    grams = min([needed, left[last_project], *given])
    left[last_project] -= grams
    for place, (demand, id_) in enumerate(path):
        taken[demand][id_] = taken[demand].get(id_, 0) + grams
        if place:
            taken[demand][path[place - 1][1]] -= grams
    return grams
